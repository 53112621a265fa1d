"""The desk: all books of the proxy, and what can happen between them at a moment.

It owns line, room, prefill books, pool, mirror and router. Requests at the desk are passages.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from brtheory.proxy.connectors import Connector
from brtheory.proxy.counting import ChunkRatio
from brtheory.proxy.fleet import Fleet
from brtheory.proxy.gate import Gate, Ticket
from brtheory.proxy.mirror import Hold, LoadMirror
from brtheory.proxy.pool import Room, WaitingPool
from brtheory.proxy.prefill import PrefillNodes
from brtheory.proxy.ticker import Ticker

STEP_MEMORY = 0.1
PACE_MEMORY = 64
"""Releases of slots from which their rate is estimated."""
BURST = 16
"""How much faster than in the window slots may seem to be freed when all are at once."""
CHOICE = 4
"""Requests a router should have to choose from."""
LEASE_SHARE = 0.4
"""Share of a lease within which what is prefilled should find a slot."""


class Waiting(Protocol):
    """A request in the pool, as the desk knows it."""

    def bind(self, hold: Hold, *, forced: bool) -> None:
        """Take over a load entry."""

    def expire(self) -> None:
        """Its lease has ended."""


def _ignore() -> None:
    """Nobody listens."""


@dataclass
class Desk:
    """All books of the proxy.

    Parameters
    ----------
    fleet, connector
        Who serves, and how KV moves.
    gate, room, prefills, pool, mirror, ticker
        Line, bounds, prefill nodes, pool, decode replicas, router.
    clock
        Seconds.
    prefill_again
        Whether a request whose lease ended is prefilled once more (else 503).
    longest_wait_s
        Longest in the pool where there is no lease.
    default_output
        Output tokens reserved for a request without a limit of its own.
    on_change
        Called when a dispatch may have something to do.
    """

    fleet: Fleet
    connector: Connector
    gate: Gate
    room: Room
    prefills: PrefillNodes
    pool: WaitingPool
    mirror: LoadMirror
    ticker: Ticker
    clock: Callable[[], float]
    prefill_again: bool = True
    longest_wait_s: float = 60.0
    default_output: int = 1024
    on_change: Callable[[], None] = _ignore
    ratio: ChunkRatio = field(default_factory=ChunkRatio)
    lost: int = 0
    step_s: float | None = None
    forced: int = 0
    waiting: dict[int, Waiting] = field(default_factory=dict)
    _freed_s: deque[float] = field(default_factory=lambda: deque(maxlen=PACE_MEMORY))
    ids: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def has_prefill(self) -> bool:
        """Whether there is a prefill leg."""
        return self.connector.lease_s is not None

    def dispatch(self) -> None:
        """Expire, bind, and let the line move: everything that can happen now."""
        if len(self.pool):
            self._move_pool()
        self.pump()

    def pump(self) -> None:
        """Let requests pass the gate while there is room."""
        if len(self.gate):
            self.gate.pump(self._may_pass, now_s=self.clock())

    def learn_step(self, seconds: float) -> None:
        """Take in the time between two tokens that a stream has shown."""
        known = seconds if self.step_s is None else self.step_s
        self.step_s = known + STEP_MEMORY * (seconds - known)

    def slot_freed(self) -> None:
        """Note that a request has left its replica."""
        self._freed_s.append(self.clock())

    def within_lease(self) -> int:
        """Prefilled requests that will probably find a slot while their KV is kept.

        Free slots (fewer than none where engines queue), and as many as were freed in the last part
        of a lease; at least one request for each replica, and a few to choose from.
        """
        live = self.fleet.live("decode")
        books = [self.mirror.replicas[name] for name in live]
        free = sum(b.slots - b.bound for b in books)
        window_s = LEASE_SHARE * (self.connector.lease_s or 0.0)
        return free + max(CHOICE, len(live), self._freed_within(window_s))

    def _move_pool(self) -> None:
        for pooled in self.pool.take_expired(self.clock()):
            self.waiting.pop(pooled.request.id).expire()
        for binding in self.ticker.tick(self.fleet.live("decode")):
            self.forced += binding.forced
            waiting = self.waiting.pop(binding.pooled.request.id)
            waiting.bind(binding.hold, forced=binding.forced)

    def _freed_within(self, window_s: float) -> int:
        """Slots freed in the last ``window_s`` seconds, by their pace where memory ends before."""
        now_s = self.clock()
        recent = [freed_s for freed_s in self._freed_s if now_s - freed_s <= window_s]
        if len(recent) < PACE_MEMORY:
            return len(recent)
        return int(PACE_MEMORY * window_s / max(now_s - recent[0], window_s / BURST))

    def _may_pass(self, ticket: Ticket) -> bool:
        if not self.room.fits(tokens=ticket.tokens, size=ticket.size):
            return False
        if not self.has_prefill:
            return True
        # Where nothing lives, the lease decides: flapping must not stop all prefills.
        live = self.fleet.live("decode")
        if live and self.room.requests >= self.within_lease():
            return False
        return (
            self.prefills.choose(
                self.fleet.live("prefill"), tokens=ticket.tokens, now_s=self.clock()
            )
            is not None
        )
