"""``brtheory bench``: how fast ticks and runs are on this machine, beside the paper's figures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import Json
from brtheory.cli.progress import progress_bar
from brtheory.files import write_text_atomic
from brtheory.simulation.benchmark.suite import run_suite, suite_length


def bench(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small sizes, few repetitions: seconds instead of minutes."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON to this file too.")] = None,
    as_json: Json = False,
) -> None:
    """Measure router ticks and simulation runs on this machine.

    A tick is timed with its horizon update. Severities: steady, as many requests end before a
    tick as a full cluster loses in a step; burst, 2G at once; cold, everything is empty. Backends
    decide identically, and every measured case is checked against the reference where that takes
    less than a second. Simulation runs state CPU seconds; loading compiled code is apart.
    """
    with progress_bar("bench", total=suite_length(quick=quick)) as advance:
        result = run_suite(quick=quick, on_progress=advance)
    text = json.dumps(result, indent=None if as_json else 2)
    if out is not None:
        write_text_atomic(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        _show(result)


def _show(result: Mapping[str, Any]) -> None:
    console, machine = Console(), result["machine"]
    console.print(_tick_table(result["tick"], result["paper_reported"]))
    console.print(_run_table(result["simulate"]))
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), style="dim")
    if machine["numba"] is None:
        console.print("compiled figures need numba: pip install 'brtheory\\[fast]'")
    if result["quick"]:
        console.print("--quick shows that it works, not how fast it is.")


def _tick_table(rows: Sequence[Mapping[str, Any]], paper: Mapping[str, float]) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title="ticks in microseconds, horizon update included; gain is over the reference",
        caption=f"the paper reports {paper['tick_p50_us'] / 1000:.2f} ms (P50) and "
        f"{paper['tick_p99_us'] / 1000:.2f} ms (P99) for BR-H at H = 80, "
        f"stage 2 about {paper['stage2_us']:.0f} us; their machine and pool are not known",
    )
    for name in ("router", "G", "severity", "backend"):
        table.add_column(name, no_wrap=True)
    for name in ("P50", "P99", "stage 1", "stage 2", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["router"],
            str(row["replicas"]),
            row["severity"],
            row["backend"],
            _number(row["p50_us"]),
            _number(row["p99_us"]),
            _number(row["stage1_p50_us"]),
            _number(row["stage2_p50_us"]),
            _gain(row["reference_p50_us"], row["p50_us"]),
            end_section=row["backend"] == "reference",
        )
    return table


def _run_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(
        title="simulation runs, Azure conversation lengths (synthetic), G = 8, closed:1.25"
    )
    table.add_column("router")
    table.add_column("backend")
    for name in ("requests", "CPU s", "requests per CPU s", "start-up s"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["router"],
            row["backend"],
            f"{row['requests']:,}",
            f"{row['cpu_s']:.2f}",
            f"{row['requests'] / max(row['cpu_s'], 1e-9):,.0f}",
            f"{row['startup_s']:.2f}",
        )
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 10_000:
        return f"{value / 1000:,.0f} ms"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _gain(reference: float | None, own: float | None) -> str:
    return "-" if reference is None or not own else f"{reference / own:,.1f}"
