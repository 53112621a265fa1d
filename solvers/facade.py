"""One entrance to every exact method: ``solve`` for instances, ``solve_tick`` for one tick.

Methods and the cases they declare:

    brute   A B C   everything, tiny problems only
    dp      A B     dynamic programs; in case B without KV capacity
    beam    A       the same, keeping the best states only: an upper bound
    milp    A B C   PuLP with HiGHS
    cpsat   A B C   OR-Tools CP-SAT
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from brtheory.core.tick import TickState
from brtheory.errors import InfeasibleError, InputError, MissingExtraError
from brtheory.offline.instance import Instance
from solvers.budget import Budget, Options, Progress
from solvers.certify import judged
from solvers.first_bound import first_bound
from solvers.objective import ObjectiveName
from solvers.problem import (
    Case,
    FixedAdmissions,
    FreeAdmissions,
    Problem,
    TickProblem,
    first_tick,
)
from solvers.ready_together import as_early_as_ready, ready_together, without_idle_steps
from solvers.result import Claim, SolveResult, Stop

_CASES: Mapping[str, str] = {"brute": "ABC", "dp": "AB", "beam": "A", "milp": "ABC", "cpsat": "ABC"}

METHODS = tuple(_CASES)

_MODULES: Mapping[str, tuple[str, str]] = {
    "brute": ("solvers.brute", "solve"),
    "dp": ("solvers.dynamic", "solve"),
    "beam": ("solvers.dynamic", "solve_beam"),
    "milp": ("solvers.milp.model", "solve"),
    "cpsat": ("solvers.cpsat.model", "solve"),
}
_EXTRA = "solvers"
_EXTRA_PACKAGES = ("pulp", "highspy", "ortools")


class Backend(Protocol):
    """What a method's module offers as ``solve``."""

    def __call__(self, problem: Problem, *, budget: Budget, options: Options) -> Claim:
        """Search within the budget and claim a result."""


def solve(
    instance: Instance,
    *,
    method: str,
    case: Case = "A",
    objective: ObjectiveName = "time",
    time_limit: float | None = None,
    admissions: Mapping[int, int] | None = None,
    hold: int | None = None,
    work_conserving: bool = False,
    options: Options | None = None,
    budget: Budget | None = None,
) -> SolveResult:
    """Solve an instance.

    Parameters
    ----------
    instance
        Requests with true output lengths, and the cluster.
    method
        One of ``METHODS``.
    case
        ``A``: admission steps given by ``admissions`` (None: each request starts when ready);
        ``B``: free, restricted by ``hold`` and ``work_conserving``; ``C``: the first tick.
    objective
        ``imbalance`` or ``time``.
    time_limit
        Seconds, None for unlimited. Ignored where ``budget`` is given.
    options, budget
        How to search, and every other limit.

    Raises
    ------
    InputError
        If the method does not solve the case, or an argument does not fit it.
    InfeasibleError
        If nothing is feasible; the message names the request and the limit.
    MissingExtraError
        If the method's backend is not installed.
    """
    check_arguments(method, case, admissions=admissions, hold=hold, work_conserving=work_conserving)
    problem: Problem
    if case == "A":
        problem = FixedAdmissions(instance, objective, admissions)
    elif case == "B":
        problem = FreeAdmissions(instance, objective, hold, work_conserving)
    else:
        problem = first_tick(instance, objective)
    return solve_problem(
        problem, method=method, options=options, budget=budget or Budget(time_limit)
    )


def solve_tick(
    state: TickState,
    *,
    method: str,
    objective: ObjectiveName = "imbalance",
    time_limit: float | None = None,
    options: Options | None = None,
    budget: Budget | None = None,
) -> SolveResult:
    """Solve one tick (case C); arguments and errors as ``solve``."""
    problem = TickProblem(state, objective)
    return solve_problem(
        problem, method=method, options=options, budget=budget or Budget(time_limit)
    )


def solve_problem(
    problem: Problem, *, method: str, options: Options | None = None, budget: Budget | None = None
) -> SolveResult:
    """Solve a checked problem and have the result judged; errors as ``solve``.

    A search cut short knows at least the first bound of cases A and B, whatever the method.
    """
    _check_pair(method, problem.case)
    options, budget = options or Options(), budget or Budget()
    backend, first = _backend(method), first_bound(problem)
    budget.on_progress(Progress(bound=first))
    claim = _search(backend, problem, method=method, budget=budget, options=options)
    if claim.stop is Stop.INFEASIBLE:
        raise InfeasibleError(_why_infeasible(problem, backend, options))
    if first is not None and claim.stop is not Stop.EXHAUSTED:
        claim = replace(claim, bound=max(first, first if claim.bound is None else claim.bound))
    return judged(problem, claim, method=method, wall_s=budget.elapsed_s)


def _search(
    backend: Backend, problem: Problem, *, method: str, budget: Budget, options: Options
) -> Claim:
    """The backend's claim; ready steps that do not matter (N19) are for brute force only."""
    as_given = method == "brute" or options.textbook
    if as_given or not isinstance(problem, FreeAdmissions) or problem.restricted:
        return backend(problem, budget=budget, options=options)
    if options.hint is not None:
        options = replace(options, hint=without_idle_steps(problem, options.hint))
    if options.symmetry is None:
        options = replace(options, symmetry=True)
    claim = backend(ready_together(problem), budget=budget, options=options)
    if claim.assignment is None:
        return claim
    return replace(claim, assignment=as_early_as_ready(problem, claim.assignment))


def check_arguments(
    method: str,
    case: Case,
    *,
    admissions: object = None,
    hold: int | None = None,
    work_conserving: bool = False,
) -> None:
    """Refuse a method that does not solve the case, and arguments that belong to another case.

    Raises
    ------
    InputError
        Naming what the case takes.
    """
    _check_pair(method, case)
    if admissions is not None and case != "A":
        raise InputError("admissions", "given steps in case A only", f"case {case}")
    if (hold is not None or work_conserving) and case != "B":
        raise InputError("hold, work_conserving", "rules of case B only", f"case {case}")


def _check_pair(method: str, case: str) -> None:
    if method not in _CASES:
        raise InputError("method", "one of " + ", ".join(METHODS), repr(method))
    if case not in ("A", "B", "C"):
        raise InputError("case", "one of A, B, C", repr(case))
    if case not in _CASES[method]:
        able = [name for name, cases in _CASES.items() if case in cases]
        raise InputError("method", f"one of {', '.join(able)} for case {case}", repr(method))


def _backend(method: str) -> Backend:
    """Import a method only when it is asked for: solver packages take long to load."""
    name, function = _MODULES[method]
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _EXTRA_PACKAGES:
            raise MissingExtraError(f"method {method}", _EXTRA) from error
        raise
    return cast("Backend", getattr(module, function))


def _why_infeasible(problem: Problem, backend: Backend, options: Options) -> str:
    """Name the first request, in admission order, with which nothing is feasible."""
    if isinstance(problem, TickProblem):
        return "tick: no admissible choice"
    requests = problem.ordered
    feasible, infeasible = 0, len(requests)
    while infeasible - feasible > 1:
        middle = (feasible + infeasible) // 2
        part = _with_first(problem, middle)
        stop = backend(part, budget=Budget(), options=replace(options, hint=None)).stop
        feasible, infeasible = (
            (feasible, middle) if stop is Stop.INFEASIBLE else (middle, infeasible)
        )
    first = requests[infeasible - 1].id
    return f"request {first}: no place beside those before it ({_limits(problem)})"


def _with_first(problem: FixedAdmissions | FreeAdmissions, count: int) -> Problem:
    instance = replace(problem.instance, requests=problem.ordered[:count])
    if isinstance(problem, FixedAdmissions):
        steps = {r.id: problem.steps[r.id] for r in instance.requests}
        return FixedAdmissions(instance, problem.objective, steps)
    return FreeAdmissions(instance, problem.objective, problem.hold, problem.work_conserving)


def _limits(problem: FixedAdmissions | FreeAdmissions) -> str:
    instance = problem.instance
    limits = [f"replicas {instance.replicas}", f"slots {instance.slots}"]
    if instance.kv_capacity is not None:
        limits.append(f"kv_capacity {instance.kv_capacity}")
    if isinstance(problem, FreeAdmissions) and problem.hold is not None:
        limits.append(f"hold {problem.hold}")
    return ", ".join(limits)
