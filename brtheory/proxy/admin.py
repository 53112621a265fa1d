"""The operators' API, on its own address and with its own key: workers, router, state."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, Field

from brtheory.contracts import Contract, parse_contract
from brtheory.errors import InputError
from brtheory.proxy.access import Keys, refuse_foreign_pages
from brtheory.proxy.connections import Connections, Handler
from brtheory.proxy.dashboard.routes import PAGE, Dashboard
from brtheory.proxy.dashboard.sampler import Sampler
from brtheory.proxy.faults import RequestError, error_body
from brtheory.proxy.fleet import Worker
from brtheory.proxy.proxy import Proxy, add_decode, add_prefill, drain_worker, remove_worker
from brtheory.proxy.settings import DecodeNode, PrefillNode
from brtheory.proxy.state import describe, state_of
from brtheory.proxy.ticker import RouterChoice, servable_routers

LARGEST_BODY = 1 << 20
Model = TypeVar("Model", bound=BaseModel)


class NewWorker(Contract):
    """Body of ``POST /admin/workers``: one of the two."""

    prefill: PrefillNode | None = None
    decode: DecodeNode | None = None


class NewRouter(Contract):
    """Body of ``POST /admin/router``."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)
    predictor: Literal["survival", "exact-match"] = "survival"
    seed: int = Field(default=0, ge=0)


class Admin:
    """The operators' side.

    Parameters
    ----------
    proxy
        What is operated.
    connections
        Of its address.
    """

    def __init__(self, proxy: Proxy, connections: Connections) -> None:
        self._proxy = proxy
        self._connections = connections
        key = proxy.settings.admin.key
        self._keyless = key is None
        self._keys = Keys([] if key is None else [key])
        self._dashboard = Dashboard(
            Sampler(proxy.desk, proxy.telemetry, draining=lambda: proxy.draining_soon)
        )
        self._switching = asyncio.Lock()

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(
            client_max_size=LARGEST_BODY, middlewares=[self._connections.note, self._guard()]
        )
        app.cleanup_ctx.append(self._connections.watching)
        app.router.add_get("/admin/state", self._state)
        app.router.add_get("/admin/workers", self._workers)
        app.router.add_post("/admin/workers", self._add)
        app.router.add_post("/admin/workers/{name:.+}/drain", self._drain)
        app.router.add_post("/admin/workers/{name:.+}/resume", self._resume)
        app.router.add_delete("/admin/workers/{name:.+}", self._remove)
        app.router.add_get("/admin/router", self._router)
        app.router.add_post("/admin/router", self._switch)
        self._dashboard.add_routes(app)
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                refuse_foreign_pages(request.headers, keyless=self._keyless)
                if request.match_info.route.name != PAGE:
                    self._keys.check(request.headers.get("Authorization"))
                return await handler(request)
            except RequestError as error:
                retry_s = error.retry_after_s
                headers = {} if retry_s is None else {"Retry-After": str(retry_s)}
                return _answer(error.status, json.loads(error.body()), headers)
            except InputError as error:
                return _answer(400, json.loads(error_body(400, str(error))))
            except web.HTTPException as error:
                return _answer(error.status, json.loads(error_body(error.status, error.reason)))

        return guard

    async def _state(self, request: web.Request) -> web.Response:
        del request
        return _answer(200, state_of(self._proxy.desk))

    async def _workers(self, request: web.Request) -> web.Response:
        del request
        desk = self._proxy.desk
        return _answer(200, [describe(desk, worker) for worker in desk.fleet.workers.values()])

    async def _add(self, request: web.Request) -> web.Response:
        wanted = await _body(request, NewWorker)
        desk, settings = self._proxy.desk, self._proxy.settings
        if (wanted.prefill is None) == (wanted.decode is None):
            raise InputError("worker", "one of prefill and decode", "both or none")
        added: list[Worker] = []
        if wanted.prefill is not None:
            added = add_prefill(desk, wanted.prefill, settings)
        if wanted.decode is not None:
            added = add_decode(desk, wanted.decode, settings)
        return _answer(201, [describe(desk, worker) for worker in added])

    async def _drain(self, request: web.Request) -> web.Response:
        worker = drain_worker(self._proxy.desk, self._name(request))
        return _answer(200, describe(self._proxy.desk, worker))

    async def _resume(self, request: web.Request) -> web.Response:
        worker = self._proxy.desk.fleet.find(self._name(request))
        worker.draining = False
        self._proxy.desk.on_change()
        return _answer(200, describe(self._proxy.desk, worker))

    async def _remove(self, request: web.Request) -> web.Response:
        worker = remove_worker(self._proxy.desk, self._name(request))
        return _answer(200, {"removed": worker.name})

    async def _router(self, request: web.Request) -> web.Response:
        del request
        choice = self._proxy.desk.ticker.choice
        document = {
            "name": choice.name,
            "params": dict(choice.params),
            "predictor": choice.predictor,
            "seed": choice.seed,
            "available": servable_routers(),
        }
        return _answer(200, document)

    async def _switch(self, request: web.Request) -> web.Response:
        wanted = await _body(request, NewRouter)
        backend = self._proxy.settings.router.backend
        choice = RouterChoice(wanted.name, wanted.params, wanted.predictor, wanted.seed, backend)
        # One at a time, in the order they came: the last one asked for is the one that stays.
        async with self._switching:
            # Compiling takes seconds: not in the loop that streams.
            await asyncio.to_thread(choice.warm_up)
            self._proxy.desk.ticker.use(choice)
            self._proxy.desk.on_change()
        return await self._router(request)

    def _name(self, request: web.Request) -> str:
        name = request.match_info["name"]
        if name not in self._proxy.desk.fleet.workers:
            raise RequestError(404, "no such worker", param="name")
        return name


async def _body(request: web.Request, model: type[Model]) -> Model:
    try:
        text = (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise InputError("body", "UTF-8 text", f"byte {error.start} that is not") from error
    return parse_contract(text, model, name="body")


def _answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response(document, status=status, headers=headers)
