"""``brtheory serve`` as a process: configuration printed, nodes checked, signals obeyed."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession

from tests.unit.proxy.engines import Engine, asynchronous_for, decode, prefill, until

MAIN = "from brtheory.cli.serve import serve; import typer; typer.run(serve)"
COMMAND = [sys.executable, "-c", MAIN]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # our own command
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_the_effective_configuration_is_printed_with_options_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        '[connector]\nname = "none"\n[router]\nname = "jsq"\n[[decode]]\nname = "d"\n'
        'url = "http://127.0.0.1:1"\n'
    )
    shown = run("--config", str(path), "--router", "window", "--print-config", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["router"]["name"] == "window"


@asynccontextmanager
async def process(*engines: Engine, **fields: str) -> Any:
    """The command before running engines, ready; yields (process, address)."""
    mine, theirs = engines
    for engine in engines:
        await engine.start()
    port = free_port()
    flags = {
        "server.port": str(port),
        "admin.enabled": "false",
        "prefill": f'[{{name = "p", url = "{mine.url}"}}]',
        "decode": f'[{{name = "d", url = "{theirs.url}"}}]',
        **fields,
    }
    arguments = [part for name, value in flags.items() for part in ("--set", f"{name}={value}")]
    child = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    url = f"http://127.0.0.1:{port}"
    try:
        await ready(url, child)
        yield child, url
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()
        for engine in engines:
            await engine.stop()


async def ready(url: str, child: asyncio.subprocess.Process) -> None:
    async with ClientSession() as http, asyncio.timeout(60):
        while child.returncode is None:
            try:
                async with http.get(f"{url}/ready") as reply:
                    if reply.status == 200:
                        return
            except ClientConnectorError:
                await asyncio.sleep(0.05)


@asynchronous_for(120)
async def test_sigterm_lets_streams_end_and_the_exit_code_says_so() -> None:
    mine, theirs = Engine(prefill), Engine(decode, hold=asyncio.Event())
    async with process(mine, theirs) as (child, url), ClientSession() as http:
        body = {"prompt": "x", "stream": True}
        async with http.post(f"{url}/v1/completions", json=body) as reply:
            await reply.content.readuntil(b"\n\n")
            child.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            with pytest.raises(ClientConnectorError):
                await http.get(f"{url}/ready", headers={"Connection": "close"})
            assert theirs.hold is not None
            theirs.hold.set()
            assert (await reply.read()).endswith(b"data: [DONE]\n\n")
        assert await child.wait() == 0


@asynchronous_for(120)
async def test_streams_that_outlast_the_drain_are_cut_and_the_exit_code_says_so() -> None:
    mine, theirs = Engine(prefill), Engine(decode, hold=asyncio.Event())
    command = process(mine, theirs, **{"server.drain_s": "0.3"})
    async with command as (child, url), ClientSession() as http:
        body = {"prompt": "x", "stream": True}
        async with http.post(f"{url}/v1/completions", json=body) as reply:
            await reply.content.readuntil(b"\n\n")
            child.send_signal(signal.SIGTERM)
            rest = await reply.read()
        assert b'"code": "draining"' in rest
        assert rest.endswith(b"data: [DONE]\n\n")
        assert await child.wait() == 1


@asynchronous_for(120)
async def test_a_proxy_that_is_killed_leaves_nothing_running_on_the_engines() -> None:
    mine, theirs = Engine(prefill), Engine(decode, hold=asyncio.Event())
    async with process(mine, theirs) as (child, url), ClientSession() as http:
        body = {"prompt": "x", "stream": True}
        async with http.post(f"{url}/v1/completions", json=body) as reply:
            await reply.content.readuntil(b"\n\n")
            child.kill()
            await until(lambda: theirs.streams == 0)


@asynchronous_for(120)
async def test_check_exits_with_one_and_says_what_is_wrong() -> None:
    engine = Engine(decode)
    await engine.start()
    decode_ = f'decode=[{{name = "d", url = "{engine.url}", ranks = [3]}}]'
    arguments = ["--connector", "none", "--set", decode_, "--check", "--json"]
    answer = await asyncio.to_thread(run, *arguments)
    await engine.stop()
    assert answer.returncode == 1
    (finding,) = json.loads(answer.stdout)["findings"]
    assert (finding["worker"], "ignores the header" in finding["fault"]) == ("d/3", True)
