"""Pooled routers against what nobody can beat: ``python -m benchmarks.saturated [--out DIR]``.

Each router runs the same workload in a saturated closed loop (``closed:3``). Over the loaded window
its barrier time is compared with a bound that holds for every admission of the same work
(``solvers.bounds.loaded``). The folder of each router holds the window as an instance, what the run
did as an assignment, and the certificate: ``brtheory judge`` and ``brtheory certify`` check them.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brtheory.errors import BrtheoryError
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import assignment_to_json
from brtheory.offline.instance import instance_to_json
from brtheory.routers.params import params_from_text
from brtheory.routers.registry import find_router
from brtheory.simulation.run import SATURATION, RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.workloads import generate_workload
from solvers.bounds.loaded import LoadedWork, loaded_work

ROUTERS = ("pool-fifo", "br0", "br0:key_order=margin-first", "brh", "bf-io", "window")


@dataclass(frozen=True)
class Setting:
    """One cluster under one workload."""

    workload: str = "proprietary-surrogate"
    requests: int = 2000
    replicas: int = 8
    slots: int = 16
    seed: int = 0


def measure(routers: Sequence[str], setting: Setting) -> Iterator[tuple[str, LoadedWork]]:
    """Loaded window of each router, in order.

    Raises
    ------
    BrtheoryError
        If a run has no loaded window.
    """
    trace = generate_workload(setting.workload, requests=setting.requests, seed=setting.seed)
    for text in routers:
        name, _, given = text.partition(":")
        spec = find_router(name)
        values = dict(pair.split("=", 1) for pair in given.split(",") if pair)
        config = RunConfig(
            name,
            ClusterShape(setting.replicas, setting.slots, None),
            params=params_from_text(spec.params, values, where=text) if values else None,
            arrivals=SATURATION,
        )
        found = loaded_work(
            simulate(trace, config),
            prompt_tokens=trace.prompt_tokens,
            slots=setting.slots,
            step_time=config.step_time,
        )
        if found is None:
            raise BrtheoryError(f"{text}: no loaded window, too few requests")
        yield text, found


def entry(router: str, setting: Setting, found: LoadedWork) -> dict[str, Any]:
    """One row of the result."""
    gap = found.gap
    return {
        "router": router,
        "replicas": setting.replicas,
        "slots": setting.slots,
        "steps": found.steps,
        "sum_peak": found.sum_peak,
        "barrier_time_s": float(found.time_s),
        "least_steps": found.certificate.steps,
        "least_sum_peak": found.certificate.sum_peak,
        "bound_s": float(found.bound_s),
        "gap": None if gap is None else float(gap),
        "gap_sum_peak": found.sum_peak / found.certificate.sum_peak - 1,
    }


def as_table(rows: Sequence[dict[str, Any]], setting: Setting) -> str:
    """Markdown, in the order of the rows."""
    heading = (
        f"{setting.workload}, {setting.requests} requests, {setting.replicas} replicas of "
        f"{setting.slots} slots, closed:3, loaded window. Gap: at most this far above what any "
        "admission and placement of the same work needs."
    )
    lines = [
        heading,
        "",
        "| router | steps | barrier time s | bound s | gap of time | gap of sum of peaks |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {r['router']} | {r['steps']} | {r['barrier_time_s']:.2f} | {r['bound_s']:.2f} "
        f"| {_percent(r['gap'])} | {_percent(r['gap_sum_peak'])} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write, print where."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.saturated")
    default = Setting()
    parser.add_argument("--workload", default=default.workload)
    for name in ("requests", "replicas", "slots", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    parser.add_argument("--router", action="append", help="NAME or NAME:KEY=VALUE; repeatable")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/saturated"))
    options = parser.parse_args(arguments)
    setting = Setting(
        options.workload, options.requests, options.replicas, options.slots, options.seed
    )
    rows = []
    for router, found in measure(options.router or ROUTERS, setting):
        rows.append(entry(router, setting, found))
        _write(options.out / router.replace(":", "-").replace("=", "-"), found)
    text = json.dumps({"setting": vars(setting), "routers": rows}, indent=2)
    write_text_atomic(options.out / "saturated.json", text + "\n")
    write_text_atomic(options.out / "saturated.md", as_table(rows, setting))
    print(options.out / "saturated.md")


def _write(folder: Path, found: LoadedWork) -> None:
    documents = {
        "instance.json": json.dumps(instance_to_json(found.instance)),
        "assignment.json": json.dumps(assignment_to_json(found.assignment)),
        "certificate.json": found.certificate.model_dump_json(by_alias=True),
    }
    for name, text in documents.items():
        write_text_atomic(folder / name, text)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


if __name__ == "__main__":
    main()
