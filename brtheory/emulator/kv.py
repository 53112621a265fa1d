"""Prefilled KV under leases, without I/O: who pins what until when, and what became of the rest.

A prefill server pins a prompt's KV under a handle; a decode rank claims it once, which frees it at
the source. Unclaimed KV is freed when its lease ends. Handles are remembered (boundedly) after
that, so that a late, second or foreign claim is told apart.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Claim(StrEnum):
    """Verdict on a claim; all but CLAIMED leave everything as it was."""

    CLAIMED = "claimed"
    USED = "used"
    EXPIRED = "expired"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Handle:
    """What names pinned KV on the wire: the engine that holds it and its name there."""

    engine_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Pin:
    """KV held for a decode rank.

    Parameters
    ----------
    tokens
        KV tokens, >= 1.
    expires_s
        Time at which the lease ends.
    parameters
        The transfer parameters given to the client; a claim must bring them unchanged.
    """

    tokens: int
    expires_s: float
    parameters: object = None


class KvLedger:
    """The one owner of pins of all prefill servers.

    Parameters
    ----------
    lease_s
        Seconds a pin lasts, > 0.
    memory
        Past handles remembered.
    """

    def __init__(self, lease_s: float, *, memory: int = 65_536) -> None:
        self.lease_s = lease_s
        self._memory = memory
        self.counts: Counter[str] = Counter()
        # Ordered: the first of a plain dict is slow to find once many before it are gone.
        self._pins: OrderedDict[Handle, Pin] = OrderedDict()
        self._past: OrderedDict[Handle, Claim] = OrderedDict()
        self._listeners: list[Callable[[], None]] = []

    def on_freed(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever pinned KV is freed."""
        self._listeners.append(listener)

    def pin(self, handle: Handle, tokens: int, *, now_s: float, parameters: object = None) -> None:
        """Pin KV until the lease ends."""
        self._pins[handle] = Pin(tokens, now_s + self.lease_s, parameters)
        self._past.pop(handle, None)
        self.counts["pinned"] += 1

    def claim(
        self, handle: Handle, tokens: int, *, now_s: float, parameters: object = None
    ) -> Claim:
        """Take KV over for a prompt of ``tokens`` tokens, at most once."""
        self.expire(now_s)
        pin = self._pins.get(handle)
        if pin is None:
            verdict = self._past.get(handle, Claim.FOREIGN)
        elif pin.tokens != tokens or pin.parameters != parameters:
            verdict = Claim.FOREIGN
        else:
            verdict = Claim.CLAIMED
            self._free(handle, Claim.USED)
        self.counts[verdict] += 1
        return verdict

    def expire(self, now_s: float) -> None:
        """Free what has outlived its lease; what ends exactly now has."""
        # Leases are equally long, so pins expire in the order in which they were made.
        while self._pins:
            handle, pin = next(iter(self._pins.items()))
            if pin.expires_s > now_s:
                return
            self.counts["stranded"] += 1
            self._free(handle, Claim.EXPIRED)

    def holds(self, handle: Handle) -> bool:
        """Whether KV is pinned under this handle."""
        return handle in self._pins

    def pinned(self, engine_id: str) -> tuple[int, int]:
        """Requests and KV tokens pinned on one engine."""
        tokens = [pin.tokens for handle, pin in self._pins.items() if handle.engine_id == engine_id]
        return len(tokens), sum(tokens)

    def next_expiry_s(self) -> float | None:
        """Time at which the next lease ends, None without pins."""
        return next((pin.expires_s for pin in self._pins.values()), None)

    def drop(self, engine_id: str) -> None:
        """Forget an engine's pins and handles: it died."""
        for handle in [handle for handle in self._pins if handle.engine_id == engine_id]:
            self._free(handle, Claim.FOREIGN)

    def _free(self, handle: Handle, fate: Claim) -> None:
        del self._pins[handle]
        self._past[handle] = fate
        if len(self._past) > self._memory:
            self._past.popitem(last=False)
        for listener in self._listeners:
            listener()
