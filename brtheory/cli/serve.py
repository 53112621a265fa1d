"""``brtheory serve``: the proxy in front of prefill and decode nodes."""

import asyncio
import json
import os
from collections.abc import Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import Json
from brtheory.errors import MissingExtraError

if TYPE_CHECKING:
    from brtheory.proxy.check import Finding
    from brtheory.proxy.settings import Settings

NEEDED = ("aiohttp", "httptools", "prometheus_client")
CUT_OFF = 1
T = TypeVar("T")


def serve(
    config: Annotated[
        Path | None, typer.Option(help="TOML file.", exists=True, dir_okay=False)
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    router: Annotated[
        str | None, typer.Option(help="Router by name: br0, brh, window, pool-fifo, jsq, ...")
    ] = None,
    connector: Annotated[
        str | None, typer.Option(help="KV connector: nixl, mooncake-ascend, mooncake, none.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.FIELD=VALUE", help="Any setting, as in the file; repeatable."
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the effective configuration and exit.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Probe all nodes and ranks, say what is wrong, and exit."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve an OpenAI-compatible API in front of prefill and decode nodes.

    Prompts are prefilled, held in a pool, and bound late to the decode replica where they level
    the loads best. The file, then the environment (BRTHEORY_PROXY_SECTION__FIELD), then options
    set the configuration; the last one wins. SIGTERM drains: running streams end, none is cut.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError("brtheory serve", "serve")
    from brtheory.proxy.config import as_toml, load_settings  # noqa: PLC0415  # the extra is there

    named = {
        "server.host": host,
        "server.port": port,
        "router.name": router,
        "connector.name": connector,
    }
    flags = [f"{name}={value}" for name, value in named.items() if value is not None]
    effective = load_settings(config, environment=os.environ, flags=[*(settings or ()), *flags])
    if print_config:
        typer.echo(effective.model_dump_json() if as_json else as_toml(effective), nl=as_json)
    elif check:
        _check(effective, as_json=as_json)
    else:
        _serve(effective)


def _serve(settings: "Settings") -> None:
    from brtheory.proxy.logs import set_up_logs  # noqa: PLC0415  # needs the extra
    from brtheory.proxy.serving import serve_until_told  # noqa: PLC0415  # needs the extra

    set_up_logs(settings.log)
    if not _run(serve_until_told(settings)):
        raise typer.Exit(CUT_OFF)


def _check(settings: "Settings", *, as_json: bool) -> None:
    from brtheory.proxy.check import check_workers  # noqa: PLC0415  # needs the extra

    findings = _run(check_workers(settings))
    if as_json:
        typer.echo(json.dumps({"findings": [vars(finding) for finding in findings]}))
    else:
        _show(findings)
    if any(finding.fault is not None for finding in findings):
        raise typer.Exit(1)


def _show(findings: "list[Finding]") -> None:
    table = Table("worker", "role", "address", "model", "finding")
    for finding in findings:
        model = finding.model or "-"
        table.add_row(finding.worker, finding.role, finding.url, model, finding.fault or "well")
    Console().print(table)


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where it is installed."""
    if find_spec("uvloop") is None:
        return asyncio.run(main)
    import uvloop  # noqa: PLC0415  # optional

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
