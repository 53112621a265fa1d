"""Very long stretches without an event in closed form, so that 2^40 steps take no longer than one.

Between events every load is a line, so the sums over n steps of peaks, loads and smallest loads
are closed forms in exact integers (``sum_of_peaks``). The modelled energy is not: per step it is a
smooth function f of the step j while one replica stays the longest, so

    sum_{j < n} f(j) = integral of f from -1/2 to n - 1/2 - (f'(n - 1/2) - f'(-1/2))/24 + ...

whose first correction is below 1e-10 of the sum for n > 2^20 steps of loads that grow by less
than a thousandth a step. Such stretches only are leapt over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.unequal import Paces
from brtheory.offline.evaluate import Line, sum_of_peaks
from brtheory.simulation.energy import step_energy_j, time_energy_j
from brtheory.simulation.record import Totals
from brtheory.simulation.workload import StepTime

LEAP_STEPS = 1 << 20
"""Shorter stretches are not leapt over."""
STEADY = 1024
"""Loads of at least so many tokens per active request change by less than a thousandth a step."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class Leap:
    """Steps in which nothing changes but growth and one replica stays the longest.

    Parameters
    ----------
    lines
        (L_g, n_g) of each replica.
    timed
        (T_g, its growth) of each where replicas differ in speed, else None.
    unit_s
        Seconds of a unit of T, of no use where they do not.
    most
        Steps it may run.
    """

    lines: Sequence[Line]
    timed: Sequence[Line] | None
    unit_s: float
    most: int

    def sum_peak(self, steps: int) -> int:
        """Sum of M over the first ``steps`` steps."""
        return sum_of_peaks(self.lines, steps)

    def sum_longest(self, steps: int) -> int:
        """Sum of max_g T_g over the first ``steps`` steps, where replicas differ in speed."""
        return sum_of_peaks(self.timed or self.lines, steps)

    def account(self, totals: Totals, steps: int, *, step_time: StepTime) -> None:
        """Add the first ``steps`` steps to the sums of loads, of times and of energy."""
        peak = self.sum_peak(steps)
        totals.steps += steps
        totals.sum_peak += peak
        totals.sum_load += sum(_sum(line, steps) for line in self.lines)
        totals.sum_spread += peak + sum_of_peaks([(-load, -n) for load, n in self.lines], steps)
        if self.timed is not None:
            totals.sum_longest += self.sum_longest(steps)
            totals.sum_times += sum(_sum(line, steps) for line in self.timed)
        totals.energy_j += self._energy_j(steps, step_time)

    def _energy_j(self, steps: int, step_time: StepTime) -> float:
        """Integral of the power over the steps, in panels that double in length."""
        ends = [0.0, *np.exp2(np.arange(10, np.log2(steps))).tolist(), float(steps)]
        start, length = np.array(ends[:-1]) - 0.5, np.diff(ends)
        at = (start[:, None] + length[:, None] * (NODES + 1) / 2).ravel()
        weight = (length[:, None] * WEIGHTS / 2).ravel()
        return float(self._power_j(at, step_time) @ weight)

    def _power_j(self, at: NDArray[np.float64], step_time: StepTime) -> NDArray[np.float64]:
        """Joules of a step at each (fractional) step of ``at``."""
        lines = np.array(self.timed or self.lines, dtype=np.float64)
        values = lines[:, :1] + lines[:, 1:] * at
        longest = values.max(axis=0)
        if self.timed is None:
            return step_energy_j(values, longest, step_time)
        return time_energy_j(values, longest, unit_s=self.unit_s)


def find_leap(loads: IntArray, active: IntArray, *, paces: Paces | None, most: int) -> Leap | None:
    """The leap over the coming ``most`` steps, None where they are run one by one.

    Parameters
    ----------
    loads, active
        L_g and n_g at the first step, shape (G,).
    paces
        Where replicas differ in speed.
    most
        Steps until the next event.
    """
    if most <= LEAP_STEPS or bool((loads < STEADY * active).any()):
        return None
    lines = list(zip(loads.tolist(), active.tolist(), strict=True))
    timed = None if paces is None else _timed(lines, paces)
    most = min(most, _until_overtaken(timed or lines))
    unit_s = 0.0 if paces is None else float(paces.unit_s)
    return Leap(lines, timed, unit_s, most) if most > LEAP_STEPS else None


def _timed(lines: Sequence[Line], paces: Paces) -> list[Line]:
    rates = zip(lines, paces.per_step, paces.per_token, strict=True)
    return [(b + a * load, a * count) for (load, count), b, a in rates]


def _until_overtaken(lines: Sequence[Line]) -> int:
    """Steps until another line is above the one that is highest now (and steepest of those)."""
    top, slope = max(lines)
    ahead = [(top - load) // (n - slope) + 1 for load, n in lines if n > slope]
    return min(ahead, default=2**63)


def _sum(line: Line, steps: int) -> int:
    load, slope = line
    return steps * load + slope * (steps * (steps - 1) // 2)
