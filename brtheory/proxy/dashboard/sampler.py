"""Samples of the books, and the documents the page is drawn from.

A sample reads a few numbers of each replica; nothing is kept of requests. What is remembered is
bounded: ``HISTORY`` points, ``PHASES`` phases, the counts of the last seconds.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from brtheory.core.imbalance import imbalance, peak
from brtheory.proxy.dashboard.phases import RouterPhase
from brtheory.proxy.desk import Desk
from brtheory.proxy.mirror import barrier_idle
from brtheory.proxy.recent import RecentValues
from brtheory.proxy.state import state_of
from brtheory.proxy.telemetry import Telemetry

SCHEMA = "brtheory.dashboard/1"
HISTORY = 720
"""Points kept: three minutes at four samples a second."""
PHASES = 12
RATE_S = 2.0
"""Time over which token rates are measured."""


class Point(NamedTuple):
    """One sample of the history; None where nothing is live or nothing runs."""

    time_s: float
    phase: int
    imbalance_tokens: int | None
    barrier_idle_ratio: float | None
    pool_requests: int
    queue_requests: int
    decoding_requests: int
    tokens_per_s: float


@dataclass(frozen=True)
class _Counts:
    """Tokens decoded by each replica up to a time."""

    time_s: float
    decoded: dict[str, int]


class Sampler:
    """Reads the books.

    Parameters
    ----------
    desk
        The books.
    telemetry
        Where waits are noted.
    draining
        Whether the proxy takes no new requests any more.
    """

    def __init__(self, desk: Desk, telemetry: Telemetry, *, draining: Callable[[], bool]) -> None:
        self._desk = desk
        self._telemetry = telemetry
        self._draining = draining
        self._start_s = desk.clock()
        self._numbers = count()
        self._points: deque[Point] = deque(maxlen=HISTORY)
        self._phases: deque[RouterPhase] = deque(maxlen=PHASES)
        self._counts: deque[_Counts] = deque([self._count()])
        self._phase()

    def sample(self) -> None:
        """Take a sample now."""
        before, now = self._counts[-1], self._count()
        self._counts.append(now)
        while len(self._counts) > 2 and self._counts[1].time_s <= now.time_s - RATE_S:
            self._counts.popleft()
        state = self._state()
        loads = [replica["tokens"] for replica in state["replicas"] if replica["live"]]
        phase = self._phase()
        phase.add(
            seconds=now.time_s - before.time_s,
            imbalance=state["imbalance_tokens"] or 0,
            capacity=len(loads) * peak(loads) if loads else 0,
            decoded=sum(_grown(before, now).values()),
        )
        self._points.append(self._point(state, phase, now.time_s))

    def snapshot(self) -> dict[str, Any]:
        """All the page shows, as of now, as JSON."""
        desk, state = self._desk, self._state()
        rates = self._rates()
        for replica in state["replicas"]:
            replica["tokens_per_s"] = round(rates.get(replica["name"], 0.0), 1)
        for node in state["prefill"]:
            node["live"] = desk.fleet.find(node["name"]).live
            node["kv_tokens"] = desk.fleet.find(node["name"]).kv_tokens
        phase = self._phase()
        return {
            **state,
            "schema": SCHEMA,
            "time_s": round(desk.clock() - self._start_s, 3),
            "draining": self._draining(),
            "phase": phase.number,
            "params": dict(phase.choice.params),
            "predictor": phase.choice.predictor,
            "immediate": desk.ticker.immediate,
            "pool_limit": desk.room.limits.requests,
            "decoding_requests": _decoding(state),
            "engine_queue_requests": _bound(state) - _decoding(state),
            "tokens_per_s": round(sum(rates.values()), 1),
            "tick_fallbacks": desk.ticker.fallbacks,
            "waits": self._waits(),
            "phases": self._phase_documents(),
        }

    def history(self) -> dict[str, list[Any]]:
        """The points kept, a list for each of their fields."""
        columns = zip(*self._points, strict=True) if self._points else ((),) * len(Point._fields)
        return {name: list(column) for name, column in zip(Point._fields, columns, strict=True)}

    def _state(self) -> dict[str, Any]:
        """The books, loads without what waits in engines' own queues: that makes no step longer.

        Live replicas alone stand at the barrier.
        """
        desk, state = self._desk, state_of(self._desk)
        names = [replica["name"] for replica in state["replicas"]]
        running = desk.mirror.view(names).loads.tolist() if names else []
        for replica, tokens in zip(state["replicas"], running, strict=True):
            replica["live"] = desk.fleet.find(replica["name"]).live
            replica["queued_tokens"] = replica["tokens"] - tokens
            replica["tokens"] = tokens
        loads = [replica["tokens"] for replica in state["replicas"] if replica["live"]]
        state["imbalance_tokens"] = imbalance(loads) if loads else None
        state["barrier_idle_ratio"] = barrier_idle(loads)
        return state

    def _point(self, state: dict[str, Any], phase: RouterPhase, now_s: float) -> Point:
        idle = state["barrier_idle_ratio"]
        return Point(
            time_s=round(now_s - self._start_s, 3),
            phase=phase.number,
            imbalance_tokens=state["imbalance_tokens"],
            barrier_idle_ratio=None if idle is None else round(idle, 5),
            pool_requests=state["pool_requests"],
            queue_requests=state["queue_requests"],
            decoding_requests=_decoding(state),
            tokens_per_s=round(sum(self._rates().values()), 1),
        )

    def _phase(self) -> RouterPhase:
        """The phase of the present router; a new one if it has been switched."""
        choice = self._desk.ticker.choice
        if not self._phases or self._phases[-1].choice is not choice:
            since_s = self._desk.clock()
            self._phases.append(RouterPhase(next(self._numbers), choice, since_s))
        return self._phases[-1]

    def _phase_documents(self) -> list[dict[str, Any]]:
        documents = [phase.document() for phase in self._phases]
        for document in documents:
            document["since_s"] = round(document["since_s"] - self._start_s, 3)
        return documents

    def _count(self) -> _Counts:
        replicas = self._desk.mirror.replicas
        return _Counts(self._desk.clock(), {name: b.decoded for name, b in replicas.items()})

    def _rates(self) -> dict[str, float]:
        """Tokens per second of each replica over the last ``RATE_S`` seconds."""
        first, last = self._counts[0], self._counts[-1]
        passed_s = last.time_s - first.time_s
        if passed_s <= 0:
            return {}
        return {name: grown / passed_s for name, grown in _grown(first, last).items()}

    def _waits(self) -> dict[str, Any]:
        telemetry = self._telemetry
        return {
            "pool": _quantiles(telemetry.recent_pool_s),
            "ttft": _quantiles(telemetry.recent_ttft_s),
            "tpot": _quantiles(telemetry.recent_tpot_s),
        }


def _bound(state: dict[str, Any]) -> int:
    return sum(replica["requests"] for replica in state["replicas"])


def _decoding(state: dict[str, Any]) -> int:
    """Bound requests that have a slot; the others wait in their engine's queue."""
    return sum(min(replica["requests"], replica["slots"]) for replica in state["replicas"])


def _grown(before: _Counts, after: _Counts) -> dict[str, int]:
    """Tokens decoded in between; an estimate put right downwards is no negative work."""
    return {
        name: max(0, decoded - before.decoded.get(name, decoded))
        for name, decoded in after.decoded.items()
    }


def _quantiles(recent: RecentValues) -> dict[str, Any]:
    half, late = recent.quantiles((0.5, 0.99))
    return {
        "count": len(recent),
        "p50_s": None if half is None else round(half, 5),
        "p99_s": None if late is None else round(late, 5),
    }
