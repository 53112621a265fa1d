"""The one result of every method: why it stopped, which limit, what is known.

Three separate things (after MathOpt): ``stop`` says whether the search was exhausted, ``limit``
which limit ended it if not, and ``incumbent`` and ``bound`` what is known; None when unknown.
All figures are the judge's (``solvers.certify``), in the objective's integer unit.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from brtheory.offline.assignment import Assignment, assignment_to_json
from solvers.objective import Cost, ObjectiveName
from solvers.problem import Case


class Stop(StrEnum):
    """Why a method stopped."""

    EXHAUSTED = "exhausted"
    """Nothing is left to search: the incumbent is optimal by this method's own account."""
    INFEASIBLE = "infeasible"
    """Nothing is left to search, and no assignment exists."""
    LIMIT = "limit"
    INTERRUPTED = "interrupted"


class Limit(StrEnum):
    """Which limit ended a search."""

    TIME = "time"
    MEMORY = "memory"
    WORK = "work"
    """What ``Budget.work_limit`` counts."""
    WIDTH = "width"
    """The beam dropped states."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a method says before anyone has checked it.

    Parameters
    ----------
    assignment, value
        Best assignment and its objective, both None if none was found.
    bound
        Lower bound on the objective of every assignment, None if unknown.
    stop, limit
        Why the method stopped.
    """

    assignment: Assignment | None
    value: int | None
    bound: int | None
    stop: Stop
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class SolveResult:
    """A judged result.

    Parameters
    ----------
    method, case, objective, cost
        What was solved, and the integer weights of the objective.
    stop, limit
        Why the method stopped.
    incumbent, bound
        Objective of ``assignment`` (recomputed by the judge), and a lower bound on every
        assignment's: tokens for imbalance, p*steps + q*sum_peak for time.
    steps, sum_peak, sum_load, time_exact_s
        The judge's figures for ``assignment``.
    assignment
        The best known, by request id.
    wall_s
        Seconds the solve took.
    """

    method: str
    case: Case
    objective: ObjectiveName
    cost: Cost
    stop: Stop
    limit: Limit | None
    incumbent: int | None
    bound: int | None
    steps: int | None
    sum_peak: int | None
    sum_load: int | None
    time_exact_s: Fraction | None
    assignment: Assignment | None
    wall_s: float

    @property
    def optimal(self) -> bool:
        """Whether bound and incumbent meet."""
        return self.incumbent is not None and self.incumbent == self.bound

    @property
    def status(self) -> str:
        """``optimal``, ``feasible`` (an incumbent, not proved best) or ``unknown``."""
        if self.optimal:
            return "optimal"
        return "unknown" if self.incumbent is None else "feasible"

    @property
    def barrier_time_s(self) -> float | None:
        """b0*steps + a0*sum_peak in seconds."""
        return None if self.time_exact_s is None else float(self.time_exact_s)

    @property
    def gap(self) -> float | None:
        """(incumbent - bound)/incumbent, None where unknown or where the incumbent is 0."""
        if not self.incumbent or self.bound is None:
            return None
        return (self.incumbent - self.bound) / self.incumbent

    def to_json(self) -> dict[str, object]:
        """As printed by ``brtheory solve --json``."""
        assignment = None if self.assignment is None else assignment_to_json(self.assignment)
        return {
            "status": self.status,
            "method": self.method,
            "case": self.case,
            "objective": self.objective,
            "weights": {"step": self.cost.step, "peak": self.cost.peak, "load": self.cost.load},
            "stop": self.stop.value,
            "limit": None if self.limit is None else self.limit.value,
            "incumbent": self.incumbent,
            "bound": self.bound,
            "optimal": self.optimal,
            "steps": self.steps,
            "sum_peak": self.sum_peak,
            "sum_load": self.sum_load,
            "barrier_time_s": self.barrier_time_s,
            "wall_s": self.wall_s,
            "assignment": assignment,
        }
