"""Arrivals in bursts: a Poisson process that is switched on and off (interrupted Poisson).

While on, requests come at ``burst`` times the mean rate; on and off times are exponential with
means cycle/burst and cycle*(1 - 1/burst). So the mean rate is what it would be without bursts, and
``burst`` = 1, never off, is the Poisson process itself, gap by gap. On times have no memory: an on
time of x between two requests is interrupted N ~ Poisson(x*burst/cycle) times, for a time that is
the sum of N exponentials.
"""

import numpy as np
from numpy.typing import NDArray

MOST_INTERRUPTIONS = 1e18
"""Per gap, the most a Poisson law can be drawn with."""


def burst_arrivals(
    gaps: NDArray[np.float64], *, burst: float, cycle_s: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Arrival times, the first at 0, shape (n,).

    Parameters
    ----------
    gaps
        Exponential gaps at the mean rate, shape (n,), in seconds.
    burst
        Rate while on over mean rate, >= 1.
    cycle_s
        Mean of an on and an off time together, in seconds, > 0.
    rng
        Draws the interruptions.
    """
    if burst > 1:
        on_s = cycle_s / burst
        gaps = gaps / burst
        interruptions = rng.poisson(np.minimum(gaps / on_s, MOST_INTERRUPTIONS))
        gaps = gaps + (cycle_s - on_s) * rng.standard_gamma(interruptions)
    times: NDArray[np.float64] = np.cumsum(gaps) - gaps[0]
    return times
