"""The operators' API, on its own address and with its own key: workers, router, state."""

import asyncio
import json
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, Field

from brtheory.contracts import Contract, parse_contract
from brtheory.core.imbalance import imbalance
from brtheory.errors import InputError
from brtheory.proxy.access import Keys
from brtheory.proxy.app import Handler
from brtheory.proxy.desk import Desk
from brtheory.proxy.faults import RequestError, error_body
from brtheory.proxy.fleet import Worker
from brtheory.proxy.mirror import barrier_idle
from brtheory.proxy.proxy import Proxy, add_decode, add_prefill, drain_worker, remove_worker
from brtheory.proxy.settings import DecodeNode, PrefillNode
from brtheory.proxy.ticker import RouterChoice
from brtheory.routers.registry import router_specs

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
    predictor: str = "survival"
    seed: int = Field(default=0, ge=0)


class Admin:
    """The operators' side.

    Parameters
    ----------
    proxy
        What is operated.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        key = proxy.settings.admin.key
        self._keys = Keys([] if key is None else [key])

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._guard()])
        app.router.add_get("/admin/state", self._state)
        app.router.add_get("/admin/workers", self._workers)
        app.router.add_post("/admin/workers", self._add)
        app.router.add_post("/admin/workers/{name:.+}/drain", self._drain)
        app.router.add_post("/admin/workers/{name:.+}/resume", self._resume)
        app.router.add_delete("/admin/workers/{name:.+}", self._remove)
        app.router.add_get("/admin/router", self._router)
        app.router.add_post("/admin/router", self._switch)
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                self._keys.check(request.headers.get("Authorization"))
                return await handler(request)
            except RequestError as error:
                return _answer(error.status, json.loads(error.body()))
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
            "available": list(router_specs()),
        }
        return _answer(200, document)

    async def _switch(self, request: web.Request) -> web.Response:
        wanted = await _body(request, NewRouter)
        choice = RouterChoice(wanted.name, wanted.params, wanted.predictor, wanted.seed)
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


def describe(desk: Desk, worker: Worker) -> dict[str, Any]:
    """A worker as JSON."""
    document: dict[str, Any] = {
        "name": worker.name,
        "role": worker.role,
        "url": worker.url,
        "rank": worker.rank,
        "up": worker.health.up,
        "reason": worker.health.reason,
        "draining": worker.draining,
    }
    if worker.role == "decode":
        books = desk.mirror.replicas[worker.name]
        document |= {
            "slots": books.slots,
            "requests": books.bound,
            "tokens": books.tokens,
            "decoded_tokens": books.decoded,
        }
    else:
        held = desk.prefills.nodes[worker.name]
        document |= {"legs": held.legs, "kv_tokens_held": held.held(desk.clock())}
    return document


def state_of(desk: Desk) -> dict[str, Any]:
    """What a dashboard shows: loads, imbalance, pool, counts."""
    live = desk.fleet.live("decode")
    loads = desk.mirror.loads(live)
    return {
        "router": desk.ticker.choice.name,
        "replicas": [describe(desk, worker) for worker in desk.fleet.of("decode")],
        "prefill": [describe(desk, worker) for worker in desk.fleet.of("prefill")],
        "imbalance_tokens": imbalance(loads) if loads else None,
        "barrier_idle_ratio": barrier_idle(loads),
        "queue_requests": len(desk.gate),
        "pool_requests": len(desk.pool),
        "pool_tokens": desk.pool.tokens,
        "kv_expired": desk.pool.expired,
        "kv_stranded": desk.prefills.stranded_requests,
        "forced_bindings": desk.forced,
        "ticks": desk.ticker.ticks,
        "step_s": desk.step_s,
    }


async def _body(request: web.Request, model: type[Model]) -> Model:
    try:
        text = (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise InputError("body", "UTF-8 text", f"byte {error.start} that is not") from error
    return parse_contract(text, model, name="body")


def _answer(status: int, document: Any) -> web.Response:
    return web.json_response(document, status=status)
