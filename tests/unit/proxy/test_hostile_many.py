"""Hostile peers in numbers: drip-feeding, half-open connections, engines that send garbage."""

import asyncio
import errno
import json
import socket
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession

from brtheory.proxy.serving import MOST_OPERATORS
from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import (
    Engine,
    Stack,
    answer,
    asynchronous,
    chunk,
    event,
    raw_stream,
    stack,
    until,
)
from tests.unit.proxy.test_hostile import HEAD, is_unharmed

GARBAGE = [
    b"\x00\xff\xfe" * 2000,
    b"data: {\n\n",
    b"data: " + b"[" * 20_000 + b"\n\n",
    b"data: \xff\xfe\xfd\n\n",
    b'data: {"choices":[{"index":"x","text":{}}],"usage":{"completion_tokens":-5}}\n\n',
    b'data: {"choices":[{"index":0,"text":"x"}],"usage":{"completion_tokens":1e99}}\n\n',
    b'data: {"choices":null,"usage":[]}\n\n',
    b'data: {"usage":{"completion_tokens":99999999999999999999}}\n\n',
    b"event: error\ndata: nothing\n\n",
    b"data: [DONE]\n\ndata: [DONE]\n\n",
    b"\r\r\r\n\n\n:\n\n",
]


@asynchronous
async def test_headers_and_bodies_fed_drop_by_drop_are_cut_after_the_time_for_a_body() -> None:
    async with stack("server.body_s=0.4", "server.client_stall_s=0.4") as s:

        async def drip(start: bytes, drops: bytes) -> float:
            began_s = asyncio.get_running_loop().time()
            reader, writer = await asyncio.open_connection("127.0.0.1", s.running.port)
            writer.write(start)
            with suppress(ConnectionError):
                for drop in drops:
                    writer.write(bytes([drop]))
                    await writer.drain()
                    await asyncio.sleep(0.05)
                    if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]  # peek
                        break
            writer.transport.abort()
            return asyncio.get_running_loop().time() - began_s

        took_s = await asyncio.gather(
            *(drip(HEAD, b"X: " + b"y" * 200) for _ in range(5)),
            *(drip(HEAD + b"Content-Length: 300\r\n\r\n", b" " * 200) for _ in range(5)),
            *(
                drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 40)
                for _ in "12345"
            ),
        )
        # 200 drops would have taken 10 s.
        assert max(took_s) < 5
        await is_unharmed(s)


@asynchronous
async def test_hundreds_of_half_open_connections_shut_nobody_out() -> None:
    async with stack("server.body_s=0.5") as s:
        opened = [await asyncio.open_connection("127.0.0.1", s.running.port) for _ in range(300)]
        for number, (_, writer) in enumerate(opened):
            writer.write(HEAD[: number % len(HEAD)])
        assert (await s.generate())[0] == 200
        # The one kept open is the test's own client.
        await until(lambda: open_connections(s) <= 1)
        for _, writer in opened:
            writer.transport.abort()
        await is_unharmed(s)


@asynchronous
async def test_more_connections_than_allowed_make_room_and_shut_nobody_out() -> None:
    """Streams go on, health and requests are answered, the oldest idle ones are cut."""
    async with stack("server.max_connections=20", decodes=2) as s:
        for engine in s.decodes:
            engine.hold = asyncio.Event()
        streams = [asyncio.create_task(s.generate(stream=True)) for _ in range(10)]
        await until(lambda: sum(engine.streams for engine in s.decodes) == 10)
        opened = [await asyncio.open_connection("127.0.0.1", s.running.port) for _ in range(100)]
        async with ClientSession() as fresh:
            for path in ("health", "ready", "metrics", "v1/models"):
                async with fresh.get(f"{s.url}/{path}") as reply:
                    assert reply.status == 200
            more = asyncio.create_task(s.generate(stream=True))
            await until(lambda: sum(engine.streams for engine in s.decodes) == 11)
        assert open_connections(s) <= 21
        assert await s.metric("brtheory_connections_cut_total") >= 90
        for engine in s.decodes:
            assert engine.hold is not None
            engine.hold.set()
        for status, _, text in await asyncio.gather(*streams, more):
            assert status == 200
            assert "error" not in text
        for _, writer in opened:
            writer.transport.abort()
        await is_unharmed(s)


@asynchronous
async def test_when_all_connections_carry_streams_the_next_request_is_told_to_wait() -> None:
    async with stack("server.max_connections=3") as s, ClientSession() as fresh:
        s.decodes[0].hold = asyncio.Event()
        streams = [asyncio.create_task(s.generate(stream=True)) for _ in range(3)]
        await until(lambda: s.decodes[0].streams == 3)
        async with fresh.post(f"{s.url}/v1/completions", json={"prompt": "x"}) as reply:
            assert reply.status == 503
            assert reply.headers["Retry-After"] == "1"
        async with fresh.get(f"{s.url}/health") as reply:
            assert reply.status == 200
        s.decodes[0].hold.set()
        assert [status for status, _, _ in await asyncio.gather(*streams)] == [200] * 3


@asynchronous
async def test_operators_get_through_whatever_is_opened_to_their_address() -> None:
    async with stack("server.body_s=1") as s:
        opened = [
            await asyncio.open_connection("127.0.0.1", s.running.admin_port)
            for _ in range(MOST_OPERATORS + 50)
        ]
        async with s.http.get(f"{s.admin}/admin/state") as reply:
            assert reply.status == 200
        async with asyncio.timeout(10):
            for reader, _ in opened:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
        for _, writer in opened:
            writer.transport.abort()


@asynchronous
async def test_when_no_file_can_be_opened_the_nodes_are_not_at_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Legs fail and probes say nothing; with files again, the nodes were never down."""
    async with stack("upstream.keepalive_s=0.01") as s:
        assert (await s.generate())[0] == 200
        await asyncio.sleep(0.05)

        async def none_left(*_: Any, sock: socket.socket | None = None, **__: Any) -> None:
            if sock is not None:
                sock.close()
            raise OSError(errno.EMFILE, "Too many open files")

        # The client's own connection is open already.
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "create_connection", none_left)
            statuses = {(await s.generate())[0] for _ in range(6)}
            await asyncio.sleep(0.5)
            assert statuses == {502}
        assert all(not w.health.changes for w in s.running.proxy.desk.fleet.workers.values())
        assert (await s.generate())[0] == 200


@pytest.mark.parametrize("number", range(len(GARBAGE)))
@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_garbage_from_an_engine_ends_in_an_answer_and_empty_books(
    number: int, stream: bool
) -> None:
    async with stack("upstream.max_event_bytes=8192") as s:
        first = event(chunk({}, 1)) if number % 2 else b""
        s.decodes[0].behave = raw_stream(first, GARBAGE[number])
        body = {"prompt": "hello", "stream": stream}
        async with asyncio.timeout(10), s.http.post(f"{s.url}/v1/completions", json=body) as reply:
            status, raw = reply.status, await reply.read()
        assert status in (200, 502)
        if status == 200 and stream:
            assert raw.endswith(b"data: [DONE]\n\n")
        else:
            json.loads(raw)
        await until(lambda: books_are_empty(s.running.proxy.desk))
        loads = s.running.proxy.desk.mirror.replicas["d0"]
        assert (loads.tokens, loads.bound) == (0, 0)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[1]", b"\xff", b"{" * 5000, b'{"usage":{"prompt_tokens":"many"}}']
)
@asynchronous
async def test_a_prefill_node_that_answers_garbage_is_the_nodes_fault(body: bytes) -> None:
    async with stack() as s:
        s.prefills[0].behave = answer(200, body.decode("latin-1"))
        status, _, text = await s.generate()
        assert status == 502
        assert json.loads(text)["error"]["code"] == "prefill_failed"
        assert books_are_empty(s.running.proxy.desk)


@pytest.mark.slow
@asynchronous
async def test_a_thousand_random_cancellations_in_every_phase_leak_nothing() -> None:
    rng = Random(1000)
    flags = ("pool.requests=8", "pool.queue=200")
    async with stack(*flags, prefills=2, decodes=2, slots=6) as s:
        for engine in s.decodes:
            engine.gap_s, engine.tokens = 0.004, 8
        left = 0

        async def one(number: int) -> None:
            nonlocal left
            await asyncio.sleep(rng.random() * 4)
            try:
                async with asyncio.timeout(rng.random() * 0.15):
                    await s.generate(prompt="x" * (1 + number % 50), stream=rng.random() < 0.7)
            except TimeoutError:
                left += 1

        await asyncio.gather(*(one(number) for number in range(1000)))
        assert left > 300
        proxy = s.running.proxy
        await until(lambda: s.running.front.active == 0)
        await until(lambda: books_are_empty(proxy.desk) and not proxy.upstream.open_connections)
        await is_empty_on_engines(s)
        assert (await s.generate())[0] == 200


def open_connections(s: Stack) -> float:
    """Of clients, as the metrics say."""
    (metric,) = (
        metric
        for metric in s.running.proxy.telemetry.registry.collect()
        if metric.name == "brtheory_connections"
    )
    return metric.samples[0].value


async def is_empty_on_engines(s: Stack) -> None:
    engines: list[Engine] = [*s.prefills, *s.decodes]
    await until(lambda: all(engine.streams == 0 for engine in engines))
