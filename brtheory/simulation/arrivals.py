"""When requests become ready: at given steps, at given times, or to keep a population constant.

A source is asked at each event which requests are due; between events the engine only needs to
know how long it may run on. Prefill delays shift the time at which a request is ready.
"""

import heapq
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError

LONGEST_PREFILL_S = 1e9


@dataclass(frozen=True, slots=True)
class PrefillDelay:
    """Seconds between a request's arrival and its being ready: fixed + per prompt token."""

    seconds: float = 0.0
    seconds_per_token: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "seconds_per_token"):
            value = getattr(self, name)
            if not 0 <= value <= LONGEST_PREFILL_S:
                expected = f"0 to {LONGEST_PREFILL_S:g} seconds"
                raise InputError(f"prefill {name.replace('_', ' ')}", expected, value)

    def of(self, prompt_tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Delay of each request in seconds, shape (n,)."""
        return self.seconds + self.seconds_per_token * prompt_tokens.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Due:
    """Request ``index`` has become ready; it arrived at ``arrival_s``, was ready at ``ready_s``."""

    index: int
    arrival_s: float
    ready_s: float


class ArrivalSource(Protocol):
    """One way of arriving."""

    def due(self, *, step: int, clock_s: float, completed: int) -> list[Due]:
        """Requests that became ready since the last call, in order of ready time, then index."""

    def next_step(self) -> int | None:
        """Absolute step of the next arrival, None if steps do not trigger one."""

    def next_time_s(self) -> float | None:
        """Clock time of the next arrival, None if the clock does not trigger one."""


class StepArrivals:
    """Requests ready at given absolute steps (instances).

    Parameters
    ----------
    ready
        Step of each request, shape (n,).
    """

    def __init__(self, ready: NDArray[np.int64]) -> None:
        self._order = np.argsort(ready, kind="stable").tolist()
        self._ready = ready.tolist()
        self._next = 0

    def due(self, *, step: int, clock_s: float, completed: int) -> list[Due]:
        """Requests whose ready step has come; they arrive at the present clock."""
        del completed
        due = []
        while self._next < len(self._order) and self._ready[self._order[self._next]] <= step:
            due.append(Due(self._order[self._next], clock_s, clock_s))
            self._next += 1
        return due

    def next_step(self) -> int | None:
        """Ready step of the next request."""
        if self._next == len(self._order):
            return None
        step: int = self._ready[self._order[self._next]]
        return step

    def next_time_s(self) -> float | None:
        """Never: steps decide."""
        return None


class TimedArrivals:
    """Requests that arrive at given times (open loop) and are ready after their prefill.

    Parameters
    ----------
    arrival_s
        Arrival times in seconds, shape (n,).
    prefill_s
        Prefill delay of each request in seconds, shape (n,).
    """

    def __init__(self, arrival_s: NDArray[np.float64], prefill_s: NDArray[np.float64]) -> None:
        ready = arrival_s + prefill_s
        self._order = np.argsort(ready, kind="stable").tolist()
        self._arrival_s, self._ready_s = arrival_s.tolist(), ready.tolist()
        self._next = 0

    def due(self, *, step: int, clock_s: float, completed: int) -> list[Due]:
        """Requests whose ready time the clock has reached."""
        del step, completed
        due = []
        while (time := self.next_time_s()) is not None and time <= clock_s:
            index = self._order[self._next]
            due.append(Due(index, self._arrival_s[index], time))
            self._next += 1
        return due

    def next_step(self) -> int | None:
        """Never: the clock decides."""
        return None

    def next_time_s(self) -> float | None:
        """Ready time of the next request."""
        if self._next == len(self._order):
            return None
        time: float = self._ready_s[self._order[self._next]]
        return time


class ClosedArrivals:
    """A constant population (closed loop): each completion is replaced in the same step.

    Parameters
    ----------
    requests
        n, taken in file order.
    population
        Requests in the system, waiting + running (+ in prefill), >= 1.
    prefill_s
        Prefill delay of each request in seconds, shape (n,).
    """

    def __init__(self, requests: int, *, population: int, prefill_s: NDArray[np.float64]) -> None:
        if population < 1:
            raise InputError("arrivals", "a population of at least one request", population)
        self._requests = requests
        self._population = population
        self._prefill_s = prefill_s.tolist()
        self._started = 0
        self._prefilling: list[tuple[float, int, float]] = []

    def due(self, *, step: int, clock_s: float, completed: int) -> list[Due]:
        """Replace what has completed, and hand over what has finished its prefill."""
        del step
        target = min(self._requests, self._population + completed)
        while self._started < target:
            ready = clock_s + self._prefill_s[self._started]
            heapq.heappush(self._prefilling, (ready, self._started, clock_s))
            self._started += 1
        due = []
        while self._prefilling and self._prefilling[0][0] <= clock_s:
            ready_s, index, arrival_s = heapq.heappop(self._prefilling)
            due.append(Due(index, arrival_s, ready_s))
        return due

    def next_step(self) -> int | None:
        """Never: completions and the clock decide."""
        return None

    def next_time_s(self) -> float | None:
        """End of the next prefill under way."""
        return self._prefilling[0][0] if self._prefilling else None
