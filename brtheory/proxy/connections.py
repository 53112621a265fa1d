"""Listening addresses and their connections: bounded, and cut where nothing is asked on them.

A connection costs its peer nothing and the proxy an open file, which a stream to a node may need.
So a new one always gets in, and beyond the bound the oldest that serves no generation makes room:
half-open and idle connections shut nobody out, probes of health and operators least of all.
"""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from aiohttp import web

from brtheory.errors import InputError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHARE = 0.4
"""Of the open files allowed: each stream has one towards its client and one towards its node."""
UNLIMITED = 1 << 20
"""Connections where open files are not limited."""
LOOK_S = 1.0
BACKLOG = 2048
HANDSHAKE_S = 10.0


class Connections:
    """The connections of one server.

    Parameters
    ----------
    most
        Connections at once, >= 1; generations under way are never cut, and may be more.
    silent_s
        Seconds within which a new connection must have sent the head of a request, > 0.
    on_cut
        Called for each connection that is cut.

    Attributes
    ----------
    serving
        Those that carry a generation; kept up by whoever serves.
    server
        The server, None until it runs.
    """

    def __init__(self, *, most: int, silent_s: float, on_cut: Callable[[], None]) -> None:
        self.most = most
        self.serving: set[Any] = set()
        self.server: web.Server | None = None
        self._silent_s = silent_s
        self._on_cut = on_cut
        self._asked: set[Any] = set()
        self._silent: dict[Any, float] = {}

    @property
    def open(self) -> int:
        """How many there are."""
        return 0 if self.server is None else len(self.server.connections)

    def accept(self) -> asyncio.BaseProtocol:
        """A protocol for a new connection; the server's factory, with room made for it."""
        assert self.server is not None  # noqa: S101  # listening begins after that
        open_ = self.server.connections
        if len(open_) >= self.most:
            self._make_room(open_)
        return self.server()

    @property
    def note(self) -> Any:
        """The middleware that sees on which connections something is asked."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._asked.add(request.protocol)
            return await handler(request)

        return note

    async def watching(self, app: web.Application) -> AsyncIterator[None]:
        """Cut silent connections while the application runs; one of its clean-up contexts."""
        del app
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(LOOK_S, self._silent_s / 4))
            self._cut_silent(loop.time())

    def _cut_silent(self, now_s: float) -> None:
        open_ = [] if self.server is None else self.server.connections
        self._asked.intersection_update(open_)
        silent = [connection for connection in open_ if connection not in self._asked]
        self._silent = {c: self._silent.get(c, now_s) for c in silent}
        for connection, since_s in self._silent.items():
            if now_s - since_s > self._silent_s:
                self._cut(connection)

    def _make_room(self, open_: Collection[Any]) -> None:
        for connection in open_:
            if connection not in self.serving and self._cut(connection):
                return

    def _cut(self, connection: Any) -> bool:
        """Cut a connection; returns whether it was still whole."""
        transport = connection.transport
        if transport is None or transport.is_closing():
            return False
        transport.abort()
        self._on_cut()
        return True


class Door:
    """An address, and the application behind it.

    Parameters
    ----------
    runner
        Of the application.
    connections
        What is opened to it.
    host, port
        Where to listen; port 0 takes a free one.
    tls
        How connections are secured, None where they are not.

    Attributes
    ----------
    port
        The one it listens on, once it is open.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        connections: Connections,
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = port
        self._runner = runner
        self._connections = connections
        self._host = host
        self._tls = tls
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen.

        Raises
        ------
        InputError
            If the address cannot be had.
        """
        await self._runner.setup()
        self._connections.server = self._runner.server
        listener = _listen(self._host, self.port)
        self.port = listener.getsockname()[1]
        # Started apart, so that whoever is cancelled meanwhile has a server to close.
        self._listening = await asyncio.get_running_loop().create_server(
            self._connections.accept,
            sock=listener,
            ssl=self._tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
            start_serving=False,
        )
        await self._listening.start_serving()

    def shut(self) -> None:
        """Take no new connection."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def close(self) -> None:
        """Shut it, and end what is open."""
        self.shut()
        await self._runner.cleanup()


def most_connections() -> int:
    """Connections that leave enough open files for those to the nodes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else max(1, int(SHARE * soft))


def raise_file_limit() -> None:
    """Allow this process as many open files as the system lets it have.

    The soft limit is often 1,024, for the sake of programs that use ``select``.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
        )
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port}", "an address that is free", error) from error
