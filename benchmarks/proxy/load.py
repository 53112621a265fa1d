"""Clients on a raw protocol: what each request felt, in nanoseconds of the clock all share.

Run by the benchmark as ``python -m benchmarks.proxy.load`` with a plan as JSON on standard input;
prints the figures as JSON.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from benchmarks.proxy.upstream import MARK

SAMPLE = 8
"""Of each so many reads of a stream, one is looked at for its delay."""
PATIENCE_S = 120.0


@dataclass
class Call:
    """One request on a connection of its own or a kept one.

    Attributes
    ----------
    start_ns, first_ns, last_ns
        When it was sent, when the first and the last token came; 0 before.
    tokens
        Tokens that came.
    delays_ns
        From the upstream's sending to the reading here, of some tokens.
    """

    done: asyncio.Future[None]
    start_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    tokens: int = 0
    reads: int = 0
    delays_ns: list[int] = field(default_factory=list)


class Client(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self, *, streaming: bool) -> None:
        self._streaming = streaming
        self._transport: Any = None
        self._rest = b""
        self.call: Call | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = transport

    def send(self, request: bytes, call: Call) -> None:
        """Send a request; ``call.done`` ends with its answer."""
        self.call, self._rest = call, b""
        call.start_ns = time.monotonic_ns()
        self._transport.write(request)

    def close(self) -> None:
        """Disconnect."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        call = self.call
        if call is None or call.done.done():
            return
        if self._streaming:
            self._stream(call, data)
        else:
            self._rest += data
            if _is_whole(self._rest):
                call.first_ns = call.last_ns = time.monotonic_ns()
                call.tokens = 1
                self._end(call, ok=self._rest.startswith(b"HTTP/1.1 200"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone: a call under way has failed."""
        if self.call is not None and not self.call.done.done():
            self.call.done.set_exception(exc or ConnectionError("closed before the end"))

    def _stream(self, call: Call, data: bytes) -> None:
        text = self._rest + data
        found = text.count(MARK)
        if found:
            now_ns = time.monotonic_ns()
            call.first_ns = call.first_ns or now_ns
            call.last_ns = now_ns
            call.tokens += found
            call.reads += 1
            at = text.rfind(MARK) + 1
            if call.reads % SAMPLE == 1 and at + 16 <= len(text):
                call.delays_ns.append(now_ns - int(text[at : at + 16]))
        if b"data: [DONE]" in text:
            self._end(call, ok=True)
        elif not call.tokens and text.startswith(b"HTTP/1.1 ") and text[9:12] != b"200":
            self._end(call, ok=False)
        # A mark or a [DONE] may be cut in two; what was counted must not be counted again.
        self._rest = text[-11:].rpartition(MARK)[2] if MARK in text[-11:] else text[-11:]

    def _end(self, call: Call, *, ok: bool) -> None:
        if ok:
            call.done.set_result(None)
        else:
            call.done.set_exception(ConnectionError(self._rest[:200].decode("latin-1")))


def request_bytes(path: str, body: dict[str, Any]) -> bytes:
    """A POST as bytes."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text


async def ask_in_turn(ports: Sequence[int], *, requests: int) -> list[int]:
    """Small requests one after another; each goes through all ports in turn (the direct way)."""
    clients = [await _connect(port, streaming=False) for port in ports]
    prefill = {"prompt": "hello " * 16, "max_tokens": 1, "model": "m"}
    request = request_bytes("/v1/completions", prefill)
    took = []
    for _ in range(requests):
        start_ns = time.monotonic_ns()
        for client in clients:
            call = Call(asyncio.get_running_loop().create_future())
            client.send(request, call)
            await asyncio.wait_for(call.done, PATIENCE_S)
        took.append(time.monotonic_ns() - start_ns)
    for client in clients:
        client.close()
    return took


async def stream_at_once(
    ports: Sequence[int], *, streams: int, tokens: int, ramp_s: float
) -> list[Call]:
    """Streams that start within ``ramp_s`` on connections of their own, spread over the ports."""
    loop = asyncio.get_running_loop()
    clients = [await _connect(ports[n % len(ports)], streaming=True) for n in range(streams)]
    body = {"prompt": "hello " * 16, "max_tokens": tokens, "stream": True, "model": "m"}
    request = request_bytes("/v1/completions", body)
    calls = []
    for number, client in enumerate(clients):
        call = Call(loop.create_future())
        client.send(request, call)
        calls.append(call)
        if streams > 1 and (number + 1) % 8 == 0:
            await asyncio.sleep(ramp_s * 8 / streams)
    results = await asyncio.wait_for(
        asyncio.gather(*(call.done for call in calls), return_exceptions=True), PATIENCE_S
    )
    for client in clients:
        client.close()
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise ConnectionError(f"{len(failed)} of {streams} streams failed: {failed[0]}")
    return calls


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Carry out a plan: ``ports`` and ``requests``, or ``streams``, ``tokens`` and ``ramp_s``."""
    ports = plan["ports"]
    cpu_s = time.process_time()
    if "requests" in plan:
        took_ns = await ask_in_turn(ports, requests=plan["requests"])
        return both("took", took_ns)
    calls = await stream_at_once(
        ports, streams=plan["streams"], tokens=plan["tokens"], ramp_s=plan["ramp_s"]
    )
    lengths = [(c.last_ns - c.first_ns) / (c.tokens - 1) for c in calls if c.tokens > 1]
    delays_ns = [delay for call in calls for delay in call.delays_ns]
    return {
        **both("ttft", [call.first_ns - call.start_ns for call in calls]),
        **both("tpot", lengths),
        **both("delay", delays_ns),
        "tokens": sum(call.tokens for call in calls),
        "wall_s": (max(c.last_ns for c in calls) - min(c.start_ns for c in calls)) / 1e9,
        "cpu_s": time.process_time() - cpu_s,
    }


def both(name: str, times_ns: Sequence[float]) -> dict[str, float]:
    """Median and fifth percentile in seconds; neighbours on the machine hardly move the second."""
    ordered = sorted(times_ns)
    low = ordered[len(ordered) // 20]
    return {f"{name}_p50_s": statistics.median(ordered) / 1e9, f"{name}_p5_s": low / 1e9}


async def _connect(port: int, *, streaming: bool) -> Client:
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: Client(streaming=streaming), "127.0.0.1", port)
    return client


def _is_whole(text: bytes) -> bool:
    head, found, body = text.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n")


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(json.load(sys.stdin)))))
