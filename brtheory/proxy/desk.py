"""The desk: all books of the proxy, and what can happen between them at a moment.

It owns line, room, prefill books, pool, mirror and router. Requests at the desk are passages.
"""

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
    ids: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def has_prefill(self) -> bool:
        """Whether there is a prefill leg."""
        return self.connector.lease_s is not None

    def dispatch(self) -> None:
        """Expire, bind, and let the line move: everything that can happen now."""
        for pooled in self.pool.take_expired(self.clock()):
            self.waiting.pop(pooled.request.id).expire()
        for binding in self.ticker.tick(self.fleet.live("decode")):
            self.forced += binding.forced
            waiting = self.waiting.pop(binding.pooled.request.id)
            waiting.bind(binding.hold, forced=binding.forced)
        self.pump()

    def pump(self) -> None:
        """Let requests pass the gate while there is room."""
        self.gate.pump(self._may_pass, now_s=self.clock())

    def learn_step(self, seconds: float) -> None:
        """Take in the time between two tokens that a stream has shown."""
        known = seconds if self.step_s is None else self.step_s
        self.step_s = known + STEP_MEMORY * (seconds - known)

    def _may_pass(self, ticket: Ticket) -> bool:
        if not self.room.fits(tokens=ticket.tokens, size=ticket.size):
            return False
        if not self.has_prefill:
            return True
        return (
            self.prefills.choose(
                self.fleet.live("prefill"), tokens=ticket.tokens, now_s=self.clock()
            )
            is not None
        )
