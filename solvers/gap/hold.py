"""The curve over the allowed hold: how fast the best schedule is when requests may wait D steps.

Case B in barrier time, every request served. Allowing a longer wait only adds schedules, so along
the curve an incumbent also holds for every longer hold and a bound for every shorter one; solves
that a time limit cut short profit from their neighbours. Work conservation is no point of the curve
but a rule of its own: no request waits while a replica has room for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from brtheory.errors import InfeasibleError
from brtheory.offline.instance import Instance
from solvers.budget import Budget
from solvers.facade import solve_problem
from solvers.gap.document import HoldFacts
from solvers.problem import FreeAdmissions

HOLDS = (0, 1, 2, 4, 8)
"""Steps; the unlimited end of the curve and work conservation come on top."""
POINTS = len(HOLDS) + 2
FREE_REQUESTS = 12
"""Case B is solved up to so many requests; above, a bound of steps and work must do."""


@dataclass(frozen=True, slots=True)
class HoldPoint:
    """The optimum of barrier time under one rule.

    Parameters
    ----------
    hold
        D, None for unlimited.
    work_conserving
        The rule instead of a limit.
    feasible
        Whether any schedule obeys it; None if unknown.
    incumbent, bound
        Integer unit of barrier time; None if unknown.
    """

    hold: int | None
    work_conserving: bool
    feasible: bool | None
    incumbent: int | None
    bound: int | None

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """(incumbent, bound)."""
        return self.incumbent, self.bound

    @property
    def proved(self) -> bool:
        """Whether the optimum is known."""
        return self.incumbent is not None and self.incumbent == self.bound

    def facts(self) -> HoldFacts:
        """As in the document."""
        return HoldFacts(
            hold=self.hold,
            work_conserving=self.work_conserving,
            feasible=self.feasible,
            incumbent=self.incumbent,
            bound=self.bound,
            proved=self.proved,
        )


def hold_curve(
    instance: Instance,
    *,
    time_limit_s: float,
    on_point: Callable[[int], None] = lambda _count: None,
) -> list[HoldPoint]:
    """Optima for each hold of ``HOLDS``, without a limit, and work-conserving, in this order.

    Parameters
    ----------
    instance
        Small: each point is a solve of case B.
    time_limit_s
        For unlimited hold, and for all other points together.
    on_point
        Called with 1 after each solve.
    """
    others = [FreeAdmissions(instance, "time", work_conserving=True)]
    others += [FreeAdmissions(instance, "time", hold) for hold in HOLDS]
    together, found = Budget(time_limit_s), []
    for position, problem in enumerate(others):
        share_s = (together.remaining_s or 0.0) / (len(others) - position)
        found.append(_solved(problem, share_s))
        on_point(1)
    conserving, *limited = found
    unlimited = _solved(FreeAdmissions(instance, "time"), time_limit_s)
    on_point(1)
    return [*tightened([*limited, unlimited]), conserving]


def unlimited_point(curve: Sequence[HoldPoint]) -> HoldPoint:
    """The point of a curve that any admissions are compared with."""
    return next(point for point in curve if point.hold is None and not point.work_conserving)


def conserving_point(curve: Sequence[HoldPoint]) -> HoldPoint:
    """The fastest schedule in which nobody waits beside a free slot."""
    return next(point for point in curve if point.work_conserving)


def tightened(curve: Sequence[HoldPoint]) -> list[HoldPoint]:
    """The same curve, shortest hold first, with what each point says about the others."""
    incumbents = accumulate((point.incumbent for point in curve), _least)
    bounds = list(accumulate((point.bound for point in reversed(curve)), _most))
    return [
        point
        if point.feasible is False
        else replace(
            point,
            incumbent=incumbent,
            bound=bound,
            feasible=True if incumbent is not None else point.feasible,
        )
        for point, incumbent, bound in zip(curve, incumbents, reversed(bounds), strict=True)
    ]


def _solved(problem: FreeAdmissions, time_limit_s: float) -> HoldPoint:
    unknown = HoldPoint(
        hold=problem.hold,
        work_conserving=problem.work_conserving,
        feasible=None,
        incumbent=None,
        bound=None,
    )
    try:
        result = solve_problem(problem, method="cpsat", budget=Budget(time_limit_s))
    except InfeasibleError:
        return replace(unknown, feasible=False)
    found = True if result.incumbent is not None else None
    return replace(unknown, feasible=found, incumbent=result.incumbent, bound=result.bound)


def _least(first: int | None, second: int | None) -> int | None:
    return min((end for end in (first, second) if end is not None), default=None)


def _most(first: int | None, second: int | None) -> int | None:
    return max((end for end in (first, second) if end is not None), default=None)
