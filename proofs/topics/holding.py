"""N19: where requests may be held without limit, ready steps change no optimum."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from proofs.layers.kernel import kernel
from proofs.layers.search import exhaustive
from proofs.statement import Statement
from solvers.facade import solve_problem
from solvers.objective import ObjectiveName
from solvers.problem import FreeAdmissions
from solvers.ready_together import as_early_as_ready, ready_together, without_idle_steps

OBJECTIVES: tuple[ObjectiveName, ...] = ("time", "imbalance")
OUTPUTS = (2, 1, 3)
PROMPTS = (4, 1, 2)


def _problems() -> Iterator[tuple[Any, ...]]:
    for ready in product((0, 1, 3), repeat=3):
        for capacity in (None, 6):
            yield ready, capacity


def _same_optimum(ready: Any, capacity: Any) -> bool:
    """Brute force, which keeps the ready steps, on both problems."""
    instance = _instance(ready, slots=1, capacity=capacity)
    for objective in OBJECTIVES:
        problem = FreeAdmissions(instance, objective)
        optima = {
            solve_problem(each, method="brute").incumbent
            for each in (problem, ready_together(problem))
        }
        if len(optima) != 1:
            return False
    return True


def _schedules() -> Iterator[tuple[Any, ...]]:
    yield from product(product((0, 2), repeat=3), product((0, 1, 4, 9), repeat=3), (0, 1))


def _same_figures(ready: Any, waits: Any, together: Any) -> bool:
    """The judge's figures before and after, at steps at which every request is ready."""
    problem = FreeAdmissions(_instance(ready, slots=3, capacity=None), "time")
    assignment = tuple(
        Placement(i, together * (i % 2), ready[i] + wait) for i, wait in enumerate(waits)
    )
    dense = without_idle_steps(problem, assignment)
    early = as_early_as_ready(problem, dense)
    kinds = ((problem, assignment), (ready_together(problem), dense), (problem, early))
    found = [evaluate(p.instance, a) for p, a in kinds]
    figures = {(f.steps, f.sum_peak, f.sum_load, f.imbalance_total) for f in found}
    return len(figures) == 1


def _instance(ready: Any, *, slots: int, capacity: int | None) -> Instance:
    requests = tuple(
        OfflineRequest(i, at, s, o)
        for i, (at, s, o) in enumerate(zip(ready, PROMPTS, OUTPUTS, strict=True))
    )
    return Instance(2, slots, capacity, 1.0, 2.0, requests)


N19 = Statement(
    id="N19",
    title="Ready steps do not matter where holding is free",
    claim="With free admissions and no limit on holding some optimum of either objective has all "
    "requests ready together: executed steps can follow one another from the last ready step on.",
    latex=r"k \text{ executed} \;\Rightarrow\; L'_g\bigl(R + \mathrm{rank}(k)\bigr) = L_g(k)"
    r"\quad\text{for every } g",
    hypotheses=("no limit on holding, no rule against waiting beside a free slot",),
    source="this project",
    about=(ready_together, without_idle_steps, as_early_as_ready, evaluate),
    layers=(
        exhaustive("optima by brute force, G = 2, three requests", _problems, _same_optimum),
        exhaustive("the judge's figures, G = 2, three requests", _schedules, _same_figures),
        kernel(
            "every schedule, G and load",
            "Holding.same_loads",
            "Holding.one_piece",
            "Holding.nothing_else",
            "Holding.not_before",
        ),
    ),
)

STATEMENTS = (N19,)
