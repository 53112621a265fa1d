"""The window router where KV capacity binds before slots do: ``python -m benchmarks.window_kv``.

Capacity is a share of what all slots take at the mean reservation, and at least the largest one.
``room_share`` keeps a replica closed until a part of an average request fits, so that room for long
prompts comes about; what is kept free is not used, which must show in the throughput. In a closed
loop that of the loaded window flatters whoever puts long prompts off, so the whole run's stands
beside it. Writes docs/results/window_kv.json after every cell.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.provenance import made_by
from benchmarks.window import CLOSED, Entrant, Ground, rounded, scenarios
from brtheory.files import write_text_atomic
from brtheory.routers.params import WindowParams
from brtheory.simulation.metrics import metric, summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.schema import Trace

OUT = Path("docs/results/window_kv.json")
REQUESTS, SEEDS = 6000, 5
CAPACITIES = (0.6, 0.8)
"""Shares of what all slots take at the mean reservation."""
LIGHT = "open:rho=0.8"
METRICS: Mapping[str, str] = {
    "imbalance_mean_tokens": "loaded_window.imbalance_mean_tokens",
    "throughput_tokens_per_s": "loaded_window.throughput_tokens_per_s",
    "throughput_of_whole_run_tokens_per_s": "throughput_tokens_per_s",
    "wait_p50_s": "loaded_window.wait_p50_s",
    "wait_p99_s": "loaded_window.wait_p99_s",
    "wait_max_s": "wait_max_s",
}
Cell = dict[str, Any]


def entrants() -> list[Entrant]:
    """The window router, as it is and keeping room, beside the pooled FIFO and BR-0."""
    default = WindowParams()
    shares = [
        Entrant(f"window:room_share={share:g}", "window", replace(default, room_share=share))
        for share in (0.5, 1.0)
    ]
    return [
        Entrant("window", "window"),
        *shares,
        Entrant("pool-fifo", "pool-fifo"),
        Entrant("br0", "br0"),
    ]


def with_capacity(shape: ClusterShape, trace: Trace, share: float) -> ClusterShape:
    """KV for ``share`` of the slots at the mean reservation, and for the largest request."""
    reserved = trace.prompt_tokens + trace.output_tokens
    enough = round(share * shape.slots * float(reserved.mean()))
    return replace(shape, kv_capacity=max(enough, int(reserved.max())))


def measure(ground: Ground, entrant: Entrant, share: float, arrivals: str, *, seeds: int) -> Cell:
    """One value a seed of each metric."""
    values: dict[str, list[float | None]] = {name: [] for name in METRICS}
    for seed in range(seeds):
        trace = ground.take(seed)
        config = RunConfig(
            router=entrant.router,
            shape=with_capacity(ground.shape, trace, share),
            params=entrant.params,
            arrivals=parse_arrivals(arrivals),
            step_time=ground.step_time,
            seed=seed,
            backend="compiled",
        )
        summary = summarise(simulate(trace, config))
        for name, where in METRICS.items():
            values[name].append(rounded(metric(summary, where)))
    print(ground.name, share, arrivals, entrant.label, values["wait_p99_s"], file=sys.stderr)
    return {
        "ground": ground.name,
        "capacity": share,
        "arrivals": arrivals,
        "label": entrant.label,
        **values,
    }


def plan(grounds: Sequence[Ground]) -> Iterator[tuple[Ground, Entrant, float, str]]:
    """All cells, those of the closed loop first."""
    yield from (
        (ground, entrant, share, CLOSED)
        for share, ground, entrant in product(CAPACITIES, grounds, entrants())
    )
    for ground, entrant in product(grounds, entrants()):
        yield ground, entrant, CAPACITIES[0], LIGHT


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.window_kv")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    provenance = made_by("window_kv", requests=options.requests, seeds=options.seeds)
    cells: list[Cell] = []
    for ground, entrant, share, arrivals in plan(scenarios(requests=options.requests)):
        cells.append(measure(ground, entrant, share, arrivals, seeds=options.seeds))
        text = json.dumps({"provenance": provenance, "cells": cells}, indent=1)
        write_text_atomic(options.out, text + "\n")


if __name__ == "__main__":
    main()
