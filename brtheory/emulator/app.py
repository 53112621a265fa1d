"""The routes of an engine's API server, and of a bootstrap server."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from brtheory.emulator.admin import Admin
from brtheory.emulator.answers import error_response
from brtheory.emulator.call import ApiError
from brtheory.emulator.completions import Completions, authorise
from brtheory.emulator.deployment import Deployment
from brtheory.emulator.metrics import CONTENT_TYPE, render_metrics
from brtheory.emulator.nodes import Node

LARGEST_BODY = 64 << 20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Probes:
    """What is asked of an engine besides completions; faults with a ``path`` strike here too.

    Parameters
    ----------
    node, deployment
        Whose server this is, and shared state.
    completions
        Counts requests by connection and plays faults.
    """

    def __init__(self, node: Node, deployment: Deployment, *, completions: Completions) -> None:
        self._node = node
        self._deployment = deployment
        self._completions = completions

    async def models(self, request: web.Request) -> web.StreamResponse:
        """GET /v1/models."""
        config = self._deployment.config
        authorise(request, config.api_key)
        card = {
            "id": config.model,
            "object": "model",
            "created": int(self._deployment.clock.unix()),
            "owned_by": "brtheory",
            "root": config.model,
            "parent": None,
            "max_model_len": config.max_model_len,
        }
        return web.json_response({"object": "list", "data": [card]})

    async def health(self, request: web.Request) -> web.StreamResponse:
        """GET /health: 200 and nothing."""
        del request
        return web.Response()

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """GET /metrics."""
        del request
        body = render_metrics(self._node.gauges(), self._deployment.config.model)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    def guarded(self, handler: Handler) -> Handler:
        """The handler behind the faults in force, its errors as error objects."""

        async def serve(request: web.Request) -> web.StreamResponse:
            fault = self._deployment.faults.take(self._completions.site(request))
            early = None if fault is None else await self._completions.suffer(request, fault)
            try:
                return await handler(request) if early is None else early
            except ApiError as error:
                return error_response(error)

        return serve


def engine_app(node: Node, deployment: Deployment, *, admin: Admin) -> web.Application:
    """The application of an engine's API server."""
    app = web.Application(client_max_size=LARGEST_BODY)
    completions = Completions(node, deployment)
    probes = Probes(node, deployment, completions=completions)
    app.router.add_get("/v1/models", probes.guarded(probes.models))
    app.router.add_get("/health", probes.guarded(probes.health))
    app.router.add_get("/metrics", probes.guarded(probes.metrics))
    app.router.add_post("/v1/chat/completions", completions.chat)
    app.router.add_post("/v1/completions", completions.text)
    admin.add_routes(app)
    return app


def bootstrap_app(engine_id: str, worker: str) -> web.Application:
    """The application of upstream Mooncake's bootstrap server: engine ids by rank."""

    async def query(request: web.Request) -> web.Response:
        del request
        return web.json_response(
            {"0": {"engine_id": engine_id, "worker_addr": {"0": {"0": worker}}}}
        )

    app = web.Application()
    app.router.add_get("/query", query)
    return app
