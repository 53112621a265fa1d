"""Every result goes through the judge: figures are recomputed, and any mismatch raises.

``judged`` turns a method's claim into a result; ``certify`` re-checks a finished result, so that a
result that was stored, sent or tampered with is refused. Neither uses a solver.
"""

from dataclasses import dataclass, fields
from fractions import Fraction

from brtheory.errors import BrtheoryError
from brtheory.offline.assignment import Assignment
from brtheory.offline.evaluate import decimal_fraction, evaluate
from solvers.problem import Problem, TickProblem
from solvers.result import Claim, Limit, SolveResult, Stop
from solvers.rules import rule_violations
from solvers.tick import evaluate_tick


class CertificationError(BrtheoryError):
    """A result that does not stand up to the judge."""


def judged(problem: Problem, claim: Claim, *, method: str, wall_s: float) -> SolveResult:
    """Build a result from a claim, with the judge's figures.

    Raises
    ------
    CertificationError
        If the assignment breaks a limit or a rule, the claimed value is not the judge's, or the
        bound lies above it.
    """
    figures = _Figures() if claim.assignment is None else _figures(problem, claim.assignment)
    if claim.value != figures.value:
        raise CertificationError(f"{method}: claims {claim.value}, the judge finds {figures.value}")
    assignment = claim.assignment
    result = SolveResult(
        method=method,
        case=problem.case,
        objective=problem.objective,
        cost=problem.cost,
        stop=claim.stop,
        limit=claim.limit,
        incumbent=figures.value,
        bound=claim.bound,
        steps=figures.steps,
        sum_peak=figures.sum_peak,
        sum_load=figures.sum_load,
        time_exact_s=figures.time_exact_s,
        assignment=None if assignment is None else tuple(sorted(assignment, key=lambda p: p.id)),
        wall_s=wall_s,
    )
    _check_logic(result)
    return result


def certify(problem: Problem, result: SolveResult) -> SolveResult:
    """Re-judge a result and return it unchanged.

    Raises
    ------
    CertificationError
        If any field is not what the judge recomputes, or the fields contradict each other.
    """
    claim = Claim(result.assignment, result.incumbent, result.bound, result.stop, result.limit)
    honest = judged(problem, claim, method=result.method, wall_s=result.wall_s)
    for name in (each.name for each in fields(SolveResult)):
        expected, got = getattr(honest, name), getattr(result, name)
        if expected != got:
            raise CertificationError(f"{name}: the judge finds {expected}, the result says {got}")
    return result


def judged_value(problem: Problem, assignment: Assignment) -> int:
    """The objective of an assignment by the judge.

    Raises
    ------
    CertificationError
        If it breaks a limit or a rule.
    """
    value = _figures(problem, assignment).value
    if value is None:
        raise CertificationError("an assignment without figures")
    return value


@dataclass(frozen=True, slots=True)
class _Figures:
    """The judge's figures; all None where there is no assignment."""

    value: int | None = None
    steps: int | None = None
    sum_peak: int | None = None
    sum_load: int | None = None
    time_exact_s: Fraction | None = None


def _figures(problem: Problem, assignment: Assignment) -> _Figures:
    if isinstance(problem, TickProblem):
        return _tick_figures(problem, assignment)
    found = evaluate(problem.instance, assignment)
    violations = list(found.violations) or list(rule_violations(problem, assignment))
    if violations or found.steps is None or found.sum_peak is None or found.sum_load is None:
        raise CertificationError("; ".join(violations))
    value = problem.cost.value(steps=found.steps, sum_peak=found.sum_peak, sum_load=found.sum_load)
    return _Figures(value, found.steps, found.sum_peak, found.sum_load, found.time_exact_s)


def _tick_figures(problem: TickProblem, assignment: Assignment) -> _Figures:
    found = evaluate_tick(problem.state, assignment)
    if found.violations or found.sum_peak is None or found.sum_load is None:
        raise CertificationError("; ".join(found.violations))
    steps, time_exact_s = problem.rows, None
    if problem.a0 is not None and problem.b0 is not None:
        a0, b0 = decimal_fraction(problem.a0), decimal_fraction(problem.b0)
        time_exact_s = b0 * steps + a0 * found.sum_peak
    value = problem.cost.value(steps=steps, sum_peak=found.sum_peak, sum_load=found.sum_load)
    return _Figures(value, steps, found.sum_peak, found.sum_load, time_exact_s)


def _check_logic(result: SolveResult) -> None:
    """What must hold between the fields, whatever the problem."""
    incumbent, bound = result.incumbent, result.bound
    if incumbent is not None and bound is not None and bound > incumbent:
        raise CertificationError(f"bound {bound} above the incumbent {incumbent}")
    if result.stop is Stop.EXHAUSTED and not result.optimal:
        raise CertificationError(f"search exhausted with incumbent {incumbent}, bound {bound}")
    if (result.stop is Stop.LIMIT) != isinstance(result.limit, Limit):
        raise CertificationError(f"stopped by {result.stop.value}, limit {result.limit}")
