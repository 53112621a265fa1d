"""The proxy on the emulated decode group, whose truth it must mirror."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector

from brtheory.emulator.config import EmulatorConfig, PrefillSpeed
from brtheory.emulator.emulator import Emulator
from brtheory.emulator.faults import FaultRule
from brtheory.emulator.truth import truth_document
from brtheory.proxy.config import load_settings
from brtheory.proxy.serving import start
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import Stack, asynchronous, until

FAST = PrefillSpeed(tokens_per_s=1e6, overhead_s=0.001)


class Emulated(Stack):
    """A stack whose engines are an emulator."""

    emulator: Emulator

    @property
    def truth(self) -> dict[str, Any]:
        return truth_document(self.emulator.deployment)

    @property
    def names(self) -> list[str]:
        """Replicas in the order of their ranks."""
        return list(self.running.proxy.desk.mirror.replicas)


def settings_for(emulator: Emulator, *flags: str) -> list[str]:
    """Flags that put the proxy before an emulator."""
    where, config = emulator.addresses(), emulator.config
    prefill, decode = [], []
    for node in where["prefill"]:
        bootstrap = f', bootstrap_url = "{node["bootstrap"]}"' if node["bootstrap"] else ""
        prefill.append(f'{{name = "{node["name"]}", url = "{node["url"]}"{bootstrap}}}')
    for node in where["decode"]:
        ranks = f", ranks = {node['ranks']}" if len(node["ranks"]) > 1 else ""
        if config.counts_own_ranks:
            ranks += f", first_rank = {node['ranks'][0]}"
        slots = config.shape.slots
        decode.append(f'{{name = "{node["name"]}", url = "{node["url"]}", slots = {slots}{ranks}}}')
    return [
        "server.port=0",
        "admin.port=0",
        "log.requests=false",
        "upstream.health_interval_s=0.1",
        f"connector.name={config.connector}",
        f"prefill=[{', '.join(prefill)}]",
        f"decode=[{', '.join(decode)}]",
        *flags,
    ]


@asynccontextmanager
async def emulated(*flags: str, **config: Any) -> AsyncIterator[Emulated]:
    """An emulator with the proxy before it, all ranks live."""
    shape = config.pop("shape", ClusterShape(4, 8, 1_000_000))
    options = {"step_time": StepTime(a0=0, b0=0.005), "prefill_speed": FAST, **config}
    async with Emulator(EmulatorConfig(shape=shape, **options)) as emulator:
        settings = load_settings(None, environment={}, flags=settings_for(emulator, *flags))
        running = await start(settings)
        try:
            async with ClientSession(connector=TCPConnector(limit=0)) as http:
                url = f"http://127.0.0.1:{running.port}"
                stack = Emulated([], [], running, http, url, "")
                stack.emulator = emulator
                live = running.proxy.desk.fleet.live
                await until(lambda: len(live("decode")) == shape.replicas)
                yield stack
        finally:
            await running.stop(drain_s=10.0)


async def nothing_is_left(s: Emulated) -> None:
    """Books, engines and sockets are empty."""
    await until(lambda: books_are_empty(s.running.proxy.desk), timeout_s=20)
    await until(lambda: sum(s.truth["active"]) + sum(s.truth["waiting"]) == 0, timeout_s=20)
    await until(lambda: s.running.proxy.upstream.open_connections == 0, timeout_s=20)


@pytest.mark.parametrize("connector", ["nixl", "mooncake-ascend", "mooncake", "none"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@asynchronous
async def test_every_connector_and_topology_serves_without_recomputing_a_prompt(
    connector: str, ranks: int
) -> None:
    prefill = 0 if connector == "none" else 2
    async with emulated(connector=connector, ranks_per_endpoint=ranks, prefill=prefill) as s:
        probes = s.truth["completed"]  # the ranks were asked for a token each
        body = {"model": "emulated", "max_tokens": 6, "ignore_eos": True}
        jobs = [
            s.generate(prompt="word " * (5 + number), stream=number % 2 == 0, **body)
            for number in range(40)
        ]
        for status, kind, text in await asyncio.gather(*jobs):
            assert status == 200, text
            if kind == "application/json":
                assert json.loads(text)["usage"]["completion_tokens"] == 6
            else:
                assert text.endswith("data: [DONE]\n\n")
                assert "usage" not in text
                assert "kv_transfer_params" not in text
        await nothing_is_left(s)
        assert s.truth["completed"] - probes == 40
        # Every prompt was fetched from where it had been prefilled; with probes apart.
        if connector != "none":
            assert s.truth["kv"].get("recomputed", 0) <= probes
        decoded = sum(b.decoded for b in s.running.proxy.desk.mirror.replicas.values())
        assert decoded == 40 * 6


@pytest.mark.parametrize(("burst", "chunk"), [(1, 1), (4, 1), (1, 3), (4, 3)])
@pytest.mark.parametrize("router", ["br0", "brh", "least-tokens"])
@asynchronous
async def test_the_mirror_equals_the_truth_within_the_last_chunk(
    router: str, burst: int, chunk: int
) -> None:
    config = {"burst": burst, "tokens_per_chunk": chunk, "step_time": StepTime(a0=0, b0=0.04)}
    async with emulated(f"router.name={router}", **config) as s:
        body = {"model": "emulated", "max_tokens": 40 * burst, "ignore_eos": True, "stream": True}
        tasks = [
            asyncio.create_task(s.generate(prompt="word " * (1 + 7 * number), **body))
            for number in range(24)
        ]
        await until(lambda: sum(s.truth["active"]) == 24)
        mirror, seen = s.running.proxy.desk.mirror, 0
        while sum(s.truth["active"]) == 24 and seen < 10:
            await asyncio.sleep(0.03)
            truth, mine = s.truth, mirror.loads(s.names)
            if sum(truth["active"]) < 24:
                break
            # What a rank has emitted and the proxy not seen: at most what gathers for a chunk,
            # and the chunk of the step just run, for each request.
            late = chunk + 2 * burst
            for load, true, active in zip(mine, truth["loads"], truth["active"], strict=True):
                assert 0 <= true - load <= late * active, (mine, truth["loads"])
            seen += 1
        assert seen >= 3
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
        await nothing_is_left(s)


@asynchronous
async def test_random_cancellations_leave_nothing_behind_anywhere() -> None:
    rng = Random(7)
    async with emulated("pool.requests=12", "pool.queue=400", shape=ClusterShape(2, 4)) as s:

        async def one(number: int) -> None:
            await asyncio.sleep(rng.random() * 2)
            try:
                async with asyncio.timeout(rng.random() * 0.5):
                    await s.generate(
                        prompt="word " * (1 + number % 50),
                        model="emulated",
                        max_tokens=30,
                        stream=rng.random() < 0.7,
                    )
            except TimeoutError:
                return

        await asyncio.gather(*(one(number) for number in range(300)))
        await nothing_is_left(s)
        assert (await s.generate(model="emulated", max_tokens=2))[0] == 200


@asynchronous
async def test_a_dead_decode_node_cuts_its_streams_openly_and_the_others_go_on() -> None:
    async with emulated(step_time=StepTime(a0=0, b0=0.02)) as s:
        body = {"model": "emulated", "max_tokens": 40, "ignore_eos": True, "stream": True}
        tasks = [asyncio.create_task(s.generate(**body)) for _ in range(16)]
        await until(lambda: sum(s.truth["active"]) == 16)
        await asyncio.sleep(0.1)
        await s.emulator.kill("decode-1")
        texts = [text for _, _, text in await asyncio.gather(*tasks)]
        assert all(text.endswith("data: [DONE]\n\n") for text in texts)
        assert 0 < sum("stream_interrupted" in text for text in texts) < 16
        for _ in range(8):
            assert (await s.generate(model="emulated", max_tokens=2))[0] == 200
        await until(lambda: len(s.running.proxy.desk.fleet.live("decode")) == 3)
        await until(lambda: books_are_empty(s.running.proxy.desk))


@asynchronous
async def test_draining_under_load_cuts_not_one_stream() -> None:
    async with emulated(shape=ClusterShape(2, 4)) as s:
        body = {"model": "emulated", "max_tokens": 30, "ignore_eos": True, "stream": True}
        tasks = [asyncio.create_task(s.generate(**body)) for _ in range(30)]
        await until(lambda: sum(s.truth["active"]) == 8)
        assert await s.running.stop(drain_s=30)
        for status, _, text in await asyncio.gather(*tasks):
            assert status == 200
            assert text.count('"text"') == 30
            assert text.endswith("data: [DONE]\n\n")


# -- faults on demand ----------------------------------------------------------------------------


def text_of(stream: str) -> str:
    """The text a completion stream has said."""
    documents = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(d["choices"][0]["text"] for d in documents if d.get("choices"))


LONG = "tell me something that has more than sixteen bytes"
"""The emulator's words depend on the first 16 bytes of a prompt."""


async def say(s: Emulated, **body: Any) -> str:
    fields = {"prompt": "tell me", "model": "emulated", "max_tokens": 20, "ignore_eos": True}
    status, _, text = await s.generate(**{**fields, "stream": True, **body})
    assert status == 200, text
    return text


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
@asynchronous
async def test_a_preempted_answer_reads_as_if_nothing_had_happened(path: str) -> None:
    async with emulated(connector="mooncake-ascend") as s:
        chat = {"messages": [{"role": "user", "content": LONG}]} if "chat" in path else {}
        body = {"path": path, "stream_options": {"include_usage": True}, **chat}
        fields = {} if chat else {"prompt": LONG}
        limits = {"model": "emulated", "max_tokens": 20, "ignore_eos": True, "stream": True}
        s.emulator.deployment.faults.add(
            FaultRule(kind="recomputed", role="decode", after_tokens=7)
        )
        _, _, broken = await s.generate(**fields, **limits, **body)
        _, _, whole = await s.generate(**fields, **limits, **body)

        def content(stream: str) -> str:
            found = [json.loads(x[6:]) for x in stream.splitlines() if x.startswith("data: {")]
            return "".join(
                c.get("text") or (c.get("delta") or {}).get("content") or ""
                for d in found
                for c in d["choices"]
            )

        def ids(stream: str) -> set[str]:
            return {json.loads(x[6:])["id"] for x in stream.splitlines() if "{" in x}

        def usage(stream: str) -> Any:
            return [json.loads(x[6:]) for x in stream.splitlines() if '"usage"' in x][-1]["usage"]

        assert await s.metric("brtheory_recomputed_total") == 1
        assert len(ids(broken)) == 1
        assert usage(broken)["completion_tokens"] == usage(whole)["completion_tokens"] == 20
        if not chat:  # a chat's template puts the text so far elsewhere, so its words may differ
            assert content(broken) == content(whole)
            assert usage(broken)["prompt_tokens"] == usage(whole)["prompt_tokens"]
        await nothing_is_left(s)


@asynchronous
async def test_odd_framing_says_the_same_as_plain_framing() -> None:
    async with emulated() as s:
        plain = await say(s)
        s.emulator.deployment.faults.add(FaultRule(kind="odd_framing", role="decode"))
        odd = await say(s)
        assert text_of(plain) != ""
        documents = [line.split(":", 1)[1] for line in odd.splitlines() if line[:4] == "data"]
        words = [json.loads(d) for d in documents if "{" in d]
        assert "".join(w["choices"][0]["text"] for w in words if w["choices"]) == text_of(plain)
        assert "usage" not in odd
        await nothing_is_left(s)


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ({"kind": "death", "after_tokens": 3}, "stream_interrupted"),
        ({"kind": "truncate", "after_tokens": 3}, "stream_interrupted"),
        ({"kind": "error_event", "after_tokens": 3}, '"error"'),
        ({"kind": "stall", "after_tokens": 3}, "stream_interrupted"),
    ],
)
@asynchronous
async def test_streams_that_end_badly_say_so_and_are_not_repeated(
    rule: dict[str, Any], seen: str
) -> None:
    async with emulated("upstream.idle_s=0.4") as s:
        s.emulator.deployment.faults.add(FaultRule(role="decode", **rule))
        text = await say(s)
        assert seen in text
        assert text.endswith("data: [DONE]\n\n")
        assert 0 < len(text_of(text)) < 20 * 8
        await nothing_is_left(s)
        assert s.truth["submitted"] <= 1


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "empty", "role": "decode"},
        {"kind": "reset", "role": "decode"},
        {"kind": "status", "role": "decode", "status": 503},
        {"kind": "reset", "role": "prefill"},
        {"kind": "status", "role": "prefill", "status": 502},
        {"kind": "slow_start", "role": "decode", "delay_s": 0.2},
        {"kind": "reset_reused"},
        {"kind": "no_kv_params", "role": "prefill", "times": None},
    ],
)
@asynchronous
async def test_faults_before_the_first_byte_are_not_seen_by_clients(rule: dict[str, Any]) -> None:
    async with emulated("connector.on_missing=continue") as s:
        plain = await say(s)
        s.emulator.deployment.faults.add(FaultRule(**rule))
        for _ in range(3):
            assert text_of(await say(s)) == text_of(plain)
        await nothing_is_left(s)


@pytest.mark.parametrize("router", ["br0", "jsq"])
@asynchronous
async def test_what_is_prefilled_finds_a_slot_within_the_lease(router: str) -> None:
    """Two slots, answers of 0.4 s, a lease of 3 s: 24 prompts computed at once would lose KV."""
    shape, flags = ClusterShape(1, 2, 1_000_000), ("connector.lease_s=3", f"router.name={router}")
    async with emulated(*flags, shape=shape, lease_s=3) as s:
        jobs = [s.generate(model="emulated", max_tokens=80, ignore_eos=True) for _ in range(24)]
        assert {status for status, _, _ in await asyncio.gather(*jobs)} == {200}
        assert s.truth["kv"].get("recomputed", 0) == 0
        assert await s.metric("brtheory_kv_expired_total") == 0
