"""`study heterogeneous`: replicas of unequal speed and slots, and routers that know or do not.

Routers that weigh tokens run twice: told every replica's step time, and blind, as if a token cost
the same everywhere. Compare by throughput: what is idle at the barrier can be made less by moving
work to where it takes longer, so it only says what is left to gain.
"""

from dataclasses import replace

from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.run import RunConfig
from brtheory.simulation.workload import StepTime
from brtheory.study.choices import Choice
from brtheory.study.grid.contenders import Scale, configured, resolve_routers
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis, run_cells
from brtheory.study.grid.study import View
from brtheory.study.grids.heterogeneous_clusters import CLUSTER, REPLICAS, SLOTS, clusters
from brtheory.study.grids.heterogeneous_findings import find_heterogeneous
from brtheory.study.grids.heterogeneous_view import (
    BLIND,
    METRICS,
    draw_heterogeneous,
    heterogeneous_tables,
)
from brtheory.study.grids.settings import EMBEDDED, SATURATED
from brtheory.study.supply import WorkloadSupply

WORKLOAD = "proprietary-surrogate"
TURNS = 12
COUNTING = ("jsq", "pool-fifo")
"""Routers that a replica's speed means nothing to (Pooled FIFO: only who is asked first)."""
WEIGHING = ("least-tokens", "br0", "window")
NOTES = (
    (
        "In lockstep a replica without a request runs a dummy step, so the slowest replica's time "
        "of an empty step is a floor that no router can move."
    ),
    (
        "Blind: the router takes a token to cost the same on every replica. JSQ and Pooled FIFO "
        "are run as they are today, by counts."
    ),
    "Only routers that need no prediction are compared.",
)


def heterogeneous_plan(scale: Scale, *, workload: str = WORKLOAD) -> Plan:
    """Every cluster under every router, knowing and blind.

    Raises
    ------
    InputError
        If the workload is unknown.
    """
    supply = WorkloadSupply(workload)
    requests = scale.requests or TURNS * REPLICAS * SLOTS
    choices = resolve_routers((*COUNTING, *WEIGHING), supply.take(requests, seed=0), slots=SLOTS)
    variants = _variants(choices)
    cells: list[Cell] = []
    for cluster in clusters():
        base = RunConfig(router="jsq", shape=cluster.shape, arrivals=SATURATED)
        for label, (_, choice, perturbation) in variants.items():
            cells += run_cells(
                {CLUSTER: cluster.name, ROUTER: label},
                replace(configured(base, choice), perturbation=perturbation),
                supply,
                requests=requests,
                seeds=scale.seeds,
            )
    step = StepTime()
    return Plan(
        name="heterogeneous",
        title="Replicas that differ",
        question=(
            "What is it worth to a router to know how fast each replica is, and which router "
            "makes most of a cluster whose replicas differ?"
        ),
        axes=[
            axis(CLUSTER, "cluster", {c.name: c.title for c in clusters()}),
            axis(ROUTER, "router", {label: title for label, (title, _, _) in variants.items()}),
        ],
        cells=cells,
        conditions={
            "requests": EMBEDDED.get(workload, workload),
            "cluster": f"{REPLICAS} replicas of {SLOTS} slots unless said otherwise, {SATURATED}",
            "step": f"{step.b0:g} s + {1e6 * step.a0:g} µs per token at speed 1",
        },
        notes=NOTES,
    )


def _variants(
    choices: dict[str, Choice],
) -> dict[str, tuple[str, Choice, Perturbation | None]]:
    """Title, router and what it does not know, by label."""
    variants: dict[str, tuple[str, Choice, Perturbation | None]] = {}
    for label, choice in choices.items():
        variants[label] = (choice.title, choice, None)
        if label in WEIGHING:
            blind = Perturbation(knows_speeds=False)
            variants[label + BLIND] = (f"{choice.title}, blind", choice, blind)
    return variants


HETEROGENEOUS = View(
    tables=heterogeneous_tables,
    find=find_heterogeneous,
    draw=draw_heterogeneous,
    metrics=METRICS,
)
