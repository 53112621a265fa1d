"""An upstream that is no bottleneck: prepared bytes on a raw protocol, one beat for each replica.

Each port is a prefill node or one decode replica. A replica sends one token to all of its streams
at each beat, as an engine does; each token's text holds the moment it was sent, on the clock all
processes share. Run by the benchmark as ``python -m benchmarks.proxy.upstream``.
"""

import asyncio
import json
import sys
import time
from typing import Any

import httptools
import uvloop

PROMPT_TOKENS = 16
MARK = b"@"
"""Stands before the 16 digits of the nanoseconds at which a token was sent."""
SLACK_BYTES = 1 << 16
"""A stream whose reader is this far behind is passed over for a beat."""
KV = {"do_remote_prefill": True, "remote_engine_id": "e", "remote_block_ids": [1, 2, 3]}


class Replica:
    """The streams of one port, and its beat.

    Parameters
    ----------
    beat_s
        Seconds between two tokens of a stream; 0 sends a stream's tokens as soon as it is there.
    """

    def __init__(self, beat_s: float) -> None:
        self.beat_s = beat_s
        self.streams: set[Connection] = set()

    async def run(self) -> None:
        """Beat for ever; a beat that comes late is not made up for."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while self.beat_s:
            next_s = max(next_s + self.beat_s, loop.time())
            await asyncio.sleep(next_s - loop.time())
            self._send_all()

    def join(self, stream: "Connection") -> None:
        """Take a stream in."""
        self.streams.add(stream)
        while not self.beat_s and stream in self.streams:
            self._send_all()

    def _send_all(self) -> None:
        prepared: dict[tuple[int, bool, bool], bytes] = {}
        mark = b"%s%016d" % (MARK, time.monotonic_ns())
        for stream in list(self.streams):
            if stream.behind():
                continue
            stream.age += 1
            last = stream.age == stream.tokens
            kind = (stream.age, stream.continuous, last)
            if kind not in prepared:
                prepared[kind] = token(mark, stream.age, continuous=stream.continuous, last=last)
            stream.transport.write(prepared[kind])
            if last:
                self.streams.discard(stream)
                stream.finish()


class Connection(asyncio.Protocol):
    """One connection; requests come one after another."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._body: list[bytes] = []
        self._parser: Any = None
        self.transport: Any = None
        self.age, self.tokens = 0, 0
        self.continuous, self.usage = False, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self.transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        del exc
        self._replica.streams.discard(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """A whole request: answer it, or join the beat."""
        raw, self._body = b"".join(self._body), []
        body = json.loads(raw) if raw else {}
        if not body.get("stream"):
            self.transport.write(whole(body))
            return
        options = body.get("stream_options") or {}
        self.continuous = bool(options.get("continuous_usage_stats"))
        self.usage = bool(options.get("include_usage"))
        self.age, self.tokens = 0, body["max_tokens"]
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        self._replica.join(self)

    def behind(self) -> bool:
        """Whether its reader is too slow for another token."""
        return bool(self.transport.get_write_buffer_size() > SLACK_BYTES)

    def finish(self) -> None:
        """The end of a stream."""
        last = b"data: [DONE]\n\n"
        if self.usage:
            document = {"id": "c", "object": "text_completion", "model": "m", "choices": []}
            last = event({**document, "usage": usage_of(self.tokens)}) + last
        self.transport.write(framed(last) + b"0\r\n\r\n")


def token(mark: bytes, age: int, *, continuous: bool, last: bool) -> bytes:
    """The chunk of one token, as vLLM shapes it, framed."""
    choice = {"index": 0, "text": mark.decode(), "logprobs": None}
    choice |= {"finish_reason": "length" if last else None, "stop_reason": None}
    document: dict[str, Any] = {
        "id": "cmpl-6f1c7a90b3d24c0e9b8f",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [choice],
    }
    if continuous:
        document["usage"] = usage_of(age)
    return framed(event(document))


def whole(body: dict[str, Any]) -> bytes:
    """A whole answer, with KV parameters where a prefill asks for them; also for probes."""
    tokens = body.get("max_tokens", 1)
    document: dict[str, Any] = {"id": "c", "object": "text_completion", "model": "m"}
    choice = {"index": 0, "text": "x" * tokens, "finish_reason": "length"}
    document |= {"choices": [choice], "usage": usage_of(tokens), "data": [{"id": "m"}]}
    if body.get("kv_transfer_params"):
        document["kv_transfer_params"] = KV
    text = json.dumps(document).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(text) + text


def usage_of(tokens: int) -> dict[str, int]:
    """The usage object at an age."""
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + tokens,
        "completion_tokens": tokens,
    }


def event(document: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(replicas: int, beat_s: float) -> None:
    """Open ports, print them as a JSON list on one line, and serve until killed."""
    loop, ports, beats = asyncio.get_running_loop(), [], []
    for number in range(replicas):
        replica = Replica(beat_s)
        server = await loop.create_server(
            lambda replica=replica: Connection(replica), "127.0.0.1", 0, backlog=4096
        )
        ports.append(server.sockets[0].getsockname()[1])
        await asyncio.sleep(beat_s / replicas if number else 0)
        beats.append(loop.create_task(replica.run()))
    print(json.dumps(ports), flush=True)
    await asyncio.gather(*beats, asyncio.Event().wait())


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2])))
