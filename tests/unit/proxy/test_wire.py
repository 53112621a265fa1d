"""The upstream connection: however its bytes are split, the answer is the same."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brtheory.proxy.wire import Answer, BrokenError, Wire

BODY = b"data: one\n\ndata: [DONE]\n\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"b\r\ndata: one\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED
UNSIZED = b"HTTP/1.0 200 OK\r\n\r\n" + BODY


class Pipe(asyncio.Transport):
    """A transport that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.reading = True
        self.aborted = False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


def on_wire(scenario: Callable[[Wire, Pipe], Any]) -> Any:
    """Run a scenario on a connected wire."""

    async def run() -> Any:
        wire, pipe = Wire(asyncio.get_running_loop()), Pipe()
        wire.connection_made(pipe)
        return await scenario(wire, pipe)

    return asyncio.run(run())


async def take(answer: Answer) -> bytes:
    parts: list[bytes] = []
    answer.deliver(parts.append)
    await answer.ended
    return b"".join(parts)


@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("raw", [CHUNKED, SIZED, INTERIM, UNSIZED])
@given(cuts=st.lists(st.integers(1, 150), max_size=8))
@example(cuts=list(range(1, 150)))
def test_the_body_does_not_depend_on_where_reads_end(raw: bytes, cuts: list[int]) -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"POST / HTTP/1.1\r\n\r\n", b"body")
        for a, b in pairwise(sorted({0, *(cut for cut in cuts if cut < len(raw)), len(raw)})):
            wire.data_received(raw[a:b])
        if raw is UNSIZED:
            wire.connection_lost(None)
        answer = await status
        assert (answer.status, await take(answer)) == (200, BODY)
        assert wire.reusable == (raw is not UNSIZED)

    on_wire(scenario)


def test_a_wire_carries_one_answer_after_another() -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        for number in (1, 2, 3):
            status = wire.send(b"head ", b"body")
            assert not wire.reusable
            wire.data_received(CHUNKED)
            assert await take(await status) == BODY
            assert (wire.reusable, wire.served) == (True, number)
        assert pipe.sent == b"head body" * 3

    on_wire(scenario)


@pytest.mark.parametrize("seen", [0, 10, len(CHUNKED) - 20])
def test_a_connection_that_breaks_fails_whatever_is_awaited(seen: int) -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        wire.data_received(CHUNKED[:seen])
        wire.connection_lost(ConnectionResetError("gone"))
        with pytest.raises(BrokenError, match="gone"):
            await (await status).ended
        assert not wire.reusable

    on_wire(scenario)


@pytest.mark.parametrize(
    "raw", [b"SMTP hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
def test_what_is_not_http_breaks_the_answer_and_the_connection(raw: bytes) -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        wire.data_received(raw)
        with pytest.raises(BrokenError, match="not HTTP"):
            await (await status).ended
        assert pipe.aborted

    on_wire(scenario)


def test_bytes_that_nobody_asked_for_close_the_connection() -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        wire.data_received(SIZED)
        assert (wire.open, pipe.aborted) == (False, True)

    on_wire(scenario)


def test_a_second_answer_to_one_request_closes_the_connection() -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        wire.data_received(SIZED + SIZED)
        assert await take(await status) == BODY
        assert not wire.reusable

    on_wire(scenario)


def test_reading_pauses_while_nobody_takes_the_body_and_goes_on_then() -> None:
    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        wire.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000)
        assert not pipe.reading
        taken: list[bytes] = []
        answer = await status
        answer.deliver(taken.append)
        assert pipe.reading
        wire.data_received(b"x" * 100_000)
        await answer.ended
        assert sum(map(len, taken)) == answer.received == 200_000

    on_wire(scenario)


def test_what_the_taker_raises_is_raised_at_once_or_ends_the_answer() -> None:
    def refuse(data: bytes) -> None:
        raise ValueError(data[:4])

    async def scenario(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        wire.data_received(CHUNKED[:-10])
        answer = await status
        with pytest.raises(ValueError, match="data"):
            answer.deliver(refuse)
        assert not answer.ended.done()

    async def later(wire: Wire, pipe: Pipe) -> None:
        status = wire.send(b"", b"")
        head, _, body = CHUNKED.partition(b"\r\n\r\n")
        wire.data_received(head + b"\r\n\r\n")
        answer = await status
        answer.deliver(refuse)
        wire.data_received(body)
        with pytest.raises(ValueError, match="data"):
            await answer.ended
        assert pipe.aborted

    on_wire(scenario)
    on_wire(later)
