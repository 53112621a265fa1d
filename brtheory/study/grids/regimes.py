"""`study regimes`: when the choice of router matters, and which one wins there.

Two planes through one base point (closed:1.5, a0 L / b0 = 1, slots bind, prompt spread 1): backlog
against the load-dependent share of a step, and memory against the spread of prompts.

* a0 L / b0: L is the mean load of a replica whose slots are full, so 1 means that half of a mean
  step grows with load; b0 follows from it.
* memory: KV capacity over what the requests in full slots would reserve (prompt + output) on
  average; below 1 memory binds before slots do. ``none`` leaves memory unlimited.
* spread: standard deviation of the logarithm of prompts; 0 makes all prompts equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.analysis.stationary import WeightLaw
from brtheory.simulation.run import RunConfig
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import DEFAULT_A0, ClusterShape, StepTime
from brtheory.study.grid.contenders import Scale, configured, resolve_routers, routers_axis
from brtheory.study.grid.document import Axis, Value
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis, run_cells
from brtheory.study.grid.study import View
from brtheory.study.grids.regime_findings import find_regimes
from brtheory.study.grids.regime_maps import draw_maps, map_tables
from brtheory.study.grids.regime_names import (
    ARRIVALS,
    BASE,
    LOST,
    MEMORY,
    NO_LIMIT,
    SHARE,
    SPREAD,
)
from brtheory.study.supply import ScenarioSupply
from brtheory.traces.scenarios import Scenario
from brtheory.traces.schema import Trace

BACKLOGS = (
    "open:rho=0.6", "open:rho=0.8", "open:rho=0.95", "closed:1", "closed:1.1", "closed:1.25",
    "closed:1.5", "closed:2",
)  # fmt: skip
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)
MEMORIES = (0.5, 0.65, 0.8, 1.0, NO_LIMIT)
SPREADS = (0.0, 0.3, 0.6, 1.0, 1.4)
ROUTERS = ("jsq", "least-tokens", "br0", "window")
REPLICAS, SLOTS = 8, 64
TURNS = 12
PROMPT_MEAN, OUTPUT_MEDIAN, OUTPUT_SIGMA = 2000, 300, 0.6
SMALLEST_SPREAD = 1e-6
"""A spread of 0 as the law of lengths takes it."""
NOTES = (
    (
        f"Generated requests: lognormal prompts of mean {PROMPT_MEAN:,} and outputs of median "
        f"{OUTPUT_MEDIAN}, {REPLICAS} replicas of {SLOTS} slots. What matters is where a point "
        f"lies on the axes, not these numbers."
    ),
    "Only routers that need no prediction are compared: JSQ, Least tokens, BR-0 and Window.",
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a plane."""

    arrivals: str
    share: float
    memory: Value
    spread: float

    @property
    def labels(self) -> dict[str, Value]:
        """Its labels, the router's apart."""
        return {
            ARRIVALS: self.arrivals,
            SHARE: self.share,
            MEMORY: self.memory,
            SPREAD: self.spread,
        }


def regime_plan(scale: Scale) -> Plan:
    """Both planes, each point under every router."""
    supplies = {spread: _supply(spread) for spread in SPREADS}
    shape = ClusterShape(REPLICAS, SLOTS)
    requests = scale.requests_for(shape, turns=TURNS)
    traces = {spread: supply.take(requests, seed=0) for spread, supply in supplies.items()}
    choices = resolve_routers(ROUTERS, traces[1.0], slots=SLOTS)
    cells: list[Cell] = []
    for point in regime_points():
        config = _config(point, traces[point.spread])
        for label, choice in choices.items():
            cells += run_cells(
                {**point.labels, ROUTER: label},
                configured(config, choice),
                supplies[point.spread],
                requests=requests,
                seeds=scale.seeds,
            )
    return Plan(
        name="regimes",
        title="When does the choice of router matter?",
        question=(
            "How much of decode time does JSQ lose at the barrier, how much of that does the best "
            "router win back, and which one is it, as backlog, step time, memory and prompts vary?"
        ),
        axes=[*_axes(), routers_axis(choices)],
        cells=cells,
        conditions={"cluster": f"{REPLICAS} × {SLOTS} slots, a0 = {DEFAULT_A0 * 1e6:g} µs"},
        notes=NOTES,
    )


def regime_points() -> list[Point]:
    """The points of both planes, the base point once."""
    planes: list[Mapping[str, Value]] = [
        *({**BASE, ARRIVALS: arrivals, SHARE: share} for arrivals in BACKLOGS for share in SHARES),
        *({**BASE, MEMORY: memory, SPREAD: spread} for memory in MEMORIES for spread in SPREADS),
    ]
    unique = {tuple(labels.items()): labels for labels in planes}
    return [
        Point(
            arrivals=str(labels[ARRIVALS]),
            share=float(labels[SHARE]),
            memory=labels[MEMORY],
            spread=float(labels[SPREAD]),
        )
        for labels in unique.values()
    ]


def _axes() -> Sequence[Axis]:
    return [
        axis(ARRIVALS, "arrivals", BACKLOGS),
        axis(SHARE, "a0 L / b0", {share: f"{share:g}" for share in SHARES}),
        axis(MEMORY, "KV capacity / need", {m: str(m) for m in MEMORIES}),
        axis(SPREAD, "spread of prompts", {spread: f"{spread:g}" for spread in SPREADS}),
    ]


def _supply(spread: float) -> ScenarioSupply:
    return ScenarioSupply(
        Scenario(
            name=f"spread-{spread:g}",
            prompt_mean=PROMPT_MEAN,
            prompt_sigma=max(spread, SMALLEST_SPREAD),
            output_median=OUTPUT_MEDIAN,
            output_sigma=OUTPUT_SIGMA,
            long_outputs=False,
            slots=SLOTS,
        )
    )


def _config(point: Point, trace: Trace) -> RunConfig:
    law = WeightLaw.from_lengths(trace.prompt_tokens, trace.output_tokens)
    load = SLOTS * law.mean
    return RunConfig(
        router="jsq",
        shape=ClusterShape(REPLICAS, SLOTS, _capacity(point, trace)),
        arrivals=parse_arrivals(point.arrivals),
        step_time=StepTime(a0=DEFAULT_A0, b0=DEFAULT_A0 * load / point.share),
    )


def _capacity(point: Point, trace: Trace) -> int | None:
    """KV tokens a replica can reserve; requests met in slots are length-biased."""
    if point.memory == NO_LIMIT:
        return None
    reserved = trace.prompt_tokens + trace.output_tokens
    need = SLOTS * float(np.average(reserved, weights=trace.output_tokens))
    # Prompts end at 64,000 tokens and the smallest capacity is above that; a law with longer ones
    # would be refused as infeasible by the simulator, by name.
    return round(float(point.memory) * need)


REGIMES = View(tables=map_tables, find=find_regimes, draw=draw_maps, metrics=(LOST,))
