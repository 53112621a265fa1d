"""From what a solver backend reports to a claim the judge can check."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from brtheory.offline.assignment import Assignment, Placement
from solvers.budget import Progress
from solvers.certify import CertificationError, judged_value
from solvers.model import ScheduleModel
from solvers.problem import Problem, TickProblem
from solvers.result import Claim, Limit, Stop
from solvers.tick_model import TickModel

RELATIVE_SLACK = 1e-9
"""Floating-point error granted to a backend's bound before it is rounded up to an integer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A backend's report, in the objective's unit.

    Parameters
    ----------
    assignment, objective
        Best found, and the backend's own figure for it (at least the judge's: a peak variable may
        lie above the loads unless the assignment is optimal). None if nothing was found.
    bound
        Lower bound, None if unknown.
    stop, limit
        Why it stopped.
    admissions
        Case C: the proved largest number of admissions, None if unknown.
    """

    assignment: Assignment | None
    objective: int | None
    bound: int | None
    stop: Stop
    limit: Limit | None = None
    admissions: int | None = None


def scale(model: ScheduleModel | TickModel) -> int:
    """What every term of the objective but the constant is a multiple of."""
    cost = model.cost
    load = cost.load if isinstance(model, TickModel) else 0
    return math.gcd(cost.step, cost.peak, load)


def rounded_bound(bound: float) -> int | None:
    """The least integer a backend's floating-point bound proves, None if it proves nothing."""
    if not math.isfinite(bound):
        return None
    return math.ceil(bound - min(0.49, RELATIVE_SLACK * max(1.0, abs(bound))))


def progress_in(
    model: ScheduleModel | TickModel,
) -> Callable[[float | None, float | None], Progress]:
    """Turn (objective, bound) of a program into progress in the objective's unit."""
    unit, constant = scale(model), model.constant

    def progress(value: float | None, bound: float | None) -> Progress:
        found = None if value is None or not math.isfinite(value) else round(value)
        least = None if bound is None else rounded_bound(bound)
        return Progress(
            incumbent=None if found is None else unit * found + constant,
            bound=None if least is None else unit * least + constant,
        )

    return progress


def claim_of(problem: Problem, answer: Answer, known: tuple[Assignment, int] | None) -> Claim:
    """The better of the answer and the known assignment.

    Raises
    ------
    CertificationError
        If the answer contradicts the judge or the known assignment.
    """
    if answer.stop is Stop.INFEASIBLE:
        if known is not None:
            raise CertificationError("claims infeasible, but a feasible assignment is known")
        return Claim(None, None, None, Stop.INFEASIBLE)
    if known is not None and answer.admissions not in (None, len(known[0])):
        known = None  # fewer admissions than fit: no solution of this tick
    best = known
    if answer.assignment is not None:
        value = judged_value(problem, answer.assignment)
        if answer.objective is not None and value > answer.objective:
            raise CertificationError(f"claims {answer.objective}, the judge finds {value}")
        if best is None or value < best[1] or answer.stop is Stop.EXHAUSTED:
            best = (answer.assignment, value)
    assignment, incumbent = best or (None, None)
    stop, limit, bound = answer.stop, answer.limit, answer.bound
    if bound is not None and bound == incumbent:
        stop, limit = Stop.EXHAUSTED, None
    return Claim(assignment, incumbent, bound, stop, limit)


def trivial(problem: Problem) -> Claim | None:
    """The claim where there is nothing to place, None where there is."""
    if isinstance(problem, TickProblem):
        nothing = problem.most_admissions == 0
    else:
        nothing = not problem.instance.requests
    if not nothing:
        return None
    value = judged_value(problem, ())
    return Claim((), value, value, Stop.EXHAUSTED)


def schedule_assignment(model: ScheduleModel, chosen: set[tuple[int, int, int]]) -> Assignment:
    """Placements of the chosen (request index, step, replica)."""
    return tuple(Placement(model.requests[i].id, g, t) for i, t, g in sorted(chosen))


def tick_assignment(problem: TickProblem, chosen: set[tuple[int, int]]) -> Assignment:
    """Placements of the chosen (pool index, replica)."""
    return tuple(Placement(problem.state.pool[i].id, g, 0) for i, g in sorted(chosen))
