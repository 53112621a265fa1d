"""Tick benchmark over sizes and severities: ``python -m benchmarks.ticks [--quick] [--out DIR]``.

Two axes: size (G = 8 .. 1024 with pools of 16 .. 8000) and severity (steady, burst, cold). Each
row has median and P99, the ratio to the reference in the same run, and the bytes one tick
allocates. Writes ticks.json, ticks.md and ticks.svg into the output directory.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.provenance import made_by
from brtheory.files import atomic_path, write_text_atomic
from brtheory.simulation.benchmark.scene import Severity, TickCase
from brtheory.simulation.benchmark.suite import fast_engines, machine, tick_entry
from brtheory.simulation.benchmark.ticks import QUICK, Effort, measure_tick

SEVERITIES: tuple[Severity, ...] = ("steady", "burst", "cold")
SIZES = (8, 16, 64, 256, 1024)
POOLS = (16, 128, 1024, 8000)
POOL_REPLICAS = 16
QUICK_SIZES = (4, 8)
QUICK_POOLS = (16,)
HORIZON = 80
ROUTERS = ("br0", "brh", "window")
COLOURS = {"numpy": "#c05a00", "compiled": "#00688b", "reference": "#777777"}
PAPER_P50_US = 1200.0


def cases(*, quick: bool) -> list[TickCase]:
    """By size with the usual pool, then by pool at one size."""
    sizes, pools = (QUICK_SIZES, QUICK_POOLS) if quick else (SIZES, POOLS)
    by_size = [
        TickCase(router, g, HORIZON if router == "brh" else 0, severity)
        for router, severity, g in product(ROUTERS, SEVERITIES, sizes)
    ]
    by_pool = [
        TickCase("brh", POOL_REPLICAS, HORIZON, severity, pool)
        for severity, pool in product(SEVERITIES, pools)
    ]
    return by_size + by_pool


def measure(chosen: Sequence[TickCase], effort: Effort) -> Iterator[dict[str, Any]]:
    """Rows of the table; one line on standard error for each case."""
    for case in chosen:
        reference = None
        for engine in fast_engines():
            own, seen = measure_tick(case, engine, effort=effort)
            reference = reference or seen
            print(case, engine, own.p50_us, file=sys.stderr)
            yield tick_entry(own)
        if reference is not None:
            yield tick_entry(reference)


def as_table(rows: Sequence[dict[str, Any]], on: dict[str, Any]) -> str:
    """Markdown table of all rows."""
    lines = [
        "Ticks in microseconds, horizon update included. Measured on: "
        + ", ".join(f"{name} {value}" for name, value in on.items())
        + ".",
        "",
        "| router | G | pool | severity | backend | admitted | P50 | P99 | x reference | bytes |",
        "|---|--:|--:|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {r['router']} | {r['replicas']} | {r['pool']} | {r['severity']} | {r['backend']} "
        f"| {r['admissions']} | {r['p50_us']:.1f} | {r['p99_us']:.1f} "
        f"| {_ratio(r['reference_p50_us'], r['p50_us'])} | {_or_dash(r['allocated_bytes'])} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """P50 of BR-H against G, one panel for each severity."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(SEVERITIES), sharey=True)
    for panel, severity in zip(panels, SEVERITIES, strict=True):
        for backend, colour in COLOURS.items():
            line = sorted(
                (r["replicas"], r["p50_us"], r["p99_us"])
                for r in rows
                if (r["router"], r["severity"], r["backend"]) == ("brh", severity, backend)
                and r["pool"] == TickCase("brh", r["replicas"], HORIZON, severity).waiting
            )
            if line:
                g, p50, p99 = zip(*line, strict=True)
                panel.plot(g, p50, "o-", color=colour, label=backend)
                panel.fill_between(g, p50, p99, color=colour, alpha=0.15, linewidth=0)
        panel.axhline(PAPER_P50_US, color="black", linewidth=0.8, linestyle=":")
        panel.set(title=severity, xlabel="replicas G", xscale="log", yscale="log")
    panels[0].set_ylabel("tick, us (P50, shaded to P99)")
    panels[0].annotate(
        "reported: 1.20 ms", (0.02, PAPER_P50_US), xycoords=("axes fraction", "data"), va="bottom"
    )
    panels[-1].legend(frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.ticks")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work?")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args(arguments)
    rows = list(measure(cases(quick=options.quick), QUICK if options.quick else Effort()))
    on = machine()
    text = json.dumps({"provenance": made_by("ticks"), "machine": on, "tick": rows}, indent=2)
    write_text_atomic(options.out / "ticks.json", text + "\n")
    write_text_atomic(options.out / "ticks.md", as_table(rows, on))
    with (
        atomic_path(options.out / "ticks.svg") as part,
        mpl.rc_context({"svg.hashsalt": "brtheory"}),
    ):
        draw(rows).savefig(part, format="svg", metadata={"Date": None})
    print(options.out / "ticks.md")


def _ratio(reference: float | None, own: float) -> str:
    return "-" if reference is None else f"{reference / own:.1f}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
