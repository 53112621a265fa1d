"""The constraint programs put together and solved: cases A, B and C."""

from dataclasses import replace

from ortools.sat.python.cp_model import CpModel

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
from solvers.cpsat import constraints, objective
from solvers.cpsat.canonical import first_of_the_best
from solvers.cpsat.engine import Solved, run
from solvers.cpsat.variables import (
    ScheduleVariables,
    TickVariables,
    schedule_variables,
    tick_variables,
)
from solvers.incumbents import best_known
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
        ``hint``, ``symmetry``, ``textbook``, ``seed``, ``workers``, ``canonical``.
    """
    if (nothing := trivial(problem)) is not None:
        return nothing
    known = best_known(problem, options.hint)
    if known is not None:
        budget.on_progress(Progress(incumbent=known[1]))
    if isinstance(problem, TickProblem):
        answer = _solve_tick(problem, known, budget=budget, options=options)
    else:
        answer = _solve_schedule(problem, known, budget=budget, options=options)
    return claim_of(problem, answer, known)


def build_schedule(model: ScheduleModel, *, symmetry: bool) -> tuple[CpModel, ScheduleVariables]:
    """The program of cases A and B."""
    program = CpModel()
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


def build_tick(
    model: TickModel, *, count: int | None, most: int | None = None
) -> tuple[CpModel, TickVariables]:
    """The program of case C.

    For a given number of admissions (None asks for the largest), with the least cost or, where
    ``most`` is given, with any cost up to that.
    """
    program = CpModel()
    x = tick_variables(program, model)
    constraints.tick_place_at_most_once(program, model, x)
    constraints.tick_slots(program, model, x)
    constraints.tick_room(program, model, x)
    if count is None:
        objective.tick_count_objective(program, x)
    else:
        if most is None:
            objective.tick_objective(program, model, x)
        else:
            constraints.tick_cost_at_most(program, objective.tick_cost(model, x), most)
        constraints.tick_count(program, x, count)
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
    if known is not None:
        _hint(program, model, known[0], x)
    solved = run(program, budget=budget, options=options, to_progress=progress_in(model))
    if solved.value is None:
        return _answer(solved, None, model)
    chosen = {key for key, v in x.start.items() if solved.value(v)}
    return _answer(solved, schedule_assignment(model, chosen), model)


def _solve_tick(problem: TickProblem, known: Known, *, budget: Budget, options: Options) -> Answer:
    model = tick_model(problem)
    count = model.most
    if model.room is not None:
        program, _ = build_tick(model, count=None)
        solved = run(
            program, budget=budget, options=options, to_progress=lambda _value, _bound: Progress()
        )
        if solved.stop is not Stop.EXHAUSTED or solved.objective is None:
            return Answer(None, None, None, solved.stop, solved.limit)
        count = -solved.objective
    program, x = build_tick(model, count=count)
    if known is not None:
        chosen = _known_places(problem, known[0])
        for key, variable in x.place.items():
            program.add_hint(variable, key in chosen)
    solved = run(program, budget=budget, options=options, to_progress=progress_in(model))
    places = None
    if solved.value is not None:
        places = {key for key, v in x.place.items() if solved.value(v)}
    if options.canonical and solved.stop is Stop.EXHAUSTED and solved.objective is not None:
        program, x = build_tick(model, count=count, most=solved.objective)
        first = first_of_the_best(program, model, x, budget=budget, options=options)
        places = places if first is None else first
    assignment = None if places is None else tick_assignment(problem, places)
    return replace(_answer(solved, assignment, model), admissions=count)


def _hint(
    program: CpModel, model: ScheduleModel, assignment: Assignment, x: ScheduleVariables
) -> None:
    replica = canonical(assignment, (r.id for r in model.requests))
    step = {p.id: p.step for p in assignment}
    chosen = {(i, step[r.id], replica[r.id]) for i, r in enumerate(model.requests)}
    for key, variable in x.start.items():
        program.add_hint(variable, key in chosen)


def _known_places(problem: TickProblem, assignment: Assignment) -> set[tuple[int, int]]:
    position = {request.id: i for i, request in enumerate(problem.state.pool)}
    return {(position[p.id], p.replica) for p in assignment}


def _answer(
    solved: Solved, assignment: Assignment | None, model: ScheduleModel | TickModel
) -> Answer:
    bound = solved.objective if solved.stop is Stop.EXHAUSTED else rounded_bound(solved.bound)
    unit, constant = scale(model), model.constant
    return Answer(
        assignment=assignment,
        objective=None if solved.objective is None else unit * solved.objective + constant,
        bound=None if bound is None else unit * bound + constant,
        stop=solved.stop,
        limit=solved.limit,
    )
