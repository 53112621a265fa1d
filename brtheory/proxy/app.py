"""The HTTP server clients talk to: routes, limits, errors in the OpenAI shape, streams watched."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy

from brtheory.proxy.access import Keys
from brtheory.proxy.client import REQUEST_ID, ClientSide
from brtheory.proxy.connections import Connections, Handler
from brtheory.proxy.exchange import serve
from brtheory.proxy.faults import RequestError, error_body
from brtheory.proxy.headers import make_request_id
from brtheory.proxy.logs import log_fields
from brtheory.proxy.openai import ClientRequest, Endpoint, read_request
from brtheory.proxy.proxy import Proxy
from brtheory.proxy.wire import BrokenError, UnreachableError
from brtheory.proxy.work import Work

if TYPE_CHECKING:
    from brtheory.proxy.tracing import RequestTrace

log = logging.getLogger(__name__)

WATCH_S = 1.0
CUT_OFF_S = 2.0


class Front:
    """The public side.

    Parameters
    ----------
    proxy
        What it serves.
    connections
        Of its address.
    """

    def __init__(self, proxy: Proxy, connections: Connections) -> None:
        self._proxy = proxy
        self._keys = Keys(proxy.settings.server.api_keys)
        self._clients: dict[ClientSide, asyncio.Task[Any]] = {}
        self._models: bytes | None = None
        self._connections = connections
        self._most = min(proxy.settings.server.max_requests, connections.most)
        self._watcher = asyncio.create_task(self._watch())

    @property
    def active(self) -> int:
        """Generations being served."""
        return len(self._clients)

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(
            client_max_size=self._proxy.settings.server.max_body_bytes,
            middlewares=[self._connections.note, _errors],
        )
        app.cleanup_ctx.append(self._connections.watching)
        for endpoint in Endpoint:
            app.router.add_post(endpoint.value, self._generation(endpoint))
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def drained(self, *, timeout_s: float) -> bool:
        """Wait until nothing is being served; returns whether that came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._clients:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return False
        return True

    async def cut_off(self) -> None:
        """End what still runs: streams with an error event, others with a 503."""
        for client, task in list(self._clients.items()):
            client.cut_off = True
            task.cancel()
        await self.drained(timeout_s=CUT_OFF_S)

    async def close(self) -> None:
        """Stop watching."""
        self._watcher.cancel()
        await asyncio.gather(self._watcher, return_exceptions=True)

    # -- generation ----------------------------------------------------------------------------

    def _generation(self, endpoint: Endpoint) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            started_s = time.monotonic()
            client = ClientSide(request, make_request_id(request.headers.get(REQUEST_ID)))
            work: Work | None = None
            trace = self._begin_trace(endpoint, client, request.headers)
            try:
                work = Work(
                    self._proxy.services,
                    await self._read(request, endpoint),
                    client,
                    request.headers,
                    trace=trace,
                )
                self._clients[client] = _this_task()
                self._connections.serving.add(request.protocol)
                await serve(work)
            except RequestError as error:
                client.fail(error)
            finally:
                self._clients.pop(client, None)
                self._connections.serving.discard(request.protocol)
                self._record(endpoint, client, work, started_s)
                if trace is not None:
                    trace.end(499 if client.response is None else client.response.status)
            if client.response is None:
                # The client has gone before an answer: nobody reads this.
                return web.Response(status=499)
            return client.response

        return handler

    def _begin_trace(
        self, endpoint: Endpoint, client: ClientSide, headers: Mapping[str, str]
    ) -> "RequestTrace | None":
        tracing = self._proxy.services.tracing
        if tracing is None:
            return None
        name = f"POST {endpoint.value}"
        return tracing.begin(name, headers=headers, request_id=client.request_id)

    async def _read(self, request: web.Request, endpoint: Endpoint) -> ClientRequest:
        server = self._proxy.settings.server
        self._keys.check(request.headers.get("Authorization"))
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RequestError(415, "compressed bodies are not read", code="content_encoding")
        if self._proxy.draining:
            raise RequestError(503, "shutting down", code="draining", retry_after_s=1)
        if len(self._clients) >= self._most:
            raise RequestError(503, "too many requests at once", code="busy", retry_after_s=1)
        try:
            # Most bodies come with their headers; only the others need a timer.
            async with asyncio.timeout(None if request.content.is_eof() else server.body_s):
                raw = await request.read()
        except TimeoutError:
            raise RequestError(408, "the body took too long", code="slow_body") from None
        except (web.RequestPayloadError, HttpProcessingError) as error:
            raise RequestError(400, "the body cannot be read") from error
        return read_request(raw, endpoint, allow_many=server.allow_many)

    def _record(
        self, endpoint: Endpoint, client: ClientSide, work: Work | None, started_s: float
    ) -> None:
        name = endpoint.name.lower()
        status = 499 if client.response is None else client.response.status
        self._proxy.telemetry.requests.labels(name, str(status)).inc()
        if self._proxy.settings.log.requests:
            log_fields(
                log,
                f"{name} {status}",
                request_id=client.request_id,
                phase=None if work is None else work.passage.phase.value,
                replica=None if work is None else work.replica,
                prompt_tokens=None if work is None else work.passage.prompt_tokens,
                tokens=None if work is None else work.counter.tokens,
                seconds=round(time.monotonic() - started_s, 4),
            )

    async def _watch(self) -> None:
        """Cut connections of clients that have not read for too long."""
        longest_s = self._proxy.settings.server.client_stall_s
        loop = asyncio.get_running_loop()
        since: dict[ClientSide, tuple[int, float]] = {}
        while True:
            await asyncio.sleep(min(WATCH_S, longest_s / 4))
            now_s = loop.time()
            writing = {client for client in self._clients if client.writing}
            since = {
                client: since[client]
                if client in since and since[client][0] == client.writes
                else (client.writes, now_s)
                for client in writing
            }
            for client, (_, start_s) in since.items():
                if now_s - start_s > longest_s:
                    log.warning("client of %s has stalled", client.request_id)
                    client.abort()

    # -- the rest ------------------------------------------------------------------------------

    async def _list_models(self, request: web.Request) -> web.Response:
        """Models of the first worker that answers: one dead worker does not hide them."""
        self._keys.check(request.headers.get("Authorization"))
        fleet = self._proxy.desk.fleet
        workers = [*fleet.of("decode"), *fleet.of("prefill")]
        asked: set[str] = set()
        for worker in sorted(workers, key=lambda worker: not worker.live):
            if worker.url in asked:
                continue
            asked.add(worker.url)
            body = await self._models_of(worker.url, request.headers)
            if body is not None:
                self._models = body
                break
        if self._models is None:
            raise RequestError(503, "no worker answers", code="no_worker", retry_after_s=1)
        return web.Response(body=self._models, content_type="application/json")

    async def _models_of(self, url: str, headers: CIMultiDictProxy[str]) -> bytes | None:
        upstream = self._proxy.settings.upstream
        key = upstream.api_key
        given = f"Bearer {key.get_secret_value()}" if key else headers.get("Authorization")
        try:
            reply = await self._proxy.upstream.get(
                f"{url}/v1/models",
                timeout_s=upstream.health_timeout_s,
                headers={} if given is None else {"Authorization": given},
            )
        except (UnreachableError, BrokenError):
            return None
        return reply.body if reply.status == 200 else None

    async def _health(self, request: web.Request) -> web.Response:
        """Alive, whatever the workers are."""
        del request
        return web.json_response({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        """Ready for new requests."""
        del request
        fleet = self._proxy.desk.fleet
        document = {
            "ready": self._proxy.ready,
            "draining": self._proxy.draining,
            "prefill": len(fleet.live("prefill")),
            "decode": len(fleet.live("decode")),
        }
        return web.json_response(document, status=200 if self._proxy.ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=self._proxy.telemetry.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  # handlers run in tasks
    return task


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in the OpenAI shape, aiohttp's own included."""
    try:
        return await handler(request)
    except RequestError as error:
        retry = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
        return _json(error.status, error.body(), retry)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        kept = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return _json(error.status, error_body(error.status, error.reason.lower()), kept)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return _json(400, error_body(400, "the request is not readable"), {})


def _json(status: int, body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(
        status=status, body=body, headers={"Content-Type": "application/json", **headers}
    )
