"""``brtheory demo``: emulated engines, the proxy and load in one command, to watch the barrier."""

import asyncio
import json
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import Json, RouterName, Seed
from brtheory.cli.progress import progress_bar
from brtheory.errors import MissingExtraError
from brtheory.routers.registry import find_router
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.traces.workloads import generate_workload

NEEDED = ("aiohttp", "httptools", "prometheus_client", "uvloop")
TURNS = ("jsq", "window")
STEP = StepTime(a0=1.5e-6, b0=0.02)
"""A demo's step: with some 15,000 tokens on a replica half of it depends on the load."""
KV_TOKENS = 1_000_000
TRACE_REQUESTS = 4096
LATE_SHARE = 0.1


def demo(
    router: RouterName = "jsq",
    replicas: Annotated[
        int, typer.Option(min=2, max=64, help="Decode replicas behind one barrier.")
    ] = 8,
    slots: Annotated[int, typer.Option(min=1, help="Requests a replica decodes at once.")] = 12,
    workload: Annotated[
        str, typer.Option(help="Embedded workload (see `brtheory workloads list`).")
    ] = "azure-2023-conv",
    pressure: Annotated[
        float,
        typer.Option(
            min=0.1, max=10.0, help="Requests on their way for each slot; above 1 some wait."
        ),
    ] = 1.5,
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="How long to run.", show_default="until Ctrl-C"),
    ] = None,
    switch_every: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Seconds after which jsq and window take turns, to see the barrier drop and rise.",
            show_default="never",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Watch the barrier: emulated engines, the proxy before them, load, and a live dashboard.

    Starts decode replicas that step together, prefill servers, the proxy and clients that stream
    the requests of a synthetic trace, all on free ports of this machine alone. Open the address it
    prints; the router can be switched there while it serves. Ctrl-C, or the end of --seconds, stops
    everything and prints what each router has cost, by the emulator's own books.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError("brtheory demo", "serve")
    from brtheory.cli.demo_run import DemoPlan, play  # noqa: PLC0415  # the extra is there
    from brtheory.emulator.config import EmulatorConfig  # noqa: PLC0415  # as the above

    find_router(router)
    plan = DemoPlan(
        emulator=EmulatorConfig(
            shape=ClusterShape(replicas, slots, KV_TOKENS), step_time=STEP, seed=seed
        ),
        trace=generate_workload(workload, requests=TRACE_REQUESTS, seed=seed),
        router=router,
        clients=max(1, round(pressure * replicas * slots)),
        seconds=seconds,
        switch_every_s=switch_every,
        turns=TURNS,
    )
    with progress_bar("playing, seconds", total=_whole(seconds)) as advance:
        summary = _run(play(plan, on_ready=_tell, on_second=advance))
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _show(summary)


def _tell(dashboard: str, api: str) -> None:
    typer.echo(f"dashboard  {dashboard}", err=True)
    typer.echo(f"API        {api}/v1    stop: Ctrl-C", err=True)


def _show(summary: dict[str, Any]) -> None:
    table = Table(
        "router", "seconds", "idle", "idle, 2nd half", "imbalance, tokens", "tokens/s",
        title="what each router cost, by the emulator's books",
    )  # fmt: skip
    for phase in summary["phases"]:
        table.add_row(
            phase["router"],
            f"{phase['seconds']:.0f}",
            _percent(phase["barrier_idle_fraction"]),
            _percent(phase["second_half"]["barrier_idle_fraction"]),
            _number(phase["imbalance_mean_tokens"]),
            _number(phase["tokens_per_s"]),
        )
    console, requests = Console(), summary["requests"]
    console.print(table)
    console.print(
        f"{summary['decoded_tokens']:,} tokens, {requests['completed']:,} requests answered, "
        f"{requests['failed']:,} failed"
    )
    if summary["emulator_lost_s"] > LATE_SHARE * summary["seconds"]:
        console.print(
            f"This machine was too slow for {summary['emulator_lost_s']:.0f} s of it: steps took "
            "longer than the model says. Take fewer --replicas or --slots."
        )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _run(main: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    import uvloop  # noqa: PLC0415  # of the extra

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
