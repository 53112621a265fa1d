"""Hostile clients: nothing hangs, nothing leaks, nothing of theirs reaches an engine."""

import asyncio
import json
from contextlib import suppress
from random import Random

import pytest

from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import Stack, asynchronous, stack

PATIENCE_S = 20.0
"""For requests that are whole, so that an answer must come: a busy machine is slow."""
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


def post(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return HEAD + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


BAD_HTTP = [
    b"\x00" * 100,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT elsewhere:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"TRACE /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n",
    HEAD + b"Content-Length: -5\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    HEAD + b"X: y\r\n" * 5000 + b"\r\n",
    HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n{",
]
BAD_BODIES = [
    b"",
    b"null",
    b"[]",
    b"[" * 50_000,
    b'{"a":' * 5_000,
    b"\xff\xfe{}",
    b'{"prompt":"x","max_tokens":1e400}',
    b'{"prompt":"x","max_tokens":' + b"9" * 5000 + b"}",
    b'{"prompt":"x","n":1000000}',
    b'{"prompt":"x","stream":"yes"}',
    b'{"prompt":"x","stream":true,"stream_options":[]}',
    b'{"prompt":["x","y"]}',
    b'{"prompt":"x","kv_transfer_params":{"remote_host":"10.0.0.1"}}',
    b'{"prompt":"x","vllm_xargs":{"kv_transfer_params":{}}}',
    b'{"prompt":"x","data_parallel_rank":1}',
    b'{"prompt":NaN}',
]


async def send(s: Stack, raw: bytes, *, patience_s: float = 0.4) -> bytes:
    """What comes back; the client closes its side of a request that may never end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", s.running.port)
    try:
        with suppress(ConnectionError, TimeoutError):
            writer.write(raw)
            await writer.drain()
            async with asyncio.timeout(patience_s):
                return await reader.read(1 << 16)
        return b""
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def is_unharmed(s: Stack) -> None:
    seen = len(s.prefills[0].seen)
    assert (await s.generate())[0] == 200
    assert seen + 1 == len(s.prefills[0].seen)
    assert books_are_empty(s.running.proxy.desk)
    assert s.running.front.active == 0


@asynchronous
async def test_broken_http_gets_an_error_or_nothing_and_harms_nobody() -> None:
    async with stack() as s:
        for raw in BAD_HTTP:
            answer = (await send(s, raw)).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert not answer or answer.split(b" ")[1][:1] == b"4", (raw[:60], answer[:60])
        assert not s.prefills[0].seen
        await is_unharmed(s)


@asynchronous
async def test_broken_bodies_are_the_clients_error_and_reach_no_engine() -> None:
    async with stack() as s:
        for body in BAD_BODIES:
            answer = await send(s, post(body), patience_s=PATIENCE_S)
            assert answer.startswith(b"HTTP/1.1 400"), (body[:60], answer[:200])
            error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
            assert error["type"] == "invalid_request_error"
            assert "\n" not in error["message"]
        assert not s.prefills[0].seen
        await is_unharmed(s)


@asynchronous
async def test_headers_of_clients_cannot_choose_ranks_or_inject_anything() -> None:
    async with stack() as s:
        answer = await send(
            s,
            post(
                b'{"prompt":"x"}',
                b"X-data-parallel-rank: 3",
                b"X-Request-Id: a b\xe9;<script>" + b"y" * 500,
                b"Connection: close",
                b"Cookie: a=b",
                b"X-Forwarded-For: 1.2.3.4",
            ),
            patience_s=PATIENCE_S,
        )
        assert answer.startswith(b"HTTP/1.1 200")
        for seen in (s.prefills[0].seen[0], s.decodes[0].seen[0]):
            names = {name.lower() for name in seen.headers}
            assert not names & {"x-data-parallel-rank", "cookie", "x-forwarded-for"}
            request_id = seen.headers["X-Request-Id"]
            assert len(request_id) < 100
            assert request_id.replace("-", "").isalnum()


@asynchronous
async def test_connections_that_never_ask_anything_are_cut() -> None:
    async with stack("server.body_s=0.3", "server.client_stall_s=0.4") as s:
        quiet, slow = [await asyncio.open_connection("127.0.0.1", s.running.port) for _ in range(2)]
        slow[1].write(HEAD)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await quiet[0].read() == b""
            with suppress(ConnectionError):
                assert await slow[0].read() == b""
        for _, writer in (quiet, slow):
            writer.transport.abort()
        await is_unharmed(s)


@pytest.mark.parametrize("seed", range(3))
@asynchronous
async def test_random_bytes_and_sudden_ends_harm_nobody(seed: int) -> None:
    rng = Random(seed)
    async with stack() as s:
        good = post(b'{"prompt":"x","stream":true}')

        async def one() -> None:
            raw = bytearray(good)
            for _ in range(rng.randrange(4)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
            _, writer = await asyncio.open_connection("127.0.0.1", s.running.port)
            writer.write(bytes(raw[: rng.randrange(len(raw) + 1)]))
            with suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(rng.random() * 0.05)
            writer.transport.abort()

        await asyncio.gather(*(one() for _ in range(100)))
        async with asyncio.timeout(10):
            while s.running.front.active:
                await asyncio.sleep(0.01)
        await is_unharmed(s)
