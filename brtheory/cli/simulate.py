"""``brtheory simulate``: one router on one trace, all metrics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.description_view import show_dropped
from brtheory.cli.option_groups import grouped
from brtheory.cli.options import Json, Params, PredictorName, RouterName, Seed, parse_params
from brtheory.cli.progress import progress_bar
from brtheory.cli.run_options import (
    A0,
    B0,
    KvCapacity,
    Perturb,
    PrefillPerToken,
    PrefillSeconds,
    ReplicaFile,
    Replicas,
    ReplicaSlots,
    ReplicaSpeeds,
    Slots,
    TransferOverlap,
    TransferPerToken,
    TransferSeconds,
    perturbation_from_options,
    shape_from_options,
    transfer_from_options,
)
from brtheory.cli.trace_input import RequestOptions
from brtheory.files import write_text_atomic
from brtheory.routers.registry import find_router
from brtheory.simulation.arrivals import PrefillDelay
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig
from brtheory.simulation.run import simulate as run_simulation
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import DEFAULT_A0, DEFAULT_B0, ClusterShape, StepTime
from brtheory.traces.schema import Trace


@grouped
def simulate(
    router: RouterName,
    source: RequestOptions,
    replicas: Replicas = None,
    slots: Slots = 32,
    kv_capacity: KvCapacity = None,
    replica_speeds: ReplicaSpeeds = None,
    replica_slots: ReplicaSlots = None,
    replica_file: ReplicaFile = None,
    arrivals: Annotated[
        str,
        typer.Option(
            help="closed:X keeps X × replicas × slots requests in the system; open:X plays the "
            "trace at X times its rate; open:rho=R is Poisson at R times BR-0's saturated rate "
            "(:burst=B:cycle=S after it: B times the rate while on, on and off in S seconds); "
            "all: everything at the start."
        ),
    ] = "closed:1.25",
    param: Params = None,
    predictor: PredictorName = "oracle",
    seed: Seed = 0,
    a0: A0 = DEFAULT_A0,
    b0: B0 = DEFAULT_B0,
    prefill_s: PrefillSeconds = 0.0,
    prefill_s_per_token: PrefillPerToken = 0.0,
    transfer_s: TransferSeconds = 0.0,
    transfer_s_per_token: TransferPerToken = 0.0,
    transfer_overlap: TransferOverlap = False,
    perturb: Perturb = None,
    out: Annotated[Path | None, typer.Option(help="Write the JSON to this file too.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate barrier-synchronised decode and print what a router wastes and what users feel.

    Every step lasts b0 + a0 * (load of the fullest replica); the others wait. Where replicas
    differ it lasts as long as the slowest takes, and idle figures are in time. Figures are given
    over all steps and over the loaded window (first 10 % completed .. last request ready), which
    is the one to compare routers by.

    `brtheory simulate --router br0 --workload azure-2023-conv --arrivals open:rho=0.8`
    """
    spec = find_router(router)
    config = RunConfig(
        router=router,
        shape=shape_from_options(
            replicas=replicas,
            slots=slots,
            kv_capacity=kv_capacity,
            speeds=replica_speeds,
            slots_each=replica_slots,
            file=replica_file,
        ),
        params=parse_params(spec, param),
        predictor=predictor,
        arrivals=parse_arrivals(arrivals),
        step_time=StepTime(a0=a0, b0=b0),
        prefill=PrefillDelay(prefill_s, prefill_s_per_token),
        seed=seed,
        transfer=transfer_from_options(
            seconds=transfer_s, seconds_per_token=transfer_s_per_token, overlap=transfer_overlap
        ),
        perturbation=perturbation_from_options(perturb),
    )
    trace, dropped = source.load(seed=seed)
    with progress_bar(f"simulating {router}", total=len(trace)) as advance:
        metrics = summarise(run_simulation(trace, config, on_progress=advance))
    document = json.dumps(
        {
            "router": router,
            "trace": trace.name,
            "synthetic": trace.synthetic,
            "dropped": dropped,
            **metrics,
        }
    )
    if out is not None:
        write_text_atomic(out, document + "\n")
    if as_json:
        typer.echo(document)
    else:
        show_dropped(Console(), dropped)
        _show(f"{router}, {_cluster(config.shape)}, {arrivals}", trace, metrics)


def _cluster(shape: ClusterShape) -> str:
    if shape.unequal is None:
        return f"{shape.replicas} x {shape.slots}"
    return " + ".join(f"{r.slots} at {r.speed:g}" for r in shape.unequal)


def _show(conditions: str, source: Trace, metrics: Mapping[str, object]) -> None:
    console = Console()
    label = " (synthetic)" if source.synthetic else ""
    table = Table("", "all steps", "loaded window", title=f"{conditions} · {source.name}{label}")
    window = metrics["loaded_window"]
    for name, value in metrics.items():
        if name != "loaded_window":
            inside = window.get(name) if isinstance(window, Mapping) else None
            table.add_row(name, _text(value), _text(inside))
    console.print(table)
    console.print("energy_model_*: modelled, 100 + 300*u^0.7 W per replica, not measured")


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
