"""Objectives of the constraint programs, divided by ``answers.scale`` and without constants."""

from ortools.sat.python.cp_model import CpModel, LinearExpr

from solvers.answers import scale
from solvers.cpsat.variables import ScheduleVariables, TickVariables
from solvers.model import ScheduleModel
from solvers.tick_model import TickModel


def schedule_objective(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Minimise peak * sum_b length_b M_b + step * sum_k y_k."""
    unit = scale(model)
    peak, step = model.cost.peak // unit, model.cost.step // unit
    variables = [*x.peak, *x.executed.values()]
    coefficients = [peak * block.length for block in model.blocks] + [step] * len(x.executed)
    program.minimize(LinearExpr.weighted_sum(variables, coefficients))


def tick_objective(program: CpModel, model: TickModel, x: TickVariables) -> None:
    """Minimise ``tick_cost``."""
    program.minimize(tick_cost(model, x))


def tick_cost(model: TickModel, x: TickVariables) -> LinearExpr:
    """Cost of a choice: peak * sum_h copies_h M_h - load * (H + 1) * sum_i s_i sum_g x_ig."""
    unit = scale(model)
    peak, load = model.cost.peak // unit, model.cost.load // unit
    variables = [*x.peak, *x.place.values()]
    coefficients = [peak * row.copies for row in model.rows]
    coefficients += [-load * model.horizon_rows * model.prompts[i] for i, _ in x.place]
    return LinearExpr.weighted_sum(variables, coefficients)


def tick_count_objective(program: CpModel, x: TickVariables) -> None:
    """Minimise - sum_i sum_g x_ig: admit as many as fit."""
    program.minimize(-sum(x.place.values()))
