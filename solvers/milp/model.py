"""The mixed-integer programs put together and solved: cases A, B and C."""

from dataclasses import replace

import pulp

from brtheory.offline.assignment import Assignment
from solvers.answers import (
    Answer,
    claim_of,
    progress_in,
    rounded_bound,
    scale,
    schedule_assignment,
    tick_assignment,
    trivial,
)
from solvers.budget import Budget, Options, Progress
from solvers.incumbents import best_known
from solvers.milp import constraints, objective
from solvers.milp.engines import Solved, run
from solvers.milp.variables import (
    ScheduleVariables,
    TickVariables,
    schedule_variables,
    tick_variables,
)
from solvers.model import ScheduleModel, canonical
from solvers.model_build import schedule_model
from solvers.problem import FixedAdmissions, FreeAdmissions, Problem, TickProblem
from solvers.result import Claim, Stop
from solvers.textbook import textbook_model
from solvers.tick_model import TickModel, tick_model

Known = tuple[Assignment, int] | None


def solve(problem: Problem, *, budget: Budget, options: Options) -> Claim:
    """Build and solve the program of a problem.

    Parameters
    ----------
    problem
        Cases A, B or C.
    budget
        At the time limit or on a stop request the incumbent and the bound are returned.
    options
        ``hint``, ``symmetry``, ``textbook``, ``seed``, ``workers``, ``milp_backend``.
    """
    if (nothing := trivial(problem)) is not None:
        return nothing
    known = best_known(problem, options.hint)
    if known is not None:
        budget.on_progress(Progress(incumbent=known[1]))
    if isinstance(problem, TickProblem):
        answer = _solve_tick(problem, budget=budget, options=options)
    else:
        answer = _solve_schedule(problem, known, budget=budget, options=options)
    return claim_of(problem, answer, known)


def build_schedule(
    model: ScheduleModel, *, symmetry: bool
) -> tuple[pulp.LpProblem, ScheduleVariables]:
    """The program of cases A and B."""
    program = pulp.LpProblem("schedule", pulp.LpMinimize)
    x = schedule_variables(program, model)
    objective.schedule_objective(program, model, x)
    constraints.place_once(program, model, x)
    constraints.peak_covers_loads(program, model, x)
    constraints.slots(program, model, x)
    if model.fixed_steps is None:
        constraints.executed_steps(program, model, x)
        constraints.work_conserving(program, model, x)
    if model.fixed_steps is None and model.tight:
        constraints.peak_covers_work(program, model, x)
        constraints.no_late_gap(program, model, x)
    if symmetry:
        constraints.first_use_order(program, model, x)
    return program, x


def build_tick(model: TickModel, *, count: int | None) -> tuple[pulp.LpProblem, TickVariables]:
    """The program of case C for a given number of admissions; None asks for the largest."""
    program = pulp.LpProblem("tick", pulp.LpMinimize)
    x = tick_variables(program, model)
    constraints.tick_place_at_most_once(program, model, x)
    constraints.tick_slots(program, model, x)
    constraints.tick_room(program, model, x)
    if count is None:
        objective.tick_count_objective(program, x)
    else:
        objective.tick_objective(program, model, x)
        constraints.tick_count(program, x, count)
        constraints.tick_added(program, model, x)
        constraints.tick_peak_covers_loads(program, model, x)
    return program, x


def _solve_schedule(
    problem: FixedAdmissions | FreeAdmissions, known: Known, *, budget: Budget, options: Options
) -> Answer:
    if options.textbook:
        model, known = textbook_model(problem), None
    else:
        model = schedule_model(problem, incumbent=None if known is None else known[1])
    if model.impossible:
        return Answer(None, None, None, Stop.INFEASIBLE)
    program, x = build_schedule(model, symmetry=bool(options.symmetry))
    start = None if known is None else _start_values(model, known[0], x)
    progress = progress_in(model)
    solved = run(program, budget=budget, options=options, start=start, to_progress=progress)
    if solved.values is None:
        return _answer(solved, None, model)
    chosen = {key for key, v in x.start.items() if solved.values[v.name] > 0.5}
    return _answer(solved, schedule_assignment(model, chosen), model)


def _solve_tick(problem: TickProblem, *, budget: Budget, options: Options) -> Answer:
    model = tick_model(problem)
    count = model.most
    if model.room is not None:
        program, _ = build_tick(model, count=None)
        solved = run(program, budget=budget, options=options)
        if solved.stop is not Stop.EXHAUSTED or solved.objective is None:
            return Answer(None, None, None, solved.stop, solved.limit)
        count = -round(solved.objective)
    program, x = build_tick(model, count=count)
    # No start: HiGHS 1.16 has called a start optimal with a value that is not its own.
    solved = run(
        program,
        budget=budget,
        options=options,
        to_progress=progress_in(model),
        sub_mips=False,
    )
    assignment = None
    if solved.values is not None:
        chosen = {key for key, v in x.place.items() if solved.values[v.name] > 0.5}
        assignment = tick_assignment(problem, chosen)
    return replace(_answer(solved, assignment, model), admissions=count)


def _start_values(
    model: ScheduleModel, assignment: Assignment, x: ScheduleVariables
) -> dict[str, float]:
    """Known values of the start variables; the backend completes the rest."""
    replica = canonical(assignment, (r.id for r in model.requests))
    step = {p.id: p.step for p in assignment}
    chosen = {(i, step[r.id], replica[r.id]) for i, r in enumerate(model.requests)}
    return {v.name: float(key in chosen) for key, v in x.start.items()}


def _answer(
    solved: Solved, assignment: Assignment | None, model: ScheduleModel | TickModel
) -> Answer:
    found = None if solved.objective is None else round(solved.objective)
    bound = found if solved.stop is Stop.EXHAUSTED else rounded_bound(solved.bound)
    unit, constant = scale(model), model.constant
    return Answer(
        assignment=assignment,
        objective=None if found is None else unit * found + constant,
        bound=None if bound is None else unit * bound + constant,
        stop=solved.stop,
        limit=solved.limit,
    )
