"""Modelled energy: an accelerator draws 100 + 300*u^0.7 W at utilisation u.

u_g(k) = (b0 + a0*L_g(k)) / (b0 + a0*M(k)), or T_g/max T where replicas differ in speed: the share
of the step in which replica g works rather than waits at the barrier. One accelerator per replica;
idle time between steps is not counted. A model, not a measurement; every place that shows the
figure says so.
"""

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.simulation.workload import StepTime

IDLE_W = 100.0
ACTIVE_W = 300.0
EXPONENT = 0.7

Amounts = IntArray | NDArray[np.float64]


def step_energy_j(loads: Amounts, peaks: Amounts, step_time: StepTime) -> NDArray[np.float64]:
    """Joules of each step, shape (n,), for loads of shape (G, n) and their peaks of shape (n,)."""
    duration = step_time.b0 + step_time.a0 * peaks
    return _joules((step_time.b0 + step_time.a0 * loads) / duration, duration)


def time_energy_j(times: Amounts, longest: Amounts, *, unit_s: float) -> NDArray[np.float64]:
    """Joules of each step, shape (n,), for T_g of shape (G, n), its maxima and its unit."""
    return _joules(times / longest, unit_s * longest)


def _joules(
    utilisation: NDArray[np.floating], duration: NDArray[np.floating]
) -> NDArray[np.float64]:
    power = IDLE_W * len(utilisation) + ACTIVE_W * (utilisation**EXPONENT).sum(axis=0)
    return np.asarray(power * duration, dtype=np.float64)
