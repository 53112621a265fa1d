"""Options of a simulated run beyond router and load: unequal replicas, transfer, perturbations."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from brtheory.cli.options import key_value_pairs
from brtheory.core.unequal import Replica
from brtheory.errors import InputError
from brtheory.offline.replicas import read_replicas
from brtheory.routers.params import params_from_text
from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.transfer import TransferDelay
from brtheory.simulation.workload import ClusterShape, unequal_shape

DEFAULT_REPLICAS = 8

CLUSTER, DELAYS = "Cluster", "Delays and errors"

Replicas = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Decode replicas, G: {DEFAULT_REPLICAS}, or as many as described.",
        rich_help_panel=CLUSTER,
    ),
]
Slots = Annotated[
    int,
    typer.Option(min=1, help="Requests a replica decodes at once.", rich_help_panel=CLUSTER),
]
KvCapacity = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="KV tokens a replica can reserve; default unlimited.",
        rich_help_panel=CLUSTER,
    ),
]
ReplicaSpeeds = Annotated[
    str | None,
    typer.Option(
        metavar="V,V,..",
        help="Speed of each replica: it takes (b0 + a0 * load) / V. 1,1,0.5 is two and one half "
        "as fast.",
        rich_help_panel=CLUSTER,
    ),
]
ReplicaSlots = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,..",
        help="Slots of each replica, instead of --slots.",
        rich_help_panel=CLUSTER,
    ),
]
ReplicaFile = Annotated[
    Path | None,
    typer.Option(
        help="JSON file of replicas that differ (`brtheory schema replicas`): slots, speed, own "
        "a0 and b0 of each.",
        rich_help_panel=CLUSTER,
    ),
]
A0 = Annotated[
    float, typer.Option(help="Seconds per token of the peak load.", rich_help_panel=CLUSTER)
]
B0 = Annotated[float, typer.Option(help="Seconds per step.", rich_help_panel=CLUSTER)]
PrefillSeconds = Annotated[
    float,
    typer.Option("--prefill-s", help="Prefill: seconds per request.", rich_help_panel=DELAYS),
]
PrefillPerToken = Annotated[
    float,
    typer.Option(
        "--prefill-s-per-token", help="Prefill: seconds per prompt token.", rich_help_panel=DELAYS
    ),
]
TransferSeconds = Annotated[
    float,
    typer.Option(
        "--transfer-s",
        help="KV transfer after binding: seconds per request.",
        rich_help_panel=DELAYS,
    ),
]
TransferPerToken = Annotated[
    float,
    typer.Option(
        "--transfer-s-per-token",
        help="KV transfer after binding: seconds per prompt token.",
        rich_help_panel=DELAYS,
    ),
]
TransferOverlap = Annotated[
    bool,
    typer.Option(
        "--transfer-overlap",
        help="The KV transfer runs while the request waits for a slot.",
        rich_help_panel=DELAYS,
    ),
]
Perturb = Annotated[
    list[str] | None,
    typer.Option(
        metavar="K=V",
        help="What goes wrong; repeatable: stale_steps (loads known so late), keeps_book=false "
        "(own admissions since are not counted), token_noise, token_bias (prompts misjudged), "
        "prediction_noise, prediction_bias, flip_rate (predictions), drift (0..1: so much of the "
        "trace comes shortest output first), knows_speeds=false (replicas that differ are taken to "
        "be alike).",
        rich_help_panel=DELAYS,
    ),
]


def shape_from_options(
    *,
    replicas: int | None,
    slots: int,
    kv_capacity: int | None,
    speeds: str | None,
    slots_each: str | None,
    file: Path | None,
) -> ClusterShape:
    """The cluster that ``--replicas``, ``--slots`` and the descriptions of replicas give.

    Raises
    ------
    InputError
        If a list does not parse, or descriptions contradict one another.
    """
    described = _described(speeds, slots_each, file, slots=slots)
    if described is None:
        return ClusterShape(replicas or DEFAULT_REPLICAS, slots, kv_capacity)
    if replicas is not None and replicas != len(described):
        raise InputError("--replicas", f"{len(described)}, as many as described", replicas)
    return unequal_shape(described, kv_capacity=kv_capacity)


def transfer_from_options(
    *, seconds: float, seconds_per_token: float, overlap: bool
) -> TransferDelay | None:
    """The KV transfer, None where none is asked for.

    Raises
    ------
    InputError
        If a delay is out of range, or there is none to overlap.
    """
    if seconds == seconds_per_token == 0:
        if overlap:
            expected = "a transfer (--transfer-s or --transfer-s-per-token)"
            raise InputError("--transfer-overlap", expected, "none")
        return None
    return TransferDelay(seconds, seconds_per_token, overlap)


def perturbation_from_options(given: Sequence[str] | None) -> Perturbation | None:
    """The perturbation ``--perturb`` describes, None where nothing is wrong.

    Raises
    ------
    InputError
        If a text has no ``=``, or a value is unknown, given twice or out of range.
    """
    if not given:
        return None
    values = key_value_pairs(given, where="--perturb")
    known = [field.name for field in fields(Perturbation)]
    for name in values:
        if name not in known:
            raise InputError("--perturb", "one of " + ", ".join(known), name)
    return params_from_text(Perturbation, values, where="--perturb")


def _described(
    speeds: str | None, slots_each: str | None, file: Path | None, *, slots: int
) -> tuple[Replica, ...] | None:
    if file is not None:
        if speeds is not None or slots_each is not None:
            raise InputError("--replica-file", "no --replica-speeds or --replica-slots", "both")
        return read_replicas(file)
    if speeds is None and slots_each is None:
        return None
    own_speeds = None if speeds is None else [_speed(text) for text in speeds.split(",")]
    own_slots = None if slots_each is None else [_slots(text) for text in slots_each.split(",")]
    count = len(own_speeds or own_slots or ())
    own_speeds = own_speeds or [1.0] * count
    own_slots = own_slots or [slots] * count
    if len(own_slots) != len(own_speeds):
        raise InputError("--replica-slots", f"{len(own_speeds)} numbers", len(own_slots))
    return tuple(Replica(n, v) for n, v in zip(own_slots, own_speeds, strict=True))


def _speed(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError("--replica-speeds", "numbers with commas between", repr(text)) from error


def _slots(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InputError("--replica-slots", "integers with commas between", repr(text)) from error
