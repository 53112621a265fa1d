"""CP-SAT under a budget: progress, stop requests and a clean reading of how it ended."""

from collections.abc import Callable
from dataclasses import dataclass

from ortools.sat.python import cp_model

from brtheory.errors import BrtheoryError, InputError
from solvers.background import run_stoppable
from solvers.budget import Budget, Options, Progress
from solvers.result import Limit, Stop


@dataclass(frozen=True)
class Solved:
    """A finished run: how to read a variable (None if nothing was found), objective, bound."""

    stop: Stop
    limit: Limit | None
    value: Callable[[cp_model.IntVar], int] | None
    objective: int | None
    bound: float


def run(
    program: cp_model.CpModel,
    *,
    budget: Budget,
    options: Options,
    to_progress: Callable[[float | None, float | None], Progress],
) -> Solved:
    """Minimise a program.

    Parameters
    ----------
    program
        All of its data are integers.
    budget, options
        Time limit and stop requests; seed and workers.
    to_progress
        Turns (objective, bound) of the program into progress in the objective's unit.

    Raises
    ------
    InputError
        If the numbers are too large for CP-SAT's 64-bit sums.
    """
    if problem := program.validate():
        raise InputError("instance", "numbers that fit CP-SAT's 64-bit sums", problem.strip())
    solver = _solver(budget, options)
    solver.best_bound_callback = lambda bound: budget.on_progress(to_progress(None, bound))
    on_solution = _OnSolution(lambda value, bound: budget.on_progress(to_progress(value, bound)))
    status = run_stoppable(
        lambda: solver.solve(program, on_solution), budget=budget, stop=solver.stop_search
    )
    return _solved(solver, status, budget=budget)


def run_in_order(program: cp_model.CpModel, *, budget: Budget, options: Options) -> Solved:
    """Find the first solution in the order of the program's decision strategy.

    Nothing may reorder the search or drop solutions: one worker, no presolve, no symmetry.
    """
    solver = _solver(budget, options)
    solver.parameters.num_workers = 1
    solver.parameters.search_branching = cp_model.FIXED_SEARCH
    solver.parameters.cp_model_presolve = False
    solver.parameters.symmetry_level = 0
    status = run_stoppable(lambda: solver.solve(program), budget=budget, stop=solver.stop_search)
    return _solved(solver, status, budget=budget)


class _OnSolution(cp_model.CpSolverSolutionCallback):
    def __init__(self, report: Callable[[float, float], None]) -> None:
        super().__init__()
        self._report = report

    def on_solution_callback(self) -> None:
        self._report(self.objective_value, self.best_objective_bound)


def _solver(budget: Budget, options: Options) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if budget.remaining_s is not None:
        parameters.max_time_in_seconds = budget.remaining_s
    if budget.work_limit is not None:
        parameters.max_deterministic_time = budget.work_limit
    if budget.memory_limit_bytes is not None:
        parameters.max_memory_in_mb = max(1, budget.memory_limit_bytes >> 20)
    parameters.num_workers = options.workers
    parameters.random_seed = options.seed
    # The main thread watches for Ctrl-C (solvers.background).
    parameters.catch_sigint_signal = False
    # CP-SAT 9.15 can call a wrong value optimal on linear models (google/or-tools#5293); without
    # this presolve rule it does not.
    parameters.presolve_inclusion_work_limit = 0
    return solver


def _solved(solver: cp_model.CpSolver, status: object, *, budget: Budget) -> Solved:
    if status == cp_model.INFEASIBLE:
        return Solved(Stop.INFEASIBLE, None, None, None, float("inf"))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        raise BrtheoryError(f"CP-SAT ended with status {solver.status_name(status)}")
    bound = solver.best_objective_bound
    stop, limit = _why(status, budget)
    if status == cp_model.UNKNOWN:
        return Solved(stop, limit, None, None, bound)
    return Solved(stop, limit, solver.value, round(solver.objective_value), bound)


def _why(status: object, budget: Budget) -> tuple[Stop, Limit | None]:
    if status == cp_model.OPTIMAL:
        return Stop.EXHAUSTED, None
    return (
        (Stop.INTERRUPTED, None) if budget.should_stop() else (Stop.LIMIT, budget.limit_reached())
    )
