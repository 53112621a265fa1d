"""Books of the prefill nodes: what they compute, what they keep pinned, which one is next.

Choices rest on the proxy's own books, which are exact and immediate; a node's reported KV usage
only closes it. (Routing by polled numbers herds everyone to the node that was idle a second ago.)
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from brtheory.errors import InputError

FULL_USAGE = 0.95
"""Reported share of a node's KV blocks in use from which on it gets no prefill."""


@dataclass(slots=True)
class PrefillBooks:
    """One prefill node.

    Parameters
    ----------
    kv_tokens
        KV tokens it can pin, None where that is not known.
    computing
        Prompt tokens (estimated) of legs in flight.
    pinned
        Prompt tokens held for requests of the pool.
    stranded
        (lease end, tokens) of KV that nobody will fetch, oldest first.
    usage
        Share of KV blocks in use as the node reports it, None where it does not.
    """

    kv_tokens: int | None = None
    computing: int = 0
    legs: int = 0
    pinned: int = 0
    stranded: list[tuple[float, int]] = field(default_factory=list)
    usage: float | None = None

    def held(self, now_s: float) -> int:
        """Tokens computing, pinned and stranded now."""
        self.stranded = [(end, tokens) for end, tokens in self.stranded if end > now_s]
        return self.computing + self.pinned + sum(tokens for _, tokens in self.stranded)

    def takes(self, tokens: int, *, now_s: float) -> bool:
        """Whether a prompt fits beside what is held; an empty node takes any prompt."""
        if self.usage is not None and self.usage >= FULL_USAGE:
            return False
        held = self.held(now_s)
        return self.kv_tokens is None or held == 0 or held + tokens <= self.kv_tokens


class PrefillNodes:
    """Books of all prefill nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, PrefillBooks] = {}
        self._turn = 0
        self.stranded_requests = 0
        self.stranded_tokens = 0

    def add(self, name: str, *, kv_tokens: int | None = None) -> None:
        """Start books for a node.

        Raises
        ------
        InputError
            If the name is in use or the capacity is below 1.
        """
        if name in self.nodes:
            raise InputError("prefill node", "names used once", repr(name))
        if kv_tokens is not None and kv_tokens < 1:
            raise InputError(f"{name}.kv_tokens", "an integer >= 1", kv_tokens)
        self.nodes[name] = PrefillBooks(kv_tokens)

    def remove(self, name: str) -> None:
        """Forget a node; KV of it that is still pinned is given back to no one."""
        del self.nodes[name]

    def choose(
        self, live: Sequence[str], *, tokens: int, now_s: float, avoid: Collection[str] = ()
    ) -> str | None:
        """The node for the next prompt: the one that computes least, ties in turn.

        Parameters
        ----------
        live
            Nodes that may be used.
        tokens
            Estimated prompt tokens.
        now_s
            The clock.
        avoid
            Nodes that failed for this request; used only where no other has room.

        Returns
        -------
        str or None
            None where no node has room: the prompt must wait.
        """
        takers = [name for name in live if self.nodes[name].takes(tokens, now_s=now_s)]
        open_ = [name for name in takers if name not in avoid] or takers
        if not open_:
            return None
        self._turn += 1
        turned = open_[self._turn % len(open_) :] + open_[: self._turn % len(open_)]
        return min(turned, key=lambda name: self.nodes[name].computing)

    def start(self, name: str, tokens: int) -> None:
        """Count a leg in flight."""
        self.nodes[name].computing += tokens
        self.nodes[name].legs += 1

    def stop(self, name: str, tokens: int) -> None:
        """Count a leg no longer; a node removed meanwhile has no books."""
        if name in self.nodes:
            self.nodes[name].computing -= tokens
            self.nodes[name].legs -= 1

    def pin(self, name: str, tokens: int) -> None:
        """Count KV pinned for a request."""
        if name in self.nodes:
            self.nodes[name].pinned += tokens

    def spend(self, name: str, tokens: int) -> None:
        """Count KV fetched by decode."""
        if name in self.nodes:
            self.nodes[name].pinned -= tokens

    def strand(self, name: str, tokens: int, *, until_s: float) -> None:
        """Count KV that nobody will fetch: it stays on the node until its lease ends."""
        self.stranded_requests += 1
        self.stranded_tokens += tokens
        if name in self.nodes:
            self.nodes[name].pinned -= tokens
            self.nodes[name].stranded.append((until_s, tokens))
