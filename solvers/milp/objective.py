"""Objectives of the mixed-integer programs, divided by ``answers.scale`` and without constants."""

import pulp

from solvers.answers import scale
from solvers.milp.variables import ScheduleVariables, TickVariables
from solvers.model import ScheduleModel
from solvers.tick_model import TickModel


def schedule_objective(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Minimise peak * sum_b length_b M_b + step * sum_k y_k."""
    unit = scale(model)
    peak, step = model.cost.peak // unit, model.cost.step // unit
    terms = [(x.peak[b], peak * block.length) for b, block in enumerate(model.blocks)]
    terms.extend((y, step) for y in x.executed.values())
    program.setObjective(pulp.LpAffineExpression(terms))


def tick_objective(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """Minimise peak * sum_h copies_h M_h - load * (H + 1) * sum_i s_i sum_g x_ig."""
    unit = scale(model)
    peak, load = model.cost.peak // unit, model.cost.load // unit
    terms = [(x.peak[h], peak * row.copies) for h, row in enumerate(model.rows)]
    terms.extend(
        (variable, -load * model.horizon_rows * model.prompts[i])
        for (i, _), variable in x.place.items()
    )
    program.setObjective(pulp.LpAffineExpression(terms))


def tick_count_objective(program: pulp.LpProblem, x: TickVariables) -> None:
    """Minimise - sum_i sum_g x_ig: admit as many as fit."""
    program.setObjective(pulp.LpAffineExpression([(v, -1) for v in x.place.values()]))
