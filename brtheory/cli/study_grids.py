"""``brtheory study NAME``: the studies that span a grid, each with a page and a result file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from brtheory.cli.option_groups import grouped
from brtheory.cli.options import Json
from brtheory.cli.progress import progress_bar
from brtheory.cli.study_grid_view import show_grid
from brtheory.cli.study_options import Jobs, Scheduler, invocation
from brtheory.study.grid.contenders import Scale
from brtheory.study.grid.plan import Plan
from brtheory.study.grid.study import View, run_grid
from brtheory.study.grids.ablation import ABLATION, ablation_plan
from brtheory.study.grids.energy import ENERGY, energy_plan
from brtheory.study.grids.heterogeneous import HETEROGENEOUS, heterogeneous_plan
from brtheory.study.grids.paper import PAPER_TABLES, paper_plan
from brtheory.study.grids.regimes import REGIMES, regime_plan
from brtheory.study.grids.robustness import ROBUSTNESS, robustness_plan
from brtheory.study.grids.scaling import SCALING, scaling_plan
from brtheory.study.grids.scenarios import NAMES, ROUTERS, SCENARIO_VIEW, scenario_plan

Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        min=1,
        help="Runs per cell; intervals need at least 2.",
        rich_help_panel="Study",
    ),
]
EmbeddedWorkload = Annotated[
    str, typer.Option(help="Embedded workload (see `brtheory workloads list`).")
]


@dataclass(frozen=True)
class Run:
    """What every study takes: how much to play, where to, and on what."""

    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=1,
            help="Requests of every run, instead of what the study asks for: small numbers show "
            "that it works, not how large an effect is.",
            rich_help_panel="Study",
            show_default=False,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder of results.json, results.parquet, report/index.html and of the finished "
            "cells, which are not computed twice. Default: results/ and the name of the study.",
            rich_help_panel="Study",
            show_default=False,
        ),
    ] = None
    jobs: Jobs = None
    scheduler: Scheduler = None
    as_json: Json = False

    def scale(self, seeds: int) -> Scale:
        """How much of the study is run."""
        return Scale(seeds=seeds, requests=self.requests)


def add_grid_studies(app: typer.Typer) -> None:
    """Put the studies under ``brtheory study``."""
    for name, command in (
        ("tables", tables),
        ("scenarios", scenarios),
        ("scaling", scaling),
        ("regimes", regimes),
        ("energy", energy),
        ("ablation", ablation),
        ("robustness", robustness),
        ("heterogeneous", heterogeneous),
    ):
        app.command(name)(grouped(command))


def tables(*, seeds: Seeds = 5, run: Run) -> None:
    """The paper's two tables on surrogates of its traces, reported beside measured.

    The main comparison at 8 replicas on both workloads, and the growth from 4 to 16 replicas. The
    paper gives neither its step time nor its slots; the companion paper's simulator stands in (72
    slots, 9.775 ms + 0.1005 us per token). So compare ratios to JSQ. What is reported is marked as
    reported; what a pure barrier model cannot reproduce, and by how much, is said in words.

    `brtheory study tables --out results/tables`
    """
    _study(paper_plan(run.scale(seeds)), PAPER_TABLES, run)


def scenarios(
    *,
    on: Annotated[
        str | None,
        typer.Option(
            help="Scenarios s1 to s4 and embedded workloads, comma-separated. Default: all.",
            show_default=False,
        ),
    ] = None,
    routers: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated, as in `brtheory study`; JSQ is always included, because ratios "
            "are quoted against it. Default: all common ones.",
            show_default=False,
        ),
    ] = None,
    seeds: Seeds = 3,
    run: Run,
) -> None:
    """Which router when: every router on ten kinds of requests, saturated and at 80 % load.

    The scenarios s1 to s4 (30,000 requests each) make one thing hard each: long and widely spread
    prompts, long outputs, few slots, short outputs; the embedded workloads follow published traces.
    The recommendation is computed from the numbers. RESULTS.md is made from this study.

    `brtheory study scenarios --on s1,s2,reasoning-r1 --routers br0,window`
    """
    names = NAMES if on is None else tuple(on.split(","))
    compared = ROUTERS if routers is None else tuple(dict.fromkeys(["jsq", *routers.split(",")]))
    plan = scenario_plan(run.scale(seeds), names=names, routers=compared)
    _study(plan, SCENARIO_VIEW, run)


def scaling(
    *,
    workload: EmbeddedWorkload = "azure-2023-conv",
    slots: Annotated[int, typer.Option(min=1, help="Requests a replica decodes at once.")] = 32,
    largest: Annotated[
        int,
        typer.Option(
            min=2,
            help="Largest number of replicas; all powers of two up to it are run. 1024 plays about "
            "400,000 requests per run.",
        ),
    ] = 256,
    seeds: Seeds = 3,
    run: Run,
) -> None:
    """Imbalance, idle time and throughput as replicas are added, beside independent replicas.

    A barrier waits for the fullest of G replicas, so what is lost grows with G like an expected
    maximum. Each router stands beside G independent replicas whose slots are always full: by Monte
    Carlo of their exact law, and by exact order statistics as if loads were normal. Two fits, a
    power of G and a multiple of E[max of G normals], say how each one grows.

    `brtheory study scaling --largest 1024 --workload reasoning-r1`
    """
    plan = scaling_plan(run.scale(seeds), workload=workload, slots=slots, largest=largest)
    _study(plan, SCALING, run)


def regimes(*, seeds: Seeds = 3, run: Run) -> None:
    """When the choice of router matters: backlog, step time, memory and prompts as heat maps.

    Two planes: backlog against a0 L / b0 (how much of a step grows with load), and memory against
    the spread of prompts. Each point says what JSQ loses at the barrier, what the best router
    without predictions wins back, and which one that is.

    `brtheory study regimes --seeds 5`
    """
    _study(regime_plan(run.scale(seeds)), REGIMES, run)


def energy(*, seeds: Seeds = 3, run: Run) -> None:
    """Joules per token by router, under a power model for accelerators that wait.

    An accelerator is taken to draw 100 + 300 * u^0.7 W, u the share of a step in which it works. A
    balanced cluster waits less, so a token costs less; but waiting was cheaper than working, so the
    saving in energy is smaller than the saving in time. Four workloads, saturated and at 80 % load.

    `brtheory study energy --seeds 5 --out results/energy`
    """
    _study(energy_plan(run.scale(seeds)), ENERGY, run)


def ablation(*, seeds: Seeds = 5, run: Run) -> None:
    """What each part and each setting is worth: one thing at a time away from the defaults.

    Settings of the tick (R_max, S_greedy, key order, candidates, stage 1) and of the horizon (H,
    beta, gamma, refresh, growth), the gate, wrong predictions, a KV transfer after binding or while
    waiting, and from router to router: counting tokens, the pool, the score, the horizon. Two
    workloads; ratios are paired by seed, and the findings name what is surely better or worse.

    `brtheory study ablation --out results/ablation`
    """
    _study(ablation_plan(run.scale(seeds)), ABLATION, run)


def robustness(
    *,
    workload: EmbeddedWorkload = "proprietary-surrogate",
    seeds: Seeds = 3,
    run: Run,
) -> None:
    """How routers degrade: wrong predictions, stale loads, wrong token counts, drift, bursts.

    Each kind of trouble grows from nothing to a lot under JSQ, least tokens, BR-0, BR-H (told the
    truth, and with the survival predictor) and the window router. Curves show imbalance as a ratio
    to JSQ in the same trouble; the findings say how much worse each router gets and from where on
    it is no longer worth having.

    `brtheory study robustness --workload azure-2023-conv --seeds 5`
    """
    plan = robustness_plan(run.scale(seeds), workload=workload)
    _study(plan, ROBUSTNESS, run)


def heterogeneous(
    *,
    workload: EmbeddedWorkload = "proprietary-surrogate",
    seeds: Seeds = 3,
    run: Run,
) -> None:
    """Replicas of unequal speed and slots: what it is worth to a router to know the speeds.

    One replica slower and slower, one with slow memory, two classes of replicas, unequal slots.
    Routers that weigh tokens run twice, told the speeds and blind to them; JSQ and pooled FIFO
    count requests. Idle times are in time, and throughput decides.

    `brtheory study heterogeneous --workload reasoning-r1`
    """
    plan = heterogeneous_plan(run.scale(seeds), workload=workload)
    _study(plan, HETEROGENEOUS, run)


def _study(plan: Plan, view: View, run: Run) -> None:
    """Run a study and show it."""
    folder = run.out or Path("results") / plan.name
    with progress_bar(f"study {plan.name}", total=len(plan.cells)) as advance:
        document = run_grid(
            plan,
            view,
            folder=folder,
            invocation=invocation(run.jobs, run.scheduler),
            on_done=advance,
        )
    if run.as_json:
        typer.echo(document.model_dump_json(by_alias=True))
    else:
        show_grid(document, folder)
