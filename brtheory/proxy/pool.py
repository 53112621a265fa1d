"""The bounded pool: prefilled requests that wait for a replica while a lease runs.

A pooled request pins KV on its prefill node, so the pool is bounded by requests, tokens and bytes,
and each request has two times: ``bind_by_s``, at which it is bound whatever the loads are, and
``lease_end_s``, after which its blocks may be gone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.errors import InputError

BIND_BY_SHARE = 0.8
"""Share of the lease after which a request is bound anyway: the rest is for the transfer."""


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of the pool, prefills in flight included.

    Parameters
    ----------
    requests
        Most requests, >= 1.
    tokens
        Most prompt tokens, >= 1.
    body_bytes
        Most bytes of bodies held, >= 1.
    """

    requests: int = 256
    tokens: int = 4_000_000
    body_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in ("requests", "tokens", "body_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"pool.{name}", "an integer >= 1", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Pooled:
    """A request in the pool.

    Parameters
    ----------
    request
        As routers see it.
    size
        Bytes of its body.
    prefix
        Hash of its prompt, None where it has none.
    bind_by_s, lease_end_s
        See the module; infinite where there is no lease.
    avoid
        Replicas on whose nodes it has failed: used only where no other lives.
    """

    request: Request
    size: int
    prefix: int | None = None
    bind_by_s: float = float("inf")
    lease_end_s: float = float("inf")
    avoid: frozenset[str] = frozenset()


def lease_times(prefilled_s: float, lease_s: float | None) -> tuple[float, float]:
    """``bind_by_s`` and ``lease_end_s`` of KV pinned at ``prefilled_s``."""
    if lease_s is None:
        return float("inf"), float("inf")
    return prefilled_s + BIND_BY_SHARE * lease_s, prefilled_s + lease_s


@dataclass
class Room:
    """What prefills in flight and pooled requests take of the limits, counted together."""

    limits: PoolLimits
    requests: int = 0
    tokens: int = 0
    body_bytes: int = 0

    def fits(self, *, tokens: int, size: int) -> bool:
        """Whether one more prefill may start; an empty pool takes any single request."""
        if self.requests == 0:
            return True
        return (
            self.requests < self.limits.requests
            and self.tokens + tokens <= self.limits.tokens
            and self.body_bytes + size <= self.limits.body_bytes
        )

    def take(self, *, tokens: int, size: int) -> "Place":
        """Count one more prefill."""
        return Place(self, tokens, size)


class Place:
    """A request's share of the room, from before its prefill until it is bound or over."""

    __slots__ = ("_room", "_size", "_tokens", "given_back")

    def __init__(self, room: Room, tokens: int, size: int) -> None:
        self._room, self._tokens, self._size = room, tokens, size
        self.given_back = False
        room.requests += 1
        room.tokens += tokens
        room.body_bytes += size

    def correct(self, tokens: int) -> None:
        """Replace the estimated prompt tokens by the true ones."""
        self._room.tokens += tokens - self._tokens
        self._tokens = tokens

    def give_back(self) -> None:
        """Leave the room; a second call does nothing."""
        if not self.given_back:
            self.given_back = True
            self._room.requests -= 1
            self._room.tokens -= self._tokens
            self._room.body_bytes -= self._size


@dataclass
class WaitingPool:
    """The pooled requests, oldest first.

    Attributes
    ----------
    tokens
        Their prompt tokens.
    expired
        How many passed the end of their lease in the pool.
    """

    tokens: int = 0
    expired: int = 0
    _requests: PromptPool = field(default_factory=PromptPool)
    _entries: dict[int, Pooled] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._entries

    @property
    def requests(self) -> Sequence[Request]:
        """As a tick sees them."""
        return self._requests

    def find(self, request_id: int) -> Pooled:
        """The entry of an id."""
        return self._entries[request_id]

    def add(self, pooled: Pooled) -> None:
        """Put a prefilled request in, at its place by ready time."""
        self._requests.add(pooled.request)
        self._entries[pooled.request.id] = pooled
        self.tokens += pooled.request.prompt_tokens

    def take(self, ids: Iterable[int]) -> list[Pooled]:
        """Take bound, expired or cancelled requests out, in the order of ``ids``."""
        requests = self._requests.take(ids)
        self.tokens -= sum(request.prompt_tokens for request in requests)
        return [self._entries.pop(request.id) for request in requests]

    def take_expired(self, now_s: float) -> list[Pooled]:
        """Take out, and count, those whose lease has ended."""
        gone = [id_ for id_, entry in self._entries.items() if entry.lease_end_s <= now_s]
        self.expired += len(gone)
        return self.take(gone)

    def due(self, now_s: float) -> list[Pooled]:
        """Those that must be bound now whatever the loads are, the most urgent first."""
        late = [entry for entry in self._entries.values() if entry.bind_by_s <= now_s]
        return sorted(late, key=lambda entry: entry.bind_by_s)

    def next_deadline_s(self, now_s: float) -> float:
        """The next time after now at which ``due`` or ``take_expired`` has something new."""
        times = (t for e in self._entries.values() for t in (e.bind_by_s, e.lease_end_s))
        return min((t for t in times if t > now_s), default=float("inf"))
