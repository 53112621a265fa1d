"""``brtheory emulate``: a barrier-locked decode group and prefill servers, without a GPU."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from brtheory.emulator.config import EmulatorConfig, PrefillSpeed, is_loopback
from brtheory.emulator.faults import parse_fault_option
from brtheory.errors import InputError, MissingExtraError
from brtheory.simulation.workload import DEFAULT_A0, DEFAULT_B0, ClusterShape, StepTime

UNLIMITED = 0
"""KV capacity that means none."""


def emulate(
    decode_ranks: Annotated[int, typer.Option(min=1, help="Decode ranks behind one barrier.")] = 4,
    ranks_per_endpoint: Annotated[
        int,
        typer.Option(
            min=1,
            help="1: a port for each rank. As many as --decode-ranks: one endpoint, ranks chosen "
            "by X-data-parallel-rank. Between: nodes that own some ranks each.",
        ),
    ] = 1,
    counts_own_ranks: Annotated[
        bool,
        typer.Option("--counts-own-ranks", help="X-data-parallel-rank counts from 0 on each node."),
    ] = False,
    prefill: Annotated[
        int | None,
        typer.Option(min=0, help="Prefill servers; 2 by default, 0 with --connector none."),
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="Requests a rank decodes at once.")] = 32,
    a0: Annotated[float, typer.Option(help="Seconds per token of the peak load.")] = DEFAULT_A0,
    b0: Annotated[float, typer.Option(help="Seconds per step.")] = DEFAULT_B0,
    time_scale: Annotated[
        float,
        typer.Option(help="Wall seconds for a second of the model: 0.1 is ten times as fast."),
    ] = 1.0,
    kv_capacity: Annotated[
        int, typer.Option(min=0, help="KV tokens of a rank and of a prefill server, 0: unlimited.")
    ] = 1_000_000,
    prefill_tokens_per_s: Annotated[float, typer.Option(help="Speed of a prefill server.")] = 2e4,
    prefill_overhead_s: Annotated[float, typer.Option(help="Seconds for any prefill.")] = 0.005,
    connector: Annotated[
        str, typer.Option(help="How KV travels: nixl, mooncake-ascend, mooncake, none.")
    ] = "nixl",
    lease_s: Annotated[
        float | None,
        typer.Option(help="Seconds for which prefilled KV is kept; the connector's by default."),
    ] = None,
    on_lost_kv: Annotated[
        str, typer.Option(help="Decode without usable KV: recompute (silently) or fail.")
    ] = "recompute",
    burst: Annotated[
        int, typer.Option(min=1, help="Most tokens in one step: speculative decoding.")
    ] = 1,
    tokens_per_chunk: Annotated[
        int, typer.Option(min=1, help="Tokens gathered before a chunk is sent.")
    ] = 1,
    mean_output: Annotated[
        float, typer.Option(help="Mean of the hidden output lengths, tokens.")
    ] = 200.0,
    max_model_len: Annotated[int, typer.Option(min=2, help="Longest sequence, tokens.")] = 131_072,
    model: Annotated[str, typer.Option(help="Name of the model served.")] = "emulated",
    api_key: Annotated[
        str | None, typer.Option(envvar="BRTHEORY_EMULATOR_API_KEY", help="Bearer token required.")
    ] = None,
    keepalive_s: Annotated[
        float, typer.Option(help="Seconds after which idle connections are closed, as engines do.")
    ] = 5.0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:K=V,...",
            help="A fault from the start, e.g. status:status=503,rank=1,times=null; repeatable.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of lengths, words and faults.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    expose: Annotated[
        bool, typer.Option("--expose", help="Allow a --host that others can reach.")
    ] = False,
    port_base: Annotated[
        int, typer.Option(min=0, help="First port: admin, then decode, then prefill. 0: any free.")
    ] = 8200,
    json_ready: Annotated[
        bool, typer.Option("--json-ready", "--json", help="Print the addresses as JSON when ready.")
    ] = False,
) -> None:
    """Run emulated engines: what a router sees of vLLM with prefill/decode disaggregation.

    All decode ranks step together: a step lasts b0 + a0 * (KV tokens of the fullest rank), and each
    running request gets one token from it. Prefill servers return KV parameters and keep the KV
    under a lease. The admin port tells the truth (GET /emulator/truth: loads, imbalance, pinned KV)
    and takes faults (POST /emulator/faults). Runs until interrupted or terminated.

    Try it: curl -N localhost:8201/v1/completions -H 'Content-Type: application/json'
    -d '{"prompt": "hello", "max_tokens": 20, "stream": true}'
    """
    if not expose and not is_loopback(host):
        raise InputError("--host", "a loopback address, or --expose", host)
    if on_lost_kv not in {"recompute", "fail"}:
        raise InputError("--on-lost-kv", "recompute | fail", repr(on_lost_kv))
    capacity = None if kv_capacity == UNLIMITED else kv_capacity
    default_prefill = 0 if connector == "none" else 2
    config = EmulatorConfig(
        shape=ClusterShape(decode_ranks, slots, capacity),
        ranks_per_endpoint=ranks_per_endpoint,
        counts_own_ranks=counts_own_ranks,
        step_time=StepTime(a0=a0, b0=b0),
        burst=burst,
        tokens_per_chunk=tokens_per_chunk,
        prefill=default_prefill if prefill is None else prefill,
        prefill_speed=PrefillSpeed(prefill_tokens_per_s, prefill_overhead_s),
        prefill_kv_capacity=capacity,
        connector=connector,
        lease_s=lease_s,
        on_lost_kv="fail" if on_lost_kv == "fail" else "recompute",
        time_scale=time_scale,
        keepalive_s=keepalive_s,
        model=model,
        max_model_len=max_model_len,
        mean_output=mean_output,
        api_key=api_key,
        seed=seed,
        host=host,
        port_base=port_base,
        faults=tuple(parse_fault_option(text) for text in fault or ()),
    )
    try:
        from brtheory.emulator.serve import serve_until_stopped  # noqa: PLC0415  # optional extra
    except ImportError as error:
        raise MissingExtraError("brtheory emulate", "serve") from error
    serve_until_stopped(config, on_ready=_print_json if json_ready else _show)


def _print_json(addresses: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()


def _show(addresses: dict[str, Any]) -> None:
    table = Table("server", "address", "ranks", title=f"model {addresses['model']}")
    table.add_row("admin", addresses["admin"], "")
    for server in addresses["decode"]:
        table.add_row(server["name"], server["url"], ", ".join(map(str, server["ranks"])))
    for server in addresses["prefill"]:
        table.add_row(server["name"], server["url"], "")
    console = Console()
    console.print(table)
    console.print(f"truth: {addresses['admin']}/emulator/truth    stop: Ctrl-C")
