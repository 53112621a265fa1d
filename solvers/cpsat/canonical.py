"""Of equally good choices of one tick the first in a fixed order, so that the decision is unique.

Many choices of a tick have the same objective: below the peak it does not matter which replica
holds what. The order here: the oldest request is admitted rather than not, to the replica that
comes first by (load at h = 0, index), then the next oldest request, and so on. It says nothing
about a solver, its version or its hints, so replays agree wherever both searches end by themselves.

The search is depth first in that order without presolve: a variable is only ever set against its
preferred value where the values of earlier ones leave no other choice. The first solution is
therefore the lexicographically first.
"""

from ortools.sat.python.cp_model import (
    CHOOSE_FIRST,
    SELECT_MAX_VALUE,
    CpModel,
    IntVar,
)

from solvers.budget import Budget, Options
from solvers.cpsat import engine
from solvers.cpsat.variables import TickVariables
from solvers.tick_model import TickModel

Places = set[tuple[int, int]]
"""(pool index, replica) of each admission."""


def first_of_the_best(
    program: CpModel,
    model: TickModel,
    x: TickVariables,
    *,
    budget: Budget,
    options: Options,
) -> Places | None:
    """Find the first choice that a program without objective allows.

    Parameters
    ----------
    program, x
        The program of the tick, its cost bounded by the least there is.
    model
        Present loads, which order the replicas.
    budget, options
        As for any search; None comes back where it ends before an answer.
    """
    program.add_decision_strategy(_in_order(model, x), CHOOSE_FIRST, SELECT_MAX_VALUE)
    solved = engine.run_in_order(program, budget=budget, options=options)
    if solved.value is None:
        return None
    return {key for key, variable in x.place.items() if solved.value(variable)}


def _in_order(model: TickModel, x: TickVariables) -> list[IntVar]:
    """x_ig by age of the request, then by load of the replica."""
    loads = model.rows[0].loads
    replicas = sorted(range(model.replicas), key=lambda g: (loads[g], g))
    requests = range(len(model.prompts))
    return [x.place[i, g] for i in requests for g in replicas if (i, g) in x.place]
