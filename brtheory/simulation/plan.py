"""A plan of arrivals: the data behind an arrival source, for the engine and for compiled runs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brtheory.simulation.arrivals import (
    ArrivalSource,
    ClosedArrivals,
    StepArrivals,
    TimedArrivals,
)


@dataclass(frozen=True, slots=True)
class ArrivalPlan:
    """How n requests become ready.

    Parameters
    ----------
    kind
        ``closed``: a constant population; ``timed``: at given times; ``steps``: at given steps.
    prefill_s
        Prefill delay of each request in seconds, shape (n,); of no use to ``steps``.
    population
        Requests in the closed loop.
    arrival_s
        Arrival times in seconds, shape (n,), for ``timed``.
    ready_step
        Absolute steps, shape (n,), for ``steps``.
    """

    kind: Literal["closed", "timed", "steps"]
    prefill_s: NDArray[np.float64]
    population: int = 0
    arrival_s: NDArray[np.float64] | None = None
    ready_step: NDArray[np.int64] | None = None

    def source(self) -> ArrivalSource:
        """A fresh source for the engine."""
        if self.arrival_s is not None:
            return TimedArrivals(self.arrival_s, self.prefill_s)
        if self.ready_step is not None:
            return StepArrivals(self.ready_step)
        return ClosedArrivals(
            len(self.prefill_s), population=self.population, prefill_s=self.prefill_s
        )
