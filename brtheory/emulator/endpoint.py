"""One HTTP server of an emulator: a port that can die and come back at the same place."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from brtheory.errors import InputError


class Endpoint:
    """An application on a port.

    Parameters
    ----------
    name
        Unique in the deployment.
    make_app
        Builds the application; called at every start.
    host, port
        Where to listen; port 0 lets the system choose, once.
    keepalive_s
        Seconds after which an idle connection is closed.
    """

    def __init__(
        self,
        name: str,
        make_app: Callable[[], web.Application],
        *,
        host: str,
        port: int,
        keepalive_s: float,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._make_app = make_app
        self._keepalive_s = keepalive_s
        self._runner: web.AppRunner | None = None

    @property
    def alive(self) -> bool:
        """Whether it listens."""
        return self._runner is not None

    @property
    def url(self) -> str:
        """Base address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """Open connections."""
        if self._runner is None or self._runner.server is None:
            return 0
        return len(self._runner.server.connections)

    async def start(self) -> None:
        """Listen; nothing happens if it does.

        Raises
        ------
        InputError
            If the address cannot be had.
        """
        if self._runner is not None:
            return
        runner = web.AppRunner(
            self._make_app(),
            handler_cancellation=True,
            keepalive_timeout=self._keepalive_s,
            shutdown_timeout=0.0,
            access_log=None,
        )
        try:
            await runner.setup()
            await _to_its_end(web.TCPSite(runner, self.host, self.port).start())
        except OSError as error:
            await runner.cleanup()
            raise InputError(f"{self.name} port {self.port}", "a free address", error) from error
        except asyncio.CancelledError:
            await runner.cleanup()
            raise
        self.port = runner.addresses[0][1]
        self._runner = runner

    async def kill(self) -> None:
        """Stop listening and cut all connections, as a crash would."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        server = runner.server
        for connection in [] if server is None else server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # lets the connections learn that they are lost
        await runner.cleanup()


async def _to_its_end(starting: Coroutine[Any, Any, None]) -> None:
    """Await it; cancelled, let it end first: what half of it has opened, nobody can close."""
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
