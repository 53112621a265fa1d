"""Gaps of routers on one instance, as intervals, and what each kind of decision costs.

A gap is an interval unless optimality is proved: with value A of the router, incumbent and bound of
the optimum, [(A - incumbent)/incumbent, (A - bound)/bound], beside the absolute one. Where the
denominator is 0 the ratio is None. Three yardsticks:

    same admissions   case A: the router's own admission steps, the best replicas
    work-conserving   case B: barrier time of schedules in which nobody waits beside a free slot
    any admissions    case B: barrier time of every schedule that serves all requests
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance
from solvers.budget import Budget
from solvers.certify import judged_value
from solvers.facade import solve_problem
from solvers.first_bound import first_bound
from solvers.gap.document import (
    AnyAdmissions,
    GapFacts,
    RouterFacts,
    SameAdmissions,
    WorkConserving,
)
from solvers.gap.hold import HoldPoint, conserving_point, unlimited_point
from solvers.gap.policies import find_policy, replay_policy
from solvers.incumbents import best_known, obeying
from solvers.objective import ObjectiveName
from solvers.problem import FixedAdmissions, FreeAdmissions, admission_steps
from solvers.ready_together import ready_together
from solvers.result import SolveResult

MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Gap:
    """Distance of a value from an optimum that lies in [bound, incumbent].

    Parameters
    ----------
    value
        Objective of the policy.
    incumbent
        Objective of the best known assignment, None if none is known. Above ``value`` only where
        the policy does what the yardstick forbids.
    bound
        Lower bound on the optimum.
    """

    value: int
    incumbent: int | None
    bound: int

    @property
    def absolute(self) -> tuple[int | None, int]:
        """(value - incumbent, value - bound)."""
        return None if self.incumbent is None else self.value - self.incumbent, (
            self.value - self.bound
        )

    @property
    def relative(self) -> tuple[float | None, float | None]:
        """The same over incumbent and bound; None where unknown or over 0."""
        least, most = self.absolute
        over_incumbent = least / self.incumbent if least is not None and self.incumbent else None
        return over_incumbent, most / self.bound if self.bound > 0 else None

    @property
    def proved(self) -> bool:
        """Whether the interval is a point."""
        return self.incumbent == self.bound

    def facts(self) -> GapFacts:
        """As in the document, ends as [least, most]."""
        return GapFacts(
            value=self.value,
            incumbent=self.incumbent,
            bound=self.bound,
            absolute=list(self.absolute),
            relative=list(self.relative),
            proved=self.proved,
        )


@dataclass(frozen=True, slots=True)
class RouterGap:
    """One policy on one instance.

    Parameters
    ----------
    router
        Name of the policy.
    assignment
        What it did.
    imbalance, time
        Gaps to the best replicas at its own admission steps (case A), in tokens and in the
        integer unit of barrier time.
    time_conserving
        Gap of barrier time to the best schedule in which nobody waits beside a free slot, None
        where there is no such schedule. Negative for a policy that gained by waiting.
    time_any
        Gap of barrier time to the best schedule at all (case B).
    """

    router: str
    assignment: Assignment
    imbalance: Gap
    time: Gap
    time_conserving: Gap | None
    time_any: Gap

    def facts(self) -> RouterFacts:
        """As in the document, without the assignment."""
        return RouterFacts(
            router=self.router,
            same_admissions=SameAdmissions(
                imbalance=self.imbalance.facts(), barrier_time=self.time.facts()
            ),
            work_conserving=None
            if self.time_conserving is None
            else WorkConserving(barrier_time=self.time_conserving.facts()),
            any_admissions=AnyAdmissions(barrier_time=self.time_any.facts()),
        )


def measure(
    instance: Instance,
    routers: Sequence[str],
    *,
    time_limit_s: float,
    seed: int,
    curve: Sequence[HoldPoint] | None = None,
    on_router: Callable[[int], None] = lambda _count: None,
) -> list[RouterGap]:
    """Replay policies on an instance and bound what each of them loses.

    Parameters
    ----------
    instance
        At least one request.
    routers
        Names of policies (``solvers.gap.policies``).
    time_limit_s
        For each solve.
    seed
        Of the routers that draw.
    curve
        What is known of case B (``hold_curve``); None to rely on steps and work below, and above on
        the best known assignments: of all requests at once for any admissions (N19).
    on_router
        Called with 1 after each router.

    Raises
    ------
    InputError
        If a name is unknown.
    """
    replays = []
    for name in routers:
        assignment = replay_policy(instance, find_policy(name), seed=seed)
        replays.append((name, assignment, _solve_fixed(instance, assignment, time_limit_s)))
        on_router(1)
    times = [_value(instance, assignment, "time") for _, assignment, _ in replays]
    fixed_best = [fixed.incumbent for _, _, fixed in replays]
    done = [assignment for _, assignment, _ in replays]
    done += [fixed.assignment for _, _, fixed in replays if fixed.assignment is not None]
    unlimited = None if curve is None else unlimited_point(curve)
    free_best, bound = _ends(FreeAdmissions(instance, "time"), unlimited)
    conserving = _conserving_ends(instance, curve, done)
    conserving_best = None if conserving is None else conserving[0]
    best = min(_known([*times, *fixed_best, conserving_best, free_best]))
    return [
        RouterGap(
            router=name,
            assignment=assignment,
            imbalance=_imbalance_gap(instance, assignment, fixed),
            time=_gap(time, fixed),
            time_conserving=None
            if conserving is None
            else Gap(time, conserving[0], max(bound, conserving[1])),
            time_any=Gap(time, best, min(bound, best)),
        )
        for (name, assignment, fixed), time in zip(replays, times, strict=True)
    ]


def placement_ratio(
    instance: Instance, router: str, *, time_limit_s: float, seed: int
) -> float | None:
    """(value - incumbent)/incumbent of barrier time at the router's own admissions (case A)."""
    assignment = replay_policy(instance, find_policy(router), seed=seed)
    fixed = _solve_fixed(instance, assignment, time_limit_s)
    return _gap(_value(instance, assignment, "time"), fixed).relative[0]


def _ends(problem: FreeAdmissions, point: HoldPoint | None) -> tuple[int | None, int]:
    """Incumbent and bound of case B: as solved, or without a search."""
    found: tuple[int | None, int | None] = (None, None)
    if point is not None:
        found = point.ends
    elif (known := best_known(ready_together(problem), None)) is not None:
        found = known[1], None
    return found[0], max(_known([first_bound(problem), found[1]]))


def _conserving_ends(
    instance: Instance, curve: Sequence[HoldPoint] | None, done: Iterable[Assignment]
) -> tuple[int | None, int] | None:
    """The same where nobody waits beside a free slot; None if no schedule obeys that."""
    problem = FreeAdmissions(instance, "time", work_conserving=True)
    point = None if curve is None else conserving_point(curve)
    if point is not None and point.feasible is False:
        return None
    best, bound = _ends(problem, point)
    obedient = (value for _, value in obeying(problem, done))
    return min(_known([best, *obedient]), default=None), bound


def _value(instance: Instance, assignment: Assignment, objective: ObjectiveName) -> int:
    return judged_value(FreeAdmissions(instance, objective), assignment)


def _solve_fixed(instance: Instance, assignment: Assignment, time_limit_s: float) -> SolveResult:
    problem = FixedAdmissions(instance, "time", admission_steps(assignment))
    budget = Budget(time_limit_s, MEMORY_BYTES)
    return solve_problem(problem, method="dp", budget=budget)


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _gap(value: int, fixed: SolveResult) -> Gap:
    incumbent = value if fixed.incumbent is None else min(value, fixed.incumbent)
    return Gap(value, incumbent, fixed.bound if fixed.bound is not None else 0)


def _imbalance_gap(instance: Instance, assignment: Assignment, fixed: SolveResult) -> Gap:
    """Case A's optimum in the other unit: steps and W are fixed, so sum_peak gives both."""
    value = _value(instance, assignment, "imbalance")
    best = None if fixed.sum_peak is None else _imbalance(instance, fixed.sum_peak)
    peaks = _value_to_peaks(fixed)
    bound = 0 if peaks is None else max(0, _imbalance(instance, peaks))
    return Gap(value, value if best is None else min(value, best), bound)


def _value_to_peaks(fixed: SolveResult) -> int | None:
    """Sum of M that the bound of barrier time stands for; None if peaks cost nothing."""
    if fixed.optimal:
        return fixed.sum_peak
    if fixed.bound is None or fixed.steps is None or fixed.cost.peak == 0:
        return None
    return -(-(fixed.bound - fixed.cost.step * fixed.steps) // fixed.cost.peak)


def _imbalance(instance: Instance, sum_peak: int) -> int:
    return instance.replicas * sum_peak - instance.total_work
