"""The solvers behind PuLP: HiGHS, and where installed CBC (a program) and SCIP (PySCIPOpt)."""

import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pulp
from pulp.apis import coin_api

from brtheory.errors import BrtheoryError, InputError, MissingExtraError
from solvers.background import run_stoppable
from solvers.budget import Budget, Options, Progress
from solvers.result import Limit, Stop

ToProgress = Callable[[float | None, float | None], Progress]

GAP_BELOW_ONE = 0.5
"""Objectives are integers, so a gap below one is no gap."""
NO_SUB_MIPS: Mapping[str, object] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
NODES_A_UNIT = 1000
"""Of ``Budget.work_limit``."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A finished run: values by variable name (None if nothing was found), objective, bound."""

    stop: Stop
    limit: Limit | None
    values: Mapping[str, float] | None
    objective: float | None
    bound: float


def run(
    program: pulp.LpProblem,
    *,
    budget: Budget,
    options: Options,
    start: Mapping[str, float] | None = None,
    to_progress: ToProgress = lambda _value, _bound: Progress(),
    sub_mips: bool = True,
) -> Solved:
    """Minimise a program.

    Parameters
    ----------
    program
        All of its objective coefficients are integers.
    budget, options
        Time limit and stop requests; backend, seed and threads.
    start
        Values of a known solution by variable name, possibly partial.
    to_progress
        Turns (objective, bound) of the program into progress in the objective's unit.
    sub_mips
        Whether HiGHS may look for incumbents in smaller programs; in case C at H = 80 that took
        four fifths of the time.

    Raises
    ------
    InputError
        If the backend is unknown, or CBC or SCIP is not installed.
    MissingExtraError
        If HiGHS is not installed.
    """
    if options.milp_backend == "highs":
        return _run_highs(
            program,
            budget=budget,
            options=options,
            start=start,
            to_progress=to_progress,
            settings={} if sub_mips else NO_SUB_MIPS,
        )
    if options.milp_backend == "cbc":
        return _run_cbc(program, budget=budget, options=options)
    if options.milp_backend == "scip":
        return _run_scip(program, budget=budget, options=options)
    raise InputError("milp_backend", "highs, cbc or scip", repr(options.milp_backend))


def cbc_program() -> str | None:
    """Path of CBC: the installed one, or the one that older releases of PuLP ship; else None."""
    shipped = getattr(coin_api, "pulp_cbc_path", None)
    if (installed := shutil.which("cbc")) is not None:
        return installed
    return shipped if shipped is not None and os.access(shipped, os.X_OK) else None


def _run_highs(
    program: pulp.LpProblem,
    *,
    budget: Budget,
    options: Options,
    start: Mapping[str, float] | None,
    to_progress: ToProgress,
    settings: Mapping[str, object],
) -> Solved:
    if pulp.HiGHS.hscb is None:
        raise MissingExtraError("method milp", "solvers")
    most_nodes = _most_nodes(budget)
    watch = _Watch(lambda value, bound: budget.on_progress(to_progress(value, bound)))
    solver = pulp.HiGHS(
        msg=False,
        gapRel=0.0,
        gapAbs=GAP_BELOW_ONE,
        threads=options.workers,
        timeLimit=budget.remaining_s,
        random_seed=options.seed,
        **settings,
        **({} if most_nodes is None else {"mip_max_nodes": most_nodes}),
        callbackTuple=(watch, None),
        callbacksToActivate=[pulp.HiGHS.hscb.HighsCallbackType.kCallbackMipInterrupt],
    )
    with _silent_stdout():
        solver.createAndConfigureSolver(program)
    solver.buildSolverModel(program)
    highs = program.solverModel
    if start is not None:
        known = [(v.index, start[v.name]) for v in program.variables() if v.name in start]
        highs.setSolution(len(known), [i for i, _ in known], [value for _, value in known])
    status = run_stoppable(highs.run, budget=budget, stop=watch.stop)
    if status.name == "kError":
        # The thread count is global to the process: another value needs a new scheduler.
        type(highs).resetGlobalScheduler(True)  # noqa: FBT003  # the binding takes no keyword
        run_stoppable(highs.run, budget=budget, stop=watch.stop)
    return _solved_by_highs(program)


def _most_nodes(budget: Budget) -> int | None:
    """The work limit in nodes; without work nothing but the root."""
    if budget.work_limit is None:
        return None
    return max(1, round(NODES_A_UNIT * budget.work_limit))


class _Watch:
    """HiGHS' callback: passes stop requests in, and new incumbents and bounds out."""

    def __init__(self, report: Callable[[float, float], None]) -> None:
        self._report = report
        self._stop_asked = False
        self._seen = (math.inf, -math.inf)

    def stop(self) -> None:
        self._stop_asked = True

    def __call__(self, _kind: Any, _message: str, out: Any, into: Any, _data: Any) -> None:
        known = (out.mip_primal_bound, out.mip_dual_bound)
        if known != self._seen:
            self._seen = known
            self._report(*known)
        into.user_interrupt = self._stop_asked


_HIGHS_STOPS: Mapping[str, tuple[Stop, Limit | None]] = {
    "kOptimal": (Stop.EXHAUSTED, None),
    "kInfeasible": (Stop.INFEASIBLE, None),
    "kUnboundedOrInfeasible": (Stop.INFEASIBLE, None),
    "kTimeLimit": (Stop.LIMIT, Limit.TIME),
    "kInterrupt": (Stop.INTERRUPTED, None),
    "kMemoryLimit": (Stop.LIMIT, Limit.MEMORY),
    "kSolutionLimit": (Stop.LIMIT, Limit.WORK),  # also the limit on nodes
}


def _solved_by_highs(program: pulp.LpProblem) -> Solved:
    highs = program.solverModel
    status = highs.getModelStatus().name
    if status not in _HIGHS_STOPS:
        raise BrtheoryError(f"HiGHS ended with status {status}")
    stop, limit = _HIGHS_STOPS[status]
    info, solution = highs.getInfo(), highs.getSolution()
    has_integers = any(v.cat == pulp.LpInteger for v in program.variables())
    bound = info.mip_dual_bound if has_integers else info.objective_function_value
    if not solution.value_valid or info.primal_solution_status != 2:  # kSolutionStatusFeasible
        return Solved(stop, limit, None, None, bound)
    columns = list(solution.col_value)
    values = {v.name: columns[v.index] for v in program.variables()}
    return Solved(stop, limit, values, info.objective_function_value, bound)


def _run_cbc(program: pulp.LpProblem, *, budget: Budget, options: Options) -> Solved:
    """CBC reports no bound through PuLP: it proves or it does not."""
    path = cbc_program()
    if path is None:
        raise InputError("milp_backend", "an installed CBC (pip install 'pulp[cbc]')", "none")
    solver = pulp.COIN_CMD(
        msg=False,
        gapRel=0.0,
        gapAbs=GAP_BELOW_ONE,
        threads=options.workers,
        timeLimit=budget.remaining_s,
        maxNodes=_most_nodes(budget),
        options=[f"randomSeed {options.seed}"],
        path=path,
    )
    program.solve(solver)
    values = {v.name: v.value() for v in program.variables()}
    if program.status == pulp.LpStatusInfeasible:
        return Solved(Stop.INFEASIBLE, None, None, None, float("inf"))
    found = program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    if not found or None in values.values():
        return Solved(Stop.LIMIT, Limit.TIME, None, None, float("-inf"))
    objective = pulp.value(program.objective)
    if program.sol_status == pulp.LpSolutionOptimal:
        return Solved(Stop.EXHAUSTED, None, values, objective, objective)
    return Solved(Stop.LIMIT, Limit.TIME, values, objective, float("-inf"))


_SCIP_STOPS: Mapping[str, tuple[Stop, Limit | None]] = {
    "optimal": (Stop.EXHAUSTED, None),
    "gaplimit": (Stop.EXHAUSTED, None),  # below one, and objectives are integers
    "infeasible": (Stop.INFEASIBLE, None),
    "timelimit": (Stop.LIMIT, Limit.TIME),
    "memlimit": (Stop.LIMIT, Limit.MEMORY),
    "nodelimit": (Stop.LIMIT, Limit.WORK),
    "userinterrupt": (Stop.INTERRUPTED, None),
}


def _run_scip(program: pulp.LpProblem, *, budget: Budget, options: Options) -> Solved:
    """SCIP has one thread, so ``workers`` is not looked at."""
    if not pulp.SCIP_PY().available():
        raise InputError("milp_backend", "an installed SCIP (pip install pyscipopt)", "none")
    solver = pulp.SCIP_PY(
        msg=False,
        timeLimit=budget.remaining_s,
        gapAbs=GAP_BELOW_ONE,
        maxNodes=_most_nodes(budget),
        options=[f"randomization/randomseedshift={options.seed}"],
    )
    solver.buildSolverModel(program)
    model = program.solverModel
    run_stoppable(model.optimizeNogil, budget=budget, stop=model.interruptSolve)
    status = model.getStatus()
    if status not in _SCIP_STOPS:
        raise BrtheoryError(f"SCIP ended with status {status}")
    stop, limit = _SCIP_STOPS[status]
    bound = model.getDualbound()
    if model.getNSols() == 0:
        return Solved(stop, limit, None, None, bound)
    best = model.getBestSol()
    values = {v.name: best[v.solverVar] for v in program.variables()}
    return Solved(stop, limit, values, model.getSolObjVal(best), bound)


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """HiGHS prints a banner when made, whatever its options say: keep it off standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  # a device
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
