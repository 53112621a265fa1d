"""Small engines for tests: prefill nodes and decode ranks that misbehave when told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from aiohttp import ClientSession, web

from brtheory.proxy.config import load_settings
from brtheory.proxy.serving import Running, start

Behaviour = Callable[["Engine", web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]

KV = {"do_remote_prefill": True, "remote_block_ids": [1, 2], "remote_host": "h", "x": {"y": None}}


@dataclass
class Seen:
    """A request an engine has got."""

    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class Engine:
    """A server that plays a prefill node and a decode rank.

    Attributes
    ----------
    behave
        Answers generations; scripted answers in ``script`` come first.
    seen
        What it got.
    tokens
        Length of its answers.
    gap_s
        Time between two chunks.
    """

    behave: Behaviour
    tokens: int = 3
    gap_s: float = 0.0
    healthy: bool = True
    metrics: str = ""
    metrics_reads: int = 0
    script: list[Behaviour] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    hold: asyncio.Event | None = None
    streams: int = 0
    peak_streams: int = 0
    url: str = ""
    runner: web.AppRunner | None = None

    async def start(self, *, keepalive_s: float = 5.0) -> None:
        app = web.Application(client_max_size=1 << 26)
        for path in ("/v1/completions", "/v1/chat/completions"):
            app.router.add_post(path, self._generate)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/query", self._query)
        app.router.add_get("/v1/models", self._models)
        self.runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=keepalive_s,
            shutdown_timeout=0.1,
        )
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = site.name

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    @property
    def connections(self) -> int:
        """Connections open to it now."""
        assert self.runner is not None
        assert self.runner.server is not None
        return len(self.runner.server.connections)

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.seen.append(Seen(body, request.headers))
        behave = self.script.pop(0) if self.script else self.behave
        self.streams += 1
        self.peak_streams = max(self.peak_streams, self.streams)
        try:
            return await behave(self, request, body)
        finally:
            self.streams -= 1

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        self.metrics_reads += 1
        return web.Response(text=self.metrics)

    async def _query(self, request: web.Request) -> web.Response:
        return web.json_response({"0": {"engine_id": "e0"}, "1": {"engine_id": "e1"}})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})


def prompt_tokens(body: dict[str, Any]) -> int:
    """One token a character."""
    prompt = body.get("prompt")
    return len(prompt if isinstance(prompt, str) else json.dumps(body.get("messages", [])))


async def prefill(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.Response:
    """A prefill answer with KV parameters."""
    usage = {
        "prompt_tokens": prompt_tokens(body),
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 7},
    }
    document = {"id": "p", "choices": [{"index": 0, "text": "t"}], "usage": usage}
    return web.json_response({**document, "kv_transfer_params": KV})


async def decode(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """A stream of ``engine.tokens`` tokens, with usage as far as it is asked for."""
    tokens = min(engine.tokens, body.get("max_tokens") or 10**9)
    if not body.get("stream"):
        usage = {"prompt_tokens": prompt_tokens(body), "completion_tokens": tokens}
        choice = {"index": 0, "text": "x" * tokens, "finish_reason": "length"}
        return web.json_response(
            {"id": "c", "choices": [choice], "usage": usage, "kv_transfer_params": None}
        )
    response = await open_stream(request)
    for number in range(1, tokens + 1):
        await response.write(event(chunk(body, number, last=number == tokens)))
        if engine.hold is not None:
            await engine.hold.wait()
        if engine.gap_s:
            await asyncio.sleep(engine.gap_s)
    await finish_stream(response, body, tokens)
    return response


async def open_stream(
    request: web.Request, content_type: str = "text/event-stream"
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    return response


async def finish_stream(response: web.StreamResponse, body: dict[str, Any], tokens: int) -> None:
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {
            "prompt_tokens": prompt_tokens(body),
            "completion_tokens": tokens,
            "prompt_tokens_details": {"cached_tokens": 99},
        }
        await response.write(event({"id": "c", "choices": [], "usage": usage}))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()


def chunk(body: dict[str, Any], number: int, *, last: bool = False) -> dict[str, Any]:
    text = f"t{number} "
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if last else None}
    choice |= {"delta": {"content": text}} if "messages" in body else {"text": text}
    document = {"id": "c", "object": "o", "choices": [choice]}
    if (body.get("stream_options") or {}).get("continuous_usage_stats"):
        document["usage"] = {
            "prompt_tokens": prompt_tokens(body),
            "completion_tokens": number,
            "total_tokens": prompt_tokens(body) + number,
        }
    return document


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def answer(status: int, text: str, content_type: str = "application/json") -> Behaviour:
    """Always this answer."""

    async def behave(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.Response:
        headers = {"Content-Type": content_type, "Retry-After": "7"}
        return web.Response(status=status, body=text.encode(), headers=headers)

    return behave


def raw_stream(
    *parts: bytes, cut: bool = False, content_type: str = "text/event-stream"
) -> Behaviour:
    """These bytes as a stream; ``cut`` drops the connection instead of ending it."""

    async def behave(
        engine: Engine, request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse:
        response = await open_stream(request, content_type)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0.005)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write_eof()
        return response

    return behave


async def reset(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Drop the connection before answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stall(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Never answer."""
    await asyncio.sleep(3600)
    return web.Response()


@dataclass
class Stack:
    """Engines, a proxy before them, and a client."""

    prefills: list[Engine]
    decodes: list[Engine]
    running: Running
    http: ClientSession
    url: str
    admin: str

    async def generate(self, path: str = "completions", **body: Any) -> tuple[int, Any, str]:
        """Status, content type, text."""
        fields = {"prompt": "hello"} if path == "completions" else {}
        async with self.http.post(f"{self.url}/v1/{path}", json={**fields, **body}) as reply:
            return reply.status, reply.headers.get("Content-Type"), await reply.text()

    async def metric(self, name: str) -> float:
        """Sum of a metric's samples."""
        async with self.http.get(f"{self.url}/metrics") as reply:
            lines = (await reply.text()).splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name
        )


@asynccontextmanager
async def stack(
    *flags: str,
    prefills: int = 1,
    decodes: int = 1,
    slots: int = 8,
    connector: str = "nixl",
    ranks: list[int] | None = None,
    decode_behaviour: Behaviour = decode,
) -> AsyncIterator[Stack]:
    """A running stack; its books must be empty at the end."""
    mine = [Engine(prefill) for _ in range(prefills if connector != "none" else 0)]
    theirs = [Engine(decode_behaviour) for _ in range(decodes)]
    for engine in (*mine, *theirs):
        await engine.start()
    settings = load_settings(
        None,
        environment={},
        flags=[
            "server.port=0",
            "admin.port=0",
            "log.requests=false",
            f"connector.name={connector}",
            "upstream.health_interval_s=0.1",
            "upstream.fall_after=2",
            "upstream.rise_after=1",
            "upstream.poll_metrics=false",
            "prefill=" + _tables(mine, "p", ', bootstrap_url = "{url}"'),
            "decode=" + _tables(theirs, "d", f", slots = {slots}" + _ranks(ranks)),
            *flags,
        ],
    )
    running = await start(settings)
    url = f"http://127.0.0.1:{running.port}"
    try:
        async with ClientSession() as http:
            yield Stack(mine, theirs, running, http, url, f"http://127.0.0.1:{running.admin_port}")
    finally:
        await running.stop(drain_s=5.0)
        for engine in (*mine, *theirs):
            await engine.stop()


def _tables(engines: list[Engine], letter: str, more: str) -> str:
    tables = [
        f'{{name = "{letter}{number}", url = "{engine.url}"{more.replace("{url}", engine.url)}}}'
        for number, engine in enumerate(engines)
    ]
    return "[" + ", ".join(tables) + "]"


def _ranks(ranks: list[int] | None) -> str:
    return "" if ranks is None else f", ranks = {ranks}"


AsyncTest = Callable[..., Awaitable[None]]


def asynchronous_for(limit_s: float) -> Callable[[AsyncTest], Callable[..., None]]:
    """Run a test in an event loop of its own, with a time limit."""

    def decorate(test: AsyncTest) -> Callable[..., None]:
        @wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            async def limited() -> None:
                async with asyncio.timeout(limit_s):
                    await test(*args, **kwargs)

            asyncio.run(limited())

        return run

    return decorate


asynchronous = asynchronous_for(60)


async def until(condition: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
    """Wait for something that is about to happen."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
