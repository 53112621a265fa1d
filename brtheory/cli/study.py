"""``brtheory study``: routers side by side on a trace or a workload, and a page about it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from brtheory.cli.options import Json
from brtheory.cli.progress import progress_bar
from brtheory.cli.study_grids import add_grid_studies
from brtheory.cli.study_options import Jobs, Scheduler, invocation, refuse_options_before
from brtheory.cli.study_view import show_study
from brtheory.cli.trace_input import parse_columns, reading_bar, refuse_reading_options
from brtheory.errors import InputError
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import DEFAULT_A0, DEFAULT_B0, ClusterShape, StepTime
from brtheory.study.campaign import Campaign, StudyConfig
from brtheory.study.choices import ORACLE, default_routers
from brtheory.study.study import run_study
from brtheory.study.supply import Supply, TraceSupply, WorkloadSupply
from brtheory.traces.read import read_trace
from brtheory.traces.workloads import find_workload

DEFAULT_WORKLOAD = "azure-2023-conv"
TURNS = 24
"""Requests per slot of a workload when --requests is not given."""
MOST_TRACE_REQUESTS = 20_000
"""Requests of a trace used when --requests is not given: traces can have tens of millions."""
DEFAULT_SCALING = "2,4,8,16,32"

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


@app.callback()
def study(
    context: typer.Context,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Trace file of any format `brtheory trace describe` reads.",
            rich_help_panel="Requests",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="Embedded synthetic workload instead (see `brtheory workloads list`). "
            f"With neither: {DEFAULT_WORKLOAD}.",
            rich_help_panel="Requests",
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Requests a run plays; a shorter trace is played again. Default: "
            f"{TURNS} a slot of a workload, the first {MOST_TRACE_REQUESTS:,} of a trace.",
            rich_help_panel="Requests",
        ),
    ] = None,
    on_error: Annotated[
        Literal["raise", "skip"],
        typer.Option(
            help="A malformed row of the trace: stop there, or skip and count it.",
            rich_help_panel="Requests",
        ),
    ] = "raise",
    start: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Rows of the trace from this second on.", rich_help_panel="Requests"
        ),
    ] = None,
    end: Annotated[
        float | None,
        typer.Option(help="Rows of the trace before this second.", rich_help_panel="Requests"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Which columns of the trace to use where names are unusual, e.g. "
            "prompt_tokens=IN,output_tokens=OUT.",
            rich_help_panel="Requests",
        ),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            help="closed:X keeps X × replicas × slots requests in the system, so X > 1 leaves a "
            "backlog to choose from; open:X plays the trace at X times its rate; open:rho=R is "
            "Poisson at R times BR-0's saturated rate; all: everything at the start.",
            rich_help_panel="Requests",
        ),
    ] = "closed:1.5",
    replicas: Annotated[
        int,
        typer.Option(min=1, help="Data-parallel decode replicas, G.", rich_help_panel="Cluster"),
    ] = 8,
    slots: Annotated[
        int,
        typer.Option(min=1, help="Requests a replica decodes at once.", rich_help_panel="Cluster"),
    ] = 32,
    kv_capacity: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="KV tokens a replica can reserve; default unlimited.",
            rich_help_panel="Cluster",
        ),
    ] = None,
    a0: Annotated[
        float,
        typer.Option(
            help="Seconds per KV token of the fullest replica.", rich_help_panel="Cluster"
        ),
    ] = DEFAULT_A0,
    b0: Annotated[
        float, typer.Option(help="Seconds per step besides that.", rich_help_panel="Cluster")
    ] = DEFAULT_B0,
    routers: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated, each NAME or NAME:KEY=VALUE:KEY=VALUE, e.g. "
            "`jsq,br0,brh:horizon=40`. `horizon=auto` is the time between completions on a "
            "replica, about mean output / slots. JSQ is always included. Default: all common "
            "ones, with BR-H at H = 80 and at auto.",
            rich_help_panel="Study",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Runs per router; intervals need at least 2.", rich_help_panel="Study"
        ),
    ] = 3,
    scaling: Annotated[
        str,
        typer.Option(
            help="Numbers of replicas of the growth with G, comma-separated, or `none`.",
            rich_help_panel="Study",
        ),
    ] = DEFAULT_SCALING,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results.json, results.parquet, report/index.html and of the finished "
            "cells, which are not computed twice. Default: results/study, or results/NAME of the "
            "trace or workload given.",
            rich_help_panel="Study",
            show_default=False,
        ),
    ] = None,
    predictor: Annotated[
        str,
        typer.Option(
            help="Show BR-H with this predictor as well as with the oracle: survival, exact-match, "
            "learned or learned:MODEL.npz (see `brtheory predict train`).",
            rich_help_panel="Study",
        ),
    ] = ORACLE,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Compare routers side by side: what decode loses at the step barrier, and who gets it back.

    In data-parallel decode every step lasts as long as its fullest replica needs, b0 + a0 * tokens;
    the others wait. Each router is simulated over several seeds on the same requests. You get
    a table here, and in the output folder a page with figures and the numbers as JSON and Parquet.
    Averages are over the loaded window: from the first 10 % of requests completed to the last one
    ready. Interrupt it at any time: started again, it goes on where it stopped.

    Examples
    --------
    `brtheory study --trace requests.csv --replicas 8 --slots 32`

    `brtheory study --workload reasoning-r1 --routers jsq,least-tokens,br0 --seeds 5`

    `brtheory study --trace requests.csv --arrivals open:rho=0.8 --out results/light-load`
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    supply, wanted = _supply(
        trace, workload, requests, slots=replicas * slots, on_error=on_error, start=start, end=end,
        columns=columns,
    )  # fmt: skip
    config = StudyConfig(
        shape=ClusterShape(replicas, slots, kv_capacity),
        arrivals=parse_arrivals(arrivals),
        step_time=StepTime(a0=a0, b0=b0),
        routers=default_routers() if routers is None else tuple(routers.split(",")),
        seeds=seeds,
        requests=wanted,
        scaling=_numbers(scaling),
        predictor=predictor,
    )
    campaign = Campaign(config, supply)
    folder = out or Path("results") / (trace.name if trace else workload or "study")
    with progress_bar("studying", total=campaign.planned()) as advance:
        document = run_study(
            campaign, folder, invocation=invocation(jobs, scheduler), on_done=advance
        )
    if as_json:
        typer.echo(document.model_dump_json(by_alias=True))
    else:
        show_study(document, folder)


add_grid_studies(app)


def _supply(
    trace: Path | None,
    workload: str | None,
    requests: int | None,
    *,
    slots: int,
    on_error: Literal["raise", "skip"],
    start: float | None,
    end: float | None,
    columns: str | None,
) -> tuple[Supply, int]:
    """Where requests come from, and how many a run plays."""
    if trace is None:
        refuse_reading_options(start=start, end=end, columns=columns)
        name = find_workload(workload or DEFAULT_WORKLOAD).name
        return WorkloadSupply(name), requests or TURNS * slots
    if workload is not None:
        raise InputError("input", "one of --trace FILE and --workload NAME", "both")
    with reading_bar(trace) as advance:
        read = read_trace(
            trace, on_error=on_error, limit=requests or MOST_TRACE_REQUESTS, start_s=start,
            end_s=end, columns=parse_columns(columns), on_progress=advance,
        )  # fmt: skip
    dropped = [f"{rows:,} rows dropped: {reason}" for reason, rows in read.dropped.items()]
    supply = TraceSupply(read.trace, (*read.notes, *dropped))
    return supply, requests or len(read.trace)


def _numbers(text: str) -> tuple[int, ...]:
    if text.strip() == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError("--scaling", "numbers of replicas, or none", repr(text)) from error
