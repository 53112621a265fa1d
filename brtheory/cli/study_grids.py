"""``brtheory study NAME``: the studies that span a grid, each with a page and a result file."""

from pathlib import Path
from typing import Annotated

import typer

from brtheory.cli.options import Json
from brtheory.cli.progress import progress_bar
from brtheory.cli.study_grid_view import show_grid
from brtheory.cli.study_options import Jobs, Scheduler, invocation
from brtheory.study.grid.contenders import Scale
from brtheory.study.grid.plan import Plan
from brtheory.study.grid.study import View, run_grid
from brtheory.study.grids.energy import ENERGY, energy_plan

Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        min=1,
        help="Runs per cell; intervals need at least 2.",
        rich_help_panel="Study",
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(
        "--requests",
        min=1,
        help="Requests of every run, instead of what the study asks for: small numbers show that "
        "it works, not how large an effect is.",
        rich_help_panel="Study",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder of results.json, results.parquet, report/index.html and of the finished "
        "cells, which are not computed twice. Default: results/ and the name of the study.",
        rich_help_panel="Study",
        show_default=False,
    ),
]


def add_grid_studies(app: typer.Typer) -> None:
    """Put the studies under ``brtheory study``."""
    app.command("energy")(energy)


def energy(
    seeds: Seeds = 3,
    requests: Requests = None,
    out: Out = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Joules per token by router, under a power model for accelerators that wait.

    An accelerator is taken to draw 100 + 300 * u^0.7 W, u the share of a step in which it works. A
    balanced cluster waits less, so a token costs less; but waiting was cheaper than working, so the
    saving in energy is smaller than the saving in time. Four workloads, saturated and at 80 % load.

    `brtheory study energy --seeds 5 --out results/energy`
    """
    scale = Scale(seeds=seeds, requests=requests)
    _study(energy_plan(scale), ENERGY, out, jobs, scheduler, as_json)


def _study(
    plan: Plan,
    view: View,
    out: Path | None,
    jobs: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Run a study and show it."""
    folder = out or Path("results") / plan.name
    with progress_bar(f"study {plan.name}", total=len(plan.cells)) as advance:
        document = run_grid(
            plan, view, folder=folder, invocation=invocation(jobs, scheduler), on_done=advance
        )
    if as_json:
        typer.echo(document.model_dump_json(by_alias=True))
    else:
        show_grid(document, folder)
