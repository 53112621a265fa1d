"""What the window router is worth, and each part of it: ``python -m benchmarks.window``.

Every cell is one simulated run; ratios are of means over the seeds, with Fieller's interval:

* closed: the four scenarios at closed:1.5, all routers and the window router without each part;
* open: the scenarios at rho of BR-0's saturated rate, against least tokens;
* workloads: the other embedded workloads and, where given, real traces at closed:1.5.

Writes docs/results/window.json after every cell and goes on where it stopped, unless the code
behind the numbers has changed; ``python -m benchmarks.window_report`` fills docs/window.md from it.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.provenance import made_by
from brtheory.files import write_text_atomic
from brtheory.routers.params import HorizonParams, WindowParams
from brtheory.simulation.metrics import loaded_window
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.choices import near_horizon
from brtheory.study.provenance import code_digest
from brtheory.traces.read import read_trace
from brtheory.traces.scenarios import SCENARIOS
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import generate_workload, workload_names

OUT = Path("docs/results/window.json")
SEEDS = 3
CLOSED = "closed:1.5"
RATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
USUAL = ClusterShape(8, 32)
"""The cluster of workloads that recommend none."""
TRACE_REQUESTS = 20_000
MORE_SEEDS: Mapping[str, int] = {"reasoning-r1": 5}
"""Times the usual seeds, where the few longest outputs decide a run."""
METRICS = (
    "imbalance_mean_tokens",
    "barrier_idle_fraction",
    "throughput_tokens_per_s",
    "wait_p50_s",
    "wait_p99_s",
    "wait_max_s",
)
PLAIN = WindowParams(
    window=64,
    wait_scale=1.0,
    size_weight=0.0,
    overflow_weight=0,
    spare_order="fit",
    hold_s=0.0,
    age_floor_s=0.0,
)
"""The router as first described, before anything was added."""
PARTS: Mapping[str, Mapping[str, Any]] = {
    "overflow_weight=0": {"overflow_weight": 0},
    "size_weight=0": {"size_weight": 0.0},
    "wait_scale=1": {"wait_scale": 1.0},
    "window=64": {"window": 64},
    "spare_order=fit": {"spare_order": "fit"},
    "hold_s=0": {"hold_s": 0.0},
    "hold_s=4": {"hold_s": 4.0},
    "age_limit=2": {"age_limit": 2.0},
    "age_limit=4": {"age_limit": 4.0},
}
OPEN_PARTS: Mapping[str, Mapping[str, Any]] = {
    "hold_s=0": {"hold_s": 0.0},
    "hold_s=4": {"hold_s": 4.0},
    "age_floor_s=0": {"age_floor_s": 0.0},
}
"""Changes that show where slots run short now and then."""
Cell = dict[str, Any]


@dataclass(frozen=True)
class Entrant:
    """A router with parameters under a label."""

    label: str
    router: str
    params: object | None = None


@dataclass(frozen=True)
class Ground:
    """Where routers are compared: a source of requests, a cluster, a step time."""

    name: str
    shape: ClusterShape
    step_time: StepTime
    requests: int
    trace: Trace | None = None

    def take(self, seed: int) -> Trace:
        """The requests of a seed; a real trace is rotated by the simulator."""
        if self.trace is not None:
            return self.trace
        return generate_workload(self.name, requests=self.requests, seed=seed)


LONGER_HOLD = Entrant("window:hold_s=4", "window", replace(WindowParams(), hold_s=4.0))


def scenarios(*, requests: int | None) -> list[Ground]:
    """The four scenarios, at their own size unless told otherwise."""
    return [
        Ground(
            s.name,
            ClusterShape(s.replicas, s.slots),
            StepTime(a0=s.a0, b0=s.b0),
            requests or s.requests,
        )
        for s in SCENARIOS.values()
    ]


def workloads(traces: Sequence[Path], *, requests: int | None) -> list[Ground]:
    """The other embedded workloads, and real traces."""
    size = requests or TRACE_REQUESTS
    grounds = [
        Ground(name, USUAL, StepTime(), size) for name in workload_names() if name not in SCENARIOS
    ]
    for path in traces:
        trace = read_trace(path, on_error="skip").trace
        trace = trace.repeat(min(size, len(trace)))
        grounds.append(Ground(path.stem, USUAL, StepTime(), len(trace), trace))
    return grounds


def parts() -> list[Entrant]:
    """The window router without each of its parts."""
    default = WindowParams()
    return [
        Entrant(f"window:{label}", "window", replace(default, **change))
        for label, change in PARTS.items()
    ]


def usual_entrants(ground: Ground) -> list[Entrant]:
    """The window router, as it is and as first described, beside the others."""
    mean_output = float(ground.take(0).output_tokens.mean())
    near = near_horizon(mean_output, slots=ground.shape.slots)
    return [
        Entrant("window", "window"),
        Entrant("window:plain", "window", PLAIN),
        Entrant("br0", "br0"),
        Entrant("brh:H=80", "brh", HorizonParams()),
        Entrant("brh:H=near", "brh", HorizonParams(horizon=near)),
        Entrant("jsq", "jsq"),
        Entrant("least-tokens", "least-tokens"),
        Entrant("pool-fifo", "pool-fifo"),
    ]


def open_entrants() -> list[Entrant]:
    """Who is compared with least tokens when slots are not all taken."""
    return [
        Entrant("window", "window"),
        *(
            Entrant(f"window:{label}", "window", replace(WindowParams(), **change))
            for label, change in OPEN_PARTS.items()
        ),
        Entrant("least-tokens", "least-tokens"),
        Entrant("br0", "br0"),
        Entrant("window:plain", "window", PLAIN),
    ]


def measure(ground: Ground, entrant: Entrant, arrivals: str, *, seeds: int) -> Cell:
    """One value a seed of each metric over the loaded window."""
    values: dict[str, list[float | int | None]] = {name: [] for name in METRICS}
    for seed in range(seeds):
        config = RunConfig(
            router=entrant.router,
            shape=ground.shape,
            params=entrant.params,
            arrivals=parse_arrivals(arrivals),
            step_time=ground.step_time,
            seed=seed,
            # Worth the minute of compiling that ``auto`` would not spend on one run.
            backend="compiled",
        )
        metrics = loaded_window(simulate(ground.take(seed), config)) or {}
        for name in METRICS:
            values[name].append(rounded(metrics.get(name)))
    print(ground.name, arrivals, entrant.label, values[METRICS[0]], file=sys.stderr, flush=True)
    return {"ground": ground.name, "arrivals": arrivals, "label": entrant.label, **values}


def plan(
    grounds: Sequence[Ground], others: Sequence[Ground]
) -> Iterator[tuple[str, Ground, Entrant, str]]:
    """All cells: section, ground, router, arrivals; what decides most comes first."""
    for ground in grounds:
        yield from (("closed", ground, entrant, CLOSED) for entrant in usual_entrants(ground))
    for entrant in open_entrants():
        for ground, rate in product(grounds, RATES):
            yield "open", ground, entrant, f"open:rho={rate:g}"
    for ground, entrant in product(grounds, parts()):
        yield "closed", ground, entrant, CLOSED
    for ground in others:
        entrants = [*usual_entrants(ground), LONGER_HOLD]
        yield from (("workloads", ground, entrant, CLOSED) for entrant in entrants)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.window")
    parser.add_argument("--requests", type=int, help="fewer, to see whether it works")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--traces", type=Path, nargs="*", default=[], help="real trace files")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    identity = {
        "requests": options.requests,
        "seeds": options.seeds,
        "code": code_digest("brtheory.routers.window"),
    }
    document = _begun(options.out, identity)
    done = {(c["ground"], c["arrivals"], c["label"]) for c in document["cells"]}
    grounds = scenarios(requests=options.requests)
    others = workloads(options.traces, requests=options.requests)
    for section, ground, entrant, arrivals in plan(grounds, others):
        if (ground.name, arrivals, entrant.label) not in done:
            seeds = options.seeds * MORE_SEEDS.get(ground.name, 1)
            cell = measure(ground, entrant, arrivals, seeds=seeds)
            document["cells"].append({"section": section, **cell})
            write_text_atomic(options.out, json.dumps(document, indent=1) + "\n")


def _begun(out: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run of the same code has written, or an empty document."""
    if out.exists():
        document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        if document["identity"] == identity:
            return document
    return {"provenance": made_by("window"), "identity": identity, "cells": []}


def rounded(value: float | None) -> float | None:
    """Six digits: what a table shows and more."""
    return None if value is None else float(f"{value:.6g}")


if __name__ == "__main__":
    main()
