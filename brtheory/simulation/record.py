"""What a simulation leaves behind: exact totals, times per request, and two marks in time."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Totals:
    """Running sums over executed steps; integers are exact.

    Parameters
    ----------
    steps
        Executed steps.
    sum_peak, sum_load
        Sums over steps of M(k) and of sum_g L_g(k), in token-steps.
    sum_spread
        Sum over steps of max_g L_g - min_g L_g.
    decoded_tokens
        Sum over steps of active requests: one token each.
    completed
        Requests completed.
    clock_s
        Simulated time, idle jumps included.
    energy_j
        Modelled energy in joules, see ``brtheory.simulation.energy``.
    sum_longest, sum_times
        Where replicas differ in speed: sums over steps of max_g T_g and of sum_g T_g, in units of
        time; else 0.
    """

    steps: int = 0
    sum_peak: int = 0
    sum_load: int = 0
    sum_spread: int = 0
    decoded_tokens: int = 0
    completed: int = 0
    clock_s: float = 0.0
    energy_j: float = 0.0
    sum_longest: int = 0
    sum_times: int = 0

    def copy(self) -> "Totals":
        """Snapshot."""
        return replace(self)


@dataclass(slots=True)
class RunRecord:
    """Outcome of one run of n requests on G replicas.

    Arrays have shape (n,), by request index. Steps are absolute.

    Parameters
    ----------
    replicas
        G.
    replica, admitted_step, output_tokens
        Where and when each request was admitted, and its true length (int64).
    arrival_s, ready_s, admitted_s, finished_s
        Times in seconds: arrival, end of prefill, admission, end of the last step. Under a KV
        transfer a request is admitted when it is bound; ``admitted_step`` is its first decode step.
    totals
        Over all executed steps.
    window_start, window_end
        Totals at the completion of the first 10 % of requests and at the step at which the last
        request became ready: the loaded window; None where the run never got there.
    started_s
        Start of the first decode step, None where that is the admission (no KV transfer).
    unit_s
        Seconds of one unit of time of the totals, None where replicas do not differ in speed.
    limited_ticks
        Ticks that a limit of the router's search ended, None where the router does not search.
    """

    replicas: int
    replica: NDArray[np.int64]
    admitted_step: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    arrival_s: NDArray[np.float64]
    ready_s: NDArray[np.float64]
    admitted_s: NDArray[np.float64]
    finished_s: NDArray[np.float64]
    totals: Totals = field(default_factory=Totals)
    window_start: Totals | None = None
    window_end: Totals | None = None
    started_s: NDArray[np.float64] | None = None
    unit_s: float | None = None
    limited_ticks: int | None = None

    def __len__(self) -> int:
        return len(self.replica)


def empty_record(output_tokens: NDArray[np.int64], *, replicas: int) -> RunRecord:
    """A record in which nothing has happened yet (-1 and NaN)."""
    n = len(output_tokens)
    return RunRecord(
        replicas=replicas,
        replica=np.full(n, -1, dtype=np.int64),
        admitted_step=np.full(n, -1, dtype=np.int64),
        output_tokens=output_tokens,
        arrival_s=np.full(n, np.nan),
        ready_s=np.full(n, np.nan),
        admitted_s=np.full(n, np.nan),
        finished_s=np.full(n, np.nan),
    )
