"""The clock and the running sums, over strides of steps in which nothing changes but growth.

Loads are lines, their peaks are summed in integers, and the clock

    clock = clock_0 + b0*(steps - steps_0) + a0*(sum_peak - sum_peak_0)

is a function of integers since the last idle jump, so that strides and single steps agree to the
last bit. Where replicas differ in speed it is clock_0 + u*(sum_k max_g T_g(k) - the sum before),
with the integers T_g = B_g + A_g*L_g of ``brtheory.core.unequal``.

A stride is short enough for its loads to be held at once and its sums to stay within 64 bits;
longer stretches without an event, where nobody watches, are summed in closed form
(``brtheory.simulation.leap``).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.unequal import Paces
from brtheory.errors import InputError
from brtheory.simulation.energy import step_energy_j, time_energy_j
from brtheory.simulation.leap import Leap, find_leap
from brtheory.simulation.record import Totals
from brtheory.simulation.workload import StepTime

STRIDE_CELLS = 1 << 17
"""Loads held at once while striding, G times steps: bounds memory whatever the output lengths."""
WORTH_AN_ARRAY = 64
"""Steps from which on numpy adds them faster."""
SUM_LIMIT = 2**62
"""Sums of one stride stay below this."""


class StepObserver(Protocol):
    """Looks at loads as they run, for figures and tests; must not change them."""

    def on_steps(self, step: int, loads: IntArray) -> None:
        """Loads of consecutive steps from absolute ``step`` on, shape (G, number of steps)."""


class StepMeter:
    """Runs steps.

    Parameters
    ----------
    totals
        The sums of the run: all that steps add to them, but the decoded tokens, is the meter's.
    step_time, paces
        b0 + a0*M; the paces where replicas differ in speed, else None.
    replicas, largest
        G, and an upper bound of the load of a replica: strides stay within 64 bits.
    observers
        Shown all loads.
    longest_stride
        Most steps run at once; 1 is the plain step loop, None leaves it to the meter.

    Raises
    ------
    InputError
        If the loads of one step may sum to more than 64 bits hold.
    """

    def __init__(
        self,
        totals: Totals,
        *,
        step_time: StepTime,
        paces: Paces | None,
        replicas: int,
        largest: int,
        observers: Sequence[StepObserver] = (),
        longest_stride: int | None = None,
    ) -> None:
        self._totals = totals
        self._step_time = step_time
        self._paces = paces
        self._unit_s = 0.0 if paces is None else float(paces.unit_s)
        self._observers = observers
        self._may_leap = longest_stride is None and not observers
        stride = _longest_exact(replicas, largest, paces)
        self._stride = stride if longest_stride is None else min(stride, longest_stride)
        self._base = totals.copy()

    def run(
        self, loads: IntArray, active: IntArray, *, step: int, most: int, until_s: float | None
    ) -> int:
        """Run up to ``most`` steps, and none that starts at or after ``until_s``.

        Parameters
        ----------
        loads, active
            L_g and n_g at the first step, shape (G,).
        step
            Absolute number of the first step, for observers.
        most
            Steps until the next completion or arrival, >= 1.
        until_s
            Time of the next event that the clock triggers, None if there is none.

        Returns
        -------
        int
            Steps run, >= 1: fewer than ``most`` where the clock or the stride ends before.
        """
        if self._may_leap:
            leap = find_leap(loads, active, paces=self._paces, most=most)
            if leap is not None:
                return self._leap(leap, until_s)
        steps, columns = min(most, self._stride), loads[:, None]
        if steps > 1:
            columns = columns + active[:, None] * np.arange(steps)
        peaks = columns.max(axis=0)
        times = None if self._paces is None else self._paces.times(columns)
        clocks = self._clocks_after(peaks, times)
        if until_s is not None:
            steps = min(steps, int(np.searchsorted(clocks, until_s)) + 1)
            columns, peaks = columns[:, :steps], peaks[:steps]
            times = None if times is None else times[:, :steps]
        self._account(columns, peaks, times)
        self._totals.clock_s = float(clocks[steps - 1])
        for observer in self._observers:
            observer.on_steps(step, columns)
        return steps

    def jump(self, clock_s: float) -> None:
        """Skip idle time: on to ``clock_s``."""
        self._totals.clock_s = clock_s
        self._base = self._totals.copy()

    def _clocks_after(self, peaks: IntArray, times: IntArray | None) -> NDArray[np.float64]:
        """Clock at the end of each of the coming steps, shape (n,)."""
        totals, base = self._totals, self._base
        if times is None:
            executed = np.arange(1, len(peaks) + 1) + (totals.steps - base.steps)
            peak_sums = _offset(np.cumsum(peaks), totals.sum_peak - base.sum_peak)
            b0, a0 = self._step_time.b0, self._step_time.a0
            return np.asarray(base.clock_s + b0 * executed + a0 * peak_sums, dtype=np.float64)
        longest = _offset(np.cumsum(times.max(axis=0)), totals.sum_longest - base.sum_longest)
        return np.asarray(base.clock_s + self._unit_s * longest, dtype=np.float64)

    def _account(self, loads: IntArray, peaks: IntArray, times: IntArray | None) -> None:
        totals, steps = self._totals, len(peaks)
        totals.steps += steps
        totals.sum_peak += int(peaks.sum())
        totals.sum_load += int(loads.sum())
        totals.sum_spread += int((peaks - loads.min(axis=0)).sum())
        if times is None:
            energy = step_energy_j(loads, peaks, self._step_time)
        else:
            longest = times.max(axis=0)
            totals.sum_longest += int(longest.sum())
            totals.sum_times += int(times.sum())
            energy = time_energy_j(times, longest, unit_s=self._unit_s)
        # Added one by one, so that long strides and single steps round alike.
        if steps < WORTH_AN_ARRAY:
            for joules in energy.tolist():
                totals.energy_j += joules
        else:
            totals.energy_j = float(np.cumsum(np.concatenate(([totals.energy_j], energy)))[-1])

    def _leap(self, leap: Leap, until_s: float | None) -> int:
        """Steps of a leap at once; the clock is the same function of the same integers."""
        steps = leap.most
        if until_s is not None:
            low = 1
            while low < steps:
                middle = (low + steps) // 2
                if self._clock_after(leap, middle) >= until_s:
                    steps = middle
                else:
                    low = middle + 1
        clock_s = self._clock_after(leap, steps)
        leap.account(self._totals, steps, step_time=self._step_time)
        self._totals.clock_s = clock_s
        return steps

    def _clock_after(self, leap: Leap, steps: int) -> float:
        totals, base = self._totals, self._base
        if self._paces is not None:
            longest = totals.sum_longest - base.sum_longest + leap.sum_longest(steps)
            return base.clock_s + self._unit_s * longest
        executed = totals.steps - base.steps + steps
        peaks = totals.sum_peak - base.sum_peak + leap.sum_peak(steps)
        return base.clock_s + self._step_time.b0 * executed + self._step_time.a0 * peaks


def _offset(sums: IntArray, offset: int) -> IntArray | NDArray[np.float64]:
    """Sums plus an integer, as floats, rounded once, where 64 bits do not hold them."""
    if offset < SUM_LIMIT:
        return sums + offset
    return np.array([float(value + offset) for value in sums.tolist()])


def _longest_exact(replicas: int, largest: int, paces: Paces | None) -> int:
    """Steps whose loads fit the memory and whose sums fit 64 bits."""
    top = largest
    if paces is not None:
        times = zip(paces.per_step, paces.per_token, strict=True)
        top = max(largest, *(b + a * largest for b, a in times))
    steps = SUM_LIMIT // (replicas * top)
    if steps < 1:
        expected = f"loads and times of at most {SUM_LIMIT // replicas} tokens or units"
        hint = "" if paces is None else " (a0, b0 and speeds with fewer digits give smaller ones)"
        raise InputError("replicas", expected + hint, top)
    return max(1, min(STRIDE_CELLS // replicas, steps))
