"""An emulator that runs: all servers of a deployment, started and stopped together.

Use it as an asynchronous context manager; nothing is left open afterwards::

    async with Emulator(EmulatorConfig()) as emulator:
        print(emulator.addresses())
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from brtheory.emulator.admin import Admin
from brtheory.emulator.app import bootstrap_app, engine_app
from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.connectors import Producer
from brtheory.emulator.deployment import ENGINE_STREAM, make_deployment
from brtheory.emulator.driver import WallClock
from brtheory.emulator.endpoint import Endpoint
from brtheory.emulator.nodes import DecodeNode, Node, PrefillNode
from brtheory.emulator.noise import mix
from brtheory.emulator.prefill import PrefillEngine

ADMIN = "admin"
PULL_PORT = 5600
"""Side-channel port named in transfer parameters; nothing listens there."""


class Emulator:
    """A deployment on loopback ports.

    Parameters
    ----------
    config
        What to emulate.
    clock
        Time; the real one if None.
    """

    def __init__(self, config: EmulatorConfig, *, clock: WallClock | None = None) -> None:
        clock = clock or WallClock(time.monotonic, asyncio.sleep, time.time)
        self.config = config
        self.deployment = make_deployment(config, clock)
        self.endpoints: dict[str, Endpoint] = {}
        self._nodes: dict[str, Node] = {}
        self._bootstraps: dict[str, str] = {}
        self._admin = Admin(self.deployment, self.endpoints, self.kill)
        self._player: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Cut all connections and stop all servers; again is fine."""
        for endpoint in self.endpoints.values():
            await endpoint.kill()
        if self._player is not None:
            self._player.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._player
            self._player = None

    async def kill(self, name: str) -> None:
        """Let one server crash."""
        if name in self._nodes:
            self._nodes[name].die()
        await self.endpoints[name].kill()

    @property
    def admin_url(self) -> str:
        """Base address of the admin port."""
        return self.endpoints[ADMIN].url

    def addresses(self) -> dict[str, Any]:
        """Where everything is, as a JSON object."""
        return {
            "model": self.config.model,
            "connector": self.config.connector,
            "admin": self.admin_url,
            "decode": [
                {"name": node.name, "url": self.endpoints[name].url, "ranks": list(node.ranks)}
                for name, node in self._nodes.items()
                if isinstance(node, DecodeNode)
            ],
            "prefill": [
                {
                    "name": name,
                    "url": self.endpoints[name].url,
                    "engine_id": engine.producer.engine_id,
                    "bootstrap": engine.producer.bootstrap_url,
                }
                for name, engine in self.deployment.prefill.items()
            ],
        }

    async def _start(self) -> None:
        await self._listen(ADMIN, self._admin_app, offset=0)
        for i in range(self.config.endpoints):
            await self._start_decode(i)
        for i in range(self.config.prefill):
            await self._start_prefill(i)
        self._player = asyncio.create_task(self.deployment.decode.driver.run())

    async def _start_decode(self, i: int) -> None:
        size = self.config.ranks_per_endpoint
        node = DecodeNode(
            f"decode-{i}",
            self.deployment.decode,
            ranks=range(i * size, (i + 1) * size),
            counts_own=self.config.counts_own_ranks,
        )
        await self._listen_node(node, 1 + i)

    async def _start_prefill(self, i: int) -> None:
        name, config = f"prefill-{i}", self.config
        engine_id = f"{mix(config.seed, ENGINE_STREAM, i):016x}"
        bootstrap_url = None
        if config.connector == "mooncake":
            offset = 1 + config.endpoints + config.prefill + i
            worker = f"tcp://{config.host}:{PULL_PORT + i}"
            bootstrap = await self._listen(
                f"{name}-bootstrap", lambda: bootstrap_app(engine_id, worker), offset=offset
            )
            bootstrap_url = bootstrap.url
        engine = PrefillEngine(
            config,
            self.deployment.clock,
            ledger=self.deployment.ledger,
            producer=Producer(engine_id, config.host, PULL_PORT + i, bootstrap_url),
        )
        self.deployment.prefill[name] = engine
        await self._listen_node(PrefillNode(name, engine), 1 + config.endpoints + i)

    async def _listen_node(self, node: Node, offset: int) -> None:
        self._nodes[node.name] = node
        await self._listen(
            node.name, lambda: engine_app(node, self.deployment, admin=self._admin), offset=offset
        )

    async def _listen(
        self, name: str, make_app: Callable[[], web.Application], *, offset: int
    ) -> Endpoint:
        endpoint = Endpoint(
            name,
            make_app,
            host=self.config.host,
            port=self.config.port(offset),
            keepalive_s=self.config.keepalive_s,
        )
        self.endpoints[name] = endpoint
        await endpoint.start()
        return endpoint

    def _admin_app(self) -> web.Application:
        app = web.Application()
        self._admin.add_routes(app)
        return app
