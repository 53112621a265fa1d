"""Parts killed, stopped and continued, as processes: nothing hangs, and what was learned stays."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientError, ClientSession, ClientTimeout

from tests.unit.proxy.engines import asynchronous_for
from tests.unit.proxy.test_serve_command import free_port

COMMAND = [sys.executable, "-c", "from brtheory.cli.main import main; main()"]
TOKENS = 600
STREAMS = 12
PATIENCE = ClientTimeout(total=60)


@dataclass
class Part:
    """A process, and what it printed when it was ready."""

    process: asyncio.subprocess.Process
    told: dict[str, Any]

    async def kill(self) -> None:
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
            await self.process.wait()


@asynccontextmanager
async def part(*arguments: str, tells: bool) -> AsyncIterator[Part]:
    out = asyncio.subprocess.PIPE if tells else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=out, stderr=asyncio.subprocess.DEVNULL, limit=1 << 20
    )
    mine = Part(process, {})
    try:
        if tells:
            assert process.stdout is not None
            mine.told = json.loads(await process.stdout.readline())
        yield mine
    finally:
        await mine.kill()


def emulator(*options: str) -> Any:
    fast = ("--b0", "0.01", "--a0", "0", "--prefill-overhead-s", "0.05", "--mean-output", "1000")
    return part("emulate", *fast, "--decode-ranks", "2", "--json-ready", *options, tells=True)


def proxy(port: int, prefill: Sequence[Part], decode: Sequence[Part], history: Path) -> Any:
    prompts = [
        f'{{name="p{n}",url="{e.told["prefill"][0]["url"]}"}}' for n, e in enumerate(prefill)
    ]
    ranks = [
        f'{{name="{number}-{node["name"]}", url="{node["url"]}", slots=32}}'
        for number, engine in enumerate(decode)
        for node in engine.told["decode"]
    ]
    settings = {
        "server.port": str(port),
        "admin.enabled": "false",
        "router.name": "brh",
        "router.params": "{horizon = 8}",
        "router.history_file": str(history),
        "router.history_save_s": "0.1",
        "upstream.health_interval_s": "0.1",
        "upstream.health_timeout_s": "1",
        "prefill": f"[{', '.join(prompts)}]",
        "decode": f"[{', '.join(ranks)}]",
    }
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return part("serve", *flags, tells=False)


@dataclass
class Client:
    """A client of the proxy."""

    url: str
    http: ClientSession

    async def stream(self, tokens: int = TOKENS) -> tuple[int, str]:
        body = {"prompt": "hello there", "stream": True, "max_tokens": tokens, "ignore_eos": True}
        async with self.http.post(f"{self.url}/v1/completions", json=body) as reply:
            return reply.status, await reply.text()

    async def metrics(self) -> dict[str, float]:
        async with self.http.get(f"{self.url}/metrics") as reply:
            lines = (await reply.text()).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def until(self, condition: Any, what: str) -> dict[str, float]:
        deadline_s = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline_s, what
            try:
                known = await self.metrics()
                if condition(known):
                    return known
            except ClientConnectionError:
                pass
            await asyncio.sleep(0.05)


def up(metrics: dict[str, float], role: str) -> int:
    name = f'brtheory_worker_up{{role="{role}"'
    return int(sum(value for key, value in metrics.items() if key.startswith(name)))


def bound(metrics: dict[str, float]) -> float:
    return sum(v for k, v in metrics.items() if k.startswith("brtheory_replica_requests"))


@pytest.mark.slow
@asynchronous_for(300)
async def test_no_part_that_is_killed_hangs_the_others(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    async with AsyncExitStack() as stack:
        starts = [stack.enter_async_context(emulator("--port-base", "0")) for _ in range(3)]
        prompts_only, both, ranks_only = await asyncio.gather(*starts)
        port = free_port()
        mine = proxy(port, [prompts_only, both], [both, ranks_only], history)
        serving = await stack.enter_async_context(mine)
        http = await stack.enter_async_context(ClientSession(timeout=PATIENCE))
        client = Client(f"http://127.0.0.1:{port}", http)
        await client.until(lambda m: up(m, "decode") == 4 and up(m, "prefill") == 2, "start")

        # A prefill node dies with prompts on it: each moves to the other node.
        streams = [asyncio.create_task(client.stream(20)) for _ in range(STREAMS)]
        await asyncio.sleep(0.1)
        await prompts_only.kill()
        for status, text in await asyncio.gather(*streams):
            assert status == 200
            assert text.endswith("data: [DONE]\n\n")
            assert '"error"' not in text
        await client.until(lambda m: up(m, "prefill") == 1, "the dead prefill node is seen")

        # A decode node dies under streams: its own end with an error and [DONE], others go on.
        streams = [asyncio.create_task(client.stream()) for _ in range(STREAMS)]
        await client.until(lambda m: bound(m) == STREAMS, "all are bound")
        await asyncio.sleep(0.3)
        await ranks_only.kill()
        results = await asyncio.gather(*streams)
        cut = ["stream_interrupted" in text for _, text in results]
        assert {status for status, _ in results} == {200}
        assert all(text.endswith("data: [DONE]\n\n") for _, text in results)
        assert 0 < sum(cut) < STREAMS
        for interrupted, (_, text) in zip(cut, results, strict=True):
            assert interrupted or text.count('"text"') >= TOKENS
        known = await client.until(lambda m: up(m, "decode") == 2, "the dead ranks are seen")
        assert bound(known) == 0
        assert (await client.stream(5))[0] == 200

        # The proxy dies under streams: the engines stop, and a new one knows what was learned.
        learned = (await client.metrics())["brtheory_history_requests"]
        assert learned >= STREAMS
        streams = [asyncio.create_task(client.stream()) for _ in range(STREAMS)]
        await client.until(lambda m: bound(m) == STREAMS, "all are bound")
        await asyncio.sleep(0.3)
        await serving.kill()
        ends = await asyncio.gather(*streams, return_exceptions=True)
        assert all(isinstance(end, ClientError) for end in ends)
        truth = both.told["admin"] + "/emulator/truth"
        await engines_empty(http, truth)
        await stack.enter_async_context(proxy(port, [both], [both], history))
        known = await client.until(lambda m: up(m, "decode") == 2, "the new proxy serves")
        assert known["brtheory_history_requests"] >= learned
        assert (await client.stream(5))[0] == 200


@pytest.mark.slow
@asynchronous_for(300)
async def test_parts_that_are_stopped_and_continued_cut_no_stream(tmp_path: Path) -> None:
    """They are taken out and back; what was on them goes on where it was."""
    async with AsyncExitStack() as stack:
        starts = [stack.enter_async_context(emulator("--port-base", "0")) for _ in range(3)]
        prompts_only, both, ranks_only = await asyncio.gather(*starts)
        port = free_port()
        mine = proxy(port, [prompts_only, both], [both, ranks_only], tmp_path / "history.json")
        await stack.enter_async_context(mine)
        http = await stack.enter_async_context(ClientSession(timeout=PATIENCE))
        client = Client(f"http://127.0.0.1:{port}", http)
        await client.until(lambda m: up(m, "decode") == 4 and up(m, "prefill") == 2, "start")
        for stopped, role, others in ((ranks_only, "decode", 2), (prompts_only, "prefill", 1)):
            before = up(await client.metrics(), role)
            streams = [asyncio.create_task(client.stream(200)) for _ in range(STREAMS)]
            await client.until(lambda m: bound(m) > 0, "streams run")
            os.kill(stopped.process.pid, signal.SIGSTOP)
            await client.until(lambda m, o=others, r=role: up(m, r) == o, "the silence is seen")
            assert (await client.stream(5))[0] == 200
            os.kill(stopped.process.pid, signal.SIGCONT)
            for status, text in await asyncio.gather(*streams):
                assert status == 200
                assert '"error"' not in text
                assert text.endswith("data: [DONE]\n\n")
            known = await client.until(lambda m, b=before, r=role: up(m, r) == b, "it is back")
            assert bound(known) == 0


async def engines_empty(http: ClientSession, truth: str) -> None:
    deadline_s = time.monotonic() + 30
    while True:
        async with http.get(truth) as reply:
            document = await reply.json()
        if not sum(document["active"]) + sum(document["waiting"]):
            return
        assert time.monotonic() < deadline_s, document
        await asyncio.sleep(0.05)
