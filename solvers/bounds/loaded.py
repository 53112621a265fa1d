"""The loaded window of a simulated run as a problem of its own, and the bound on any admissions.

A pooled router chooses which request comes next, so with its own admission steps given there is
little left to compare. Here the work is given instead: of each request the part that the run
decoded between the completion of the first tenth and the last arrival. Whoever decodes these
parts, in any order and at any steps, needs at least

    b0*T + a0*P,  T = ceil(parts' steps / (G*slots)) or the longest part,  P = ceil(W/G),

the claim of ``solvers.work_certificate`` for the instance whose requests are the parts, all ready
at once. The run's own figures over the window are the judge's for the same instance.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import BrtheoryError, InputError
from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.evaluate import Evaluation, decimal_fraction, evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.simulation.record import RunRecord
from brtheory.simulation.workload import StepTime
from solvers.work_certificate import WorkCertificate, work_certificate


@dataclass(frozen=True)
class LoadedWork:
    """What a run did in its loaded window, and what nobody can do better.

    Parameters
    ----------
    instance, assignment
        The parts of requests, ready at step 0, and where and when the run decoded them.
    certificate
        Least steps and sum of peaks of any admissions.
    steps, sum_peak
        The run's, by the judge.
    """

    instance: Instance
    assignment: Assignment
    certificate: WorkCertificate
    steps: int
    sum_peak: int

    @property
    def time_s(self) -> Fraction:
        """The run's barrier time over the window in seconds."""
        return _time(self.instance, self.steps, self.sum_peak)

    @property
    def bound_s(self) -> Fraction:
        """Least barrier time in seconds of the same work."""
        return _time(self.instance, self.certificate.steps, self.certificate.sum_peak)

    @property
    def gap(self) -> Fraction | None:
        """(time - bound)/bound; None where the bound is 0."""
        return self.time_s / self.bound_s - 1 if self.bound_s > 0 else None


def loaded_work(
    record: RunRecord, *, prompt_tokens: NDArray[np.int64], slots: int, step_time: StepTime
) -> LoadedWork | None:
    """Cut the loaded window out of a run; None if it is empty.

    Parameters
    ----------
    record
        A run without idle steps (a saturated closed loop), replicas alike.
    prompt_tokens
        Of each request, shape (n,).
    slots, step_time
        B, a0 and b0.

    Raises
    ------
    InputError
        If the run had idle steps before the window's end.
    BrtheoryError
        If the judge does not find the run's own totals.
    """
    begin, end = record.window_start, record.window_end
    if begin is None or end is None or end.steps <= begin.steps:
        return None
    first, last = begin.steps, end.steps
    starts, stops = record.admitted_step, record.admitted_step + record.output_tokens
    enter, leave = np.maximum(starts, first), np.minimum(stops, last)
    parts = np.flatnonzero(leave > enter)
    weights = prompt_tokens + enter - starts
    instance = Instance(
        replicas=record.replicas,
        slots=slots,
        kv_capacity=None,
        a0=step_time.a0,
        b0=step_time.b0,
        requests=tuple(
            OfflineRequest(i, 0, int(weights[i]), int(leave[i] - enter[i])) for i in parts.tolist()
        ),
    )
    assignment = tuple(
        Placement(i, int(record.replica[i]), int(enter[i]) - first) for i in parts.tolist()
    )
    found = evaluate(instance, assignment)
    _check(found, steps=last - first, sum_peak=end.sum_peak - begin.sum_peak)
    return LoadedWork(
        instance,
        assignment,
        work_certificate(instance),
        last - first,
        end.sum_peak - begin.sum_peak,
    )


def _check(found: Evaluation, *, steps: int, sum_peak: int) -> None:
    if not found.feasible:
        raise BrtheoryError(f"loaded window: {found.violations[0]}")
    if found.steps != steps:
        raise InputError(
            "record", "a run without idle steps", f"{steps} steps, judged {found.steps}"
        )
    if found.sum_peak != sum_peak:
        raise BrtheoryError(f"loaded window: sum of peaks {sum_peak}, judged {found.sum_peak}")


def _time(instance: Instance, steps: int, sum_peak: int) -> Fraction:
    return decimal_fraction(instance.b0) * steps + decimal_fraction(instance.a0) * sum_peak
