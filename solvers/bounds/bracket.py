"""An assignment between what is certainly needed and what is known to suffice (case A).

With the assignment's own admission steps: a certified lower bound on sum_peak, the best assignment
local search finds from it, and so the assignment's gap as an interval,

    (A - incumbent)/incumbent  <=  (A - optimum)/optimum  <=  (A - bound)/bound.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance
from solvers.bounds.decompose import Effort, Progress, certified_bound
from solvers.bounds.search import SearchLimits, improve
from solvers.bounds.steps import admission_steps, step_bound
from solvers.certificate import CertificateDocument


@dataclass(frozen=True)
class Bracket:
    """Where the optimum and an assignment's gap lie; sums of peaks in token-steps.

    Parameters
    ----------
    certificate
        Proof of ``certificate.bound``.
    bound
        The better of the certificate's bound and the step bound of every single step.
    best
        Best known assignment with the same admission steps, ``incumbent`` its sum of peaks.
    judged
        Sum of peaks of the assignment asked about.
    """

    certificate: CertificateDocument
    bound: int
    best: Assignment
    incumbent: int
    judged: int

    @property
    def gap(self) -> tuple[Fraction, Fraction] | None:
        """Interval that holds the assignment's relative gap in sum_peak; None if a bound is 0."""
        return _interval(self.judged, self.incumbent, self.bound)

    @property
    def width(self) -> Fraction | None:
        """(incumbent - bound)/bound: how well the optimum itself is known; None if it can be 0."""
        return Fraction(self.incumbent - self.bound, self.bound) if self.bound > 0 else None


def bracket(
    instance: Instance,
    assignment: Assignment,
    *,
    rng: np.random.Generator,
    effort: Effort = Effort(),  # noqa: B008  # frozen
    search: SearchLimits = SearchLimits(),  # noqa: B008  # frozen
    clock: Callable[[], float] = time.monotonic,
    on_progress: Progress | None = None,
) -> Bracket:
    """Bracket the optimum for an assignment's admission steps.

    Parameters
    ----------
    instance, assignment
        A feasible assignment.
    rng
        Order of the local search.
    effort, search, clock
        Limits of the lower and the upper bound; the time limits add up.
    on_progress
        As in ``certified_bound``; the phase before it is ``search``.

    Raises
    ------
    InputError
        If the assignment is infeasible or there is no request.
    """
    instance.check_alike()
    verdict = evaluate(instance, assignment)
    if not verdict.feasible or verdict.sum_peak is None:
        raise InputError("assignment", "a feasible assignment", verdict.violations[0])
    steps = admission_steps(instance, assignment)
    best = improve(
        instance,
        assignment,
        rng=rng,
        limits=search,
        clock=clock,
        on_progress=None if on_progress is None else partial(on_progress, "search"),
    )
    certificate = certified_bound(
        instance, steps, effort=effort, clock=clock, on_progress=on_progress
    )
    incumbent = evaluate(instance, best).sum_peak
    assert incumbent is not None  # noqa: S101  # improve returns feasible assignments
    return Bracket(
        certificate,
        bound=max(certificate.bound, step_bound(instance, steps)),
        best=best,
        incumbent=incumbent,
        judged=verdict.sum_peak,
    )


def _interval(judged: int, incumbent: int, bound: int) -> tuple[Fraction, Fraction] | None:
    if bound <= 0:
        return None
    return Fraction(judged - incumbent, incumbent), Fraction(judged - bound, bound)
