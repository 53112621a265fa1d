"""Modelled energy: an accelerator draws 100 + 300*u^0.7 W at utilisation u.

u_g(k) = (b0 + a0*L_g(k)) / (b0 + a0*M(k)): the share of the step in which replica g works rather
than waits at the barrier. One accelerator per replica; idle time between steps is not counted.
A model, not a measurement; every place that shows the figure says so.
"""

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.simulation.workload import StepTime

IDLE_W = 100.0
ACTIVE_W = 300.0
EXPONENT = 0.7


def step_energy_j(loads: IntArray, peaks: IntArray, step_time: StepTime) -> NDArray[np.float64]:
    """Joules of each step, shape (n,), for loads of shape (G, n) and their peaks of shape (n,)."""
    duration = step_time.b0 + step_time.a0 * peaks
    utilisation = (step_time.b0 + step_time.a0 * loads) / duration
    power = IDLE_W * len(loads) + ACTIVE_W * (utilisation**EXPONENT).sum(axis=0)
    return np.asarray(power * duration, dtype=np.float64)
