"""The emulator's own routes, on every port: truth, faults, life and death, what was received."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

from aiohttp import web

from brtheory.emulator.deployment import Deployment
from brtheory.emulator.endpoint import Endpoint
from brtheory.emulator.faults import parse_fault
from brtheory.emulator.truth import truth_document
from brtheory.errors import InputError


@dataclass(frozen=True, slots=True)
class Admin:
    """Handlers of /emulator/*.

    Parameters
    ----------
    deployment
        Shared state.
    endpoints
        Servers that can be killed, by name.
    kill
        Kills a server by name.
    """

    deployment: Deployment
    endpoints: Mapping[str, Endpoint]
    kill: Callable[[str], Awaitable[None]]

    def add_routes(self, app: web.Application) -> None:
        """Put the routes on an application."""
        app.router.add_get("/emulator/truth", self.truth)
        app.router.add_get("/emulator/received", self.received)
        app.router.add_get("/emulator/faults", self.faults)
        app.router.add_post("/emulator/faults", self.add_fault)
        app.router.add_delete("/emulator/faults", self.clear_faults)
        app.router.add_post("/emulator/kill/{name}", self.kill_endpoint)
        app.router.add_post("/emulator/revive/{name}", self.revive_endpoint)

    async def truth(self, request: web.Request) -> web.Response:
        """GET: the truth; ``?requests=1`` lists every sequence too."""
        listed = request.query.get("requests") == "1"
        return web.json_response(truth_document(self.deployment, with_requests=listed))

    async def received(self, request: web.Request) -> web.Response:
        """GET: the last completion requests, oldest first, with headers and bodies."""
        del request
        return web.json_response([asdict(item) for item in self.deployment.received])

    async def faults(self, request: web.Request) -> web.Response:
        """GET: rules in force and their hits."""
        del request
        return web.json_response(self.deployment.faults.to_json())

    async def add_fault(self, request: web.Request) -> web.Response:
        """POST: enter a rule."""
        text = (await request.read()).decode(errors="replace")
        try:
            rule = parse_fault(text, name="fault")
        except InputError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({"number": self.deployment.faults.add(rule)})

    async def clear_faults(self, request: web.Request) -> web.Response:
        """DELETE: forget all rules."""
        del request
        self.deployment.faults.clear()
        return web.json_response({})

    async def kill_endpoint(self, request: web.Request) -> web.Response:
        """POST: let a server crash; asked over one that lives on, such as the admin port."""
        name = request.match_info["name"]
        if name not in self.endpoints:
            return self._unknown(name)
        await self.kill(name)
        return web.json_response({"alive": False})

    async def revive_endpoint(self, request: web.Request) -> web.Response:
        """POST: start a server again on its old port."""
        name = request.match_info["name"]
        if name not in self.endpoints:
            return self._unknown(name)
        await self.endpoints[name].start()
        return web.json_response({"alive": True})

    def _unknown(self, name: str) -> web.Response:
        known = ", ".join(self.endpoints)
        return web.json_response({"error": f"expected one of {known}, got {name}"}, status=404)
