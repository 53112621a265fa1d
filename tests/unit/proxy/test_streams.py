"""Behaviour of streams: nothing hidden, nothing buffered, nothing leaked, bounded memory."""

import asyncio
import json
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web

from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import (
    Engine,
    Stack,
    answer,
    asynchronous,
    asynchronous_for,
    chunk,
    event,
    open_stream,
    raw_stream,
    stack,
    until,
)

DONE = b"data: [DONE]\n\n"


async def settled(s: Stack) -> None:
    """Wait until nothing is held and no engine streams."""
    desk = s.running.proxy.desk
    await until(lambda: books_are_empty(desk))
    await until(lambda: not any(e.streams for e in (*s.prefills, *s.decodes)))


@asynchronous
async def test_an_error_event_before_anything_else_becomes_the_status_it_names() -> None:
    async with stack() as s:
        error = b'{"error":{"message":"too long","code":400}}'
        s.decodes[0].behave = raw_stream(b"data: " + error + b"\n\n", DONE)
        for stream in (True, False):
            status, kind, text = await s.generate(stream=stream)
            assert (status, kind, text) == (400, "application/json", error.decode())
        s.decodes[0].behave = raw_stream(b'data: {"error":{"message":"x","code":"odd"}}\n\n', DONE)
        assert (await s.generate(stream=True))[0] == 502


@asynchronous
async def test_an_error_event_in_the_middle_passes_and_the_stream_still_ends() -> None:
    async with stack() as s:
        parts = (event(chunk({}, 1)), b'data: {"error":{"message":"boom"}}\n\n')
        s.decodes[0].behave = raw_stream(*parts)
        _, _, text = await s.generate(stream=True)
        assert text.encode() == b"".join(parts) + DONE


@asynchronous
async def test_a_stream_is_labelled_as_one_whatever_the_engine_says() -> None:
    async with stack() as s:
        s.decodes[0].behave = raw_stream(event(chunk({}, 1)), DONE, content_type="application/json")
        assert (await s.generate(stream=True))[1] == "text/event-stream; charset=utf-8"


@asynchronous
async def test_bytes_are_forwarded_untouched_when_the_client_asked_for_the_same_usage() -> None:
    body = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    parts = (
        b": hello\n\n",
        b"event: x\r\ndata:"
        + json.dumps({"choices": [{"text": "h\u00e9"}]}).encode()
        + b"\r\n\r\n",
        event(chunk(body, 2)),
        DONE,
    )
    async with stack() as s:
        s.decodes[0].behave = raw_stream(*parts)
        _, _, text = await s.generate(stream=True, **body)
        assert text.encode() == b"".join(parts)


@asynchronous
async def test_every_event_is_flushed_at_once() -> None:
    async with stack() as s:
        s.decodes[0].hold = asyncio.Event()
        url, body = f"{s.url}/v1/completions", {"prompt": "x", "stream": True}
        async with s.http.post(url, json=body) as reply:
            first = await reply.content.readuntil(b"\n\n")
            assert b"t1" in first
            assert s.decodes[0].streams == 1
            s.decodes[0].hold.set()
            assert (await reply.read()).endswith(DONE)
        await settled(s)


@asynchronous
async def test_load_is_held_until_the_stream_has_ended_and_follows_its_tokens() -> None:
    async with stack() as s:
        s.decodes[0].hold = asyncio.Event()
        task = asyncio.create_task(s.generate(prompt="x" * 20, stream=True))
        mirror = s.running.proxy.desk.mirror
        await until(lambda: mirror.loads(["d0"]) == [21])
        s.decodes[0].hold.set()
        await task
        await settled(s)
        assert mirror.replicas["d0"].decoded == 3
        assert await s.metric("brtheory_token_source_total") == 1


@asynchronous
async def test_a_request_cancelled_in_the_pool_is_never_dispatched() -> None:
    async with stack(slots=1) as s:
        s.decodes[0].hold = asyncio.Event()
        first = asyncio.create_task(s.generate(stream=True))
        await until(lambda: s.decodes[0].streams == 1)
        second = asyncio.create_task(s.generate(stream=True))
        await until(lambda: len(s.running.proxy.desk.pool) == 1)
        second.cancel()
        await until(lambda: len(s.running.proxy.desk.pool) == 0)
        s.decodes[0].hold.set()
        await first
        await settled(s)
        assert len(s.decodes[0].seen) == 1
        assert s.running.proxy.desk.prefills.stranded_requests == 1


@asynchronous
async def test_a_client_that_leaves_takes_its_upstream_stream_along() -> None:
    async with stack() as s:
        s.decodes[0].hold = asyncio.Event()
        task = asyncio.create_task(s.generate(stream=True))
        await until(lambda: s.decodes[0].streams == 1)
        task.cancel()
        await settled(s)
        assert await s.metric("brtheory_cancelled_total") == 1


@asynchronous
async def test_cancellation_at_random_times_leaks_nothing() -> None:
    rng = Random(20)
    async with stack("pool.requests=6", "pool.queue=30", prefills=2, decodes=2, slots=3) as s:
        for engine in s.decodes:
            engine.gap_s, engine.tokens = 0.01, 8

        async def one(number: int) -> None:
            await asyncio.sleep(rng.random())
            try:
                async with asyncio.timeout(rng.random() * 0.3):
                    await s.generate(prompt="x" * number, stream=rng.random() < 0.7)
            except TimeoutError:
                return

        await asyncio.gather(*(one(number) for number in range(1, 250)))
        await settled(s)
        assert s.running.front.active == 0
        assert (await s.generate())[0] == 200
        assert s.running.proxy.upstream.open_connections == 0


@pytest.mark.parametrize("streams", [300, pytest.param(2000, marks=pytest.mark.slow)])
@asynchronous_for(240)
async def test_streams_run_at_once_by_the_thousand_and_leave_no_socket_open(streams: int) -> None:
    flags = ("pool.queue=4000", "upstream.health_interval_s=600", "upstream.connect_s=60")
    async with stack(*flags, slots=streams) as s:
        s.decodes[0].hold = asyncio.Event()
        async with ClientSession(connector=TCPConnector(limit=0)) as http:
            crowd = Stack(s.prefills, s.decodes, s.running, http, s.url, s.admin)
            tasks = [asyncio.create_task(crowd.generate(stream=True)) for _ in range(streams)]
            await until(lambda: s.decodes[0].streams == streams, timeout_s=200)
            assert s.running.proxy.upstream.open_connections == streams
            s.decodes[0].hold.set()
            for status, _, text in await asyncio.gather(*tasks):
                assert status == 200
                assert text.endswith("data: [DONE]\n\n")
        await settled(s)
        assert s.running.proxy.upstream.open_connections == 0


@asynchronous
async def test_a_slow_client_stops_the_engine_instead_of_filling_memory() -> None:
    sent = 0
    big = event({"choices": [{"index": 0, "text": "x" * 50_000}]})

    async def flood(engine: Engine, request: web.Request, body: dict[str, Any]) -> Any:
        nonlocal sent
        response = await open_stream(request)
        for _ in range(2000):
            await response.write(big)
            sent += len(big)
        return response

    async with stack("server.client_stall_s=1", decode_behaviour=flood) as s:
        reader, writer = await asyncio.open_connection("127.0.0.1", s.running.port, limit=1024)
        body = b'{"prompt":"x","stream":true}'
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.6)
        # 100 MB were ready; what socket buffers and two small windows take has been sent.
        assert 0 < sent < 20 << 20
        # A client that reads nothing for a second is closed on, and its load given back.
        await settled(s)
        writer.close()


@asynchronous
async def test_an_event_beyond_the_limit_ends_the_stream_with_an_error() -> None:
    async with stack("upstream.max_event_bytes=2048") as s:
        s.decodes[0].behave = raw_stream(event(chunk({}, 1)), b"data: " + b"x" * 5000)
        _, _, text = await s.generate(stream=True)
        assert "stream_interrupted" in text
        assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_chat_requests_work_streamed_and_whole(stream: bool) -> None:
    async with stack() as s:
        messages = [{"role": "user", "content": "hi"}]
        status, _, text = await s.generate("chat/completions", messages=messages, stream=stream)
        assert status == 200
        if stream:
            assert text.count("data: ") == 4
            assert "usage" not in text
        else:
            whole = json.loads(text)
            assert whole["choices"][0]["message"]["content"] == "t1 t2 t3 "
            assert whole["usage"]["completion_tokens"] == 3
            assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 7}


@asynchronous
async def test_answers_no_stream_can_carry_come_whole_and_untouched_but_for_kv() -> None:
    async with stack() as s:
        status, _, text = await s.generate(prompt_logprobs=1, max_tokens=2)
        assert status == 200
        assert json.loads(text)["choices"][0]["text"] == "xx"
        assert "kv_transfer_params" not in text
        assert s.decodes[0].seen[0].body["stream"] is False
        assert s.running.proxy.desk.mirror.replicas["d0"].decoded == 2


@asynchronous
async def test_an_engine_without_usage_is_counted_by_chunks_and_said_so() -> None:
    async with stack("upstream.usage=false") as s:
        await s.generate(stream=True)
        assert s.running.proxy.desk.mirror.replicas["d0"].decoded == 3
        async with s.http.get(f"{s.url}/metrics") as reply:
            assert 'brtheory_token_source_total{source="chunks"} 1.0' in await reply.text()
        assert "stream_options" not in s.decodes[0].seen[0].body


@asynchronous
async def test_a_refused_decode_is_not_hidden_behind_headers() -> None:
    async with stack() as s:
        s.decodes[0].behave = answer(422, '{"error":{"message":"no"}}')
        status, kind, text = await s.generate(stream=True)
        assert (status, kind, text) == (422, "application/json", '{"error":{"message":"no"}}')
        assert books_are_empty(s.running.proxy.desk)


@asynchronous
async def test_http_1_0_clients_get_a_stream_that_ends_with_the_connection() -> None:
    async with stack() as s:
        reader, writer = await asyncio.open_connection("127.0.0.1", s.running.port)
        body = b'{"prompt":"x","stream":true}'
        head = b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        head, _, text = (await reader.read(-1)).partition(b"\r\n\r\n")
        assert b"chunked" not in head.lower()
        assert text.startswith(b"data: {")
        assert text.endswith(b"}\n\n" + DONE)
        writer.close()
        await writer.wait_closed()
