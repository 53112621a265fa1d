"""A small grid study that runs in a moment: two routers, two numbers of slots, two seeds."""

from datetime import UTC, datetime

from brtheory.simulation.run import RunConfig
from brtheory.simulation.workload import ClusterShape
from brtheory.study.figures.heat import HeatMap, heat_drawing
from brtheory.study.grid.contenders import resolve_routers, routers_axis
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis, run_cells
from brtheory.study.grid.study import View, run_grid
from brtheory.study.grid.tables import Measure, cross_table, ratio_entry
from brtheory.study.invocation import Invocation
from brtheory.study.results import Finding
from brtheory.study.supply import WorkloadSupply
from brtheory.study.tasks import StationaryTask

SUPPLY = WorkloadSupply("azure-2023-conv")
SLOTS = (2, 4)
METRIC = "imbalance_mean_tokens"
INVOCATION = Invocation(
    command="brtheory study small", started=datetime(2026, 1, 1, tzinfo=UTC), workers=1
)


def small_plan(*, requests=60, routers=("jsq", "br0"), law=False):
    """Every router at both numbers of slots; with the law of independent loads where asked for."""
    choices = resolve_routers(routers, SUPPLY.take(requests, seed=0), slots=4)
    cells = [
        cell
        for slots in SLOTS
        for label, choice in choices.items()
        for cell in run_cells(
            {"slots": slots, ROUTER: label},
            RunConfig(choice.spec.name, ClusterShape(2, slots), params=choice.params),
            SUPPLY,
            requests=requests,
            seeds=2,
        )
    ]
    if law:
        labels = {"slots": 2, ROUTER: "law"}
        cells += [
            Cell(
                labels=labels,
                task=StationaryTask(2, 2, 50, seed),
                supply=SUPPLY,
                requests=requests,
                seed=seed,
            )
            for seed in range(2)
        ]
    return Plan(
        name="small",
        title="Few slots <or> many",
        question="Does it work?",
        axes=[axis("slots", "slots", SLOTS), routers_axis(choices)],
        cells=cells,
        notes=["a note with <brackets>"],
    )


def table(document):
    """Ratio to JSQ by router and slots."""
    measure = Measure(metric=METRIC, better="low", show=ratio_entry)
    return cross_table(
        document, measure, down=ROUTER, across="slots", title="Imbalance", caption="To JSQ."
    )


def drawing(document):
    """Imbalance as a heat map."""
    del document
    return heat_drawing(
        HeatMap(
            name="heat", title="heat", caption="A caption.", down="slots", across="router",
            lines=["2", "4"], columns=["a"], values=[[1.0], [None]], texts=[["1"], ["–"]],
        )
    )  # fmt: skip


VIEW = View(
    tables=lambda document: [table(document)],
    find=lambda document: [Finding(kind="count", text=f"{len(document.summaries)} groups")],
    draw=lambda document: [drawing(document)],
)


def run_small(folder, plan=None, *, invocation=INVOCATION):
    """The document of the small study."""
    return run_grid(plan or small_plan(), VIEW, folder=folder, invocation=invocation)
