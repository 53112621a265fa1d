"""A serving process: sockets opened, signals heard, streams drained before it ends."""

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from brtheory.proxy.admin import Admin
from brtheory.proxy.app import Front
from brtheory.proxy.connections import Connections, Door, most_connections, raise_file_limit
from brtheory.proxy.logs import HTTP
from brtheory.proxy.proxy import Proxy
from brtheory.proxy.settings import Settings
from brtheory.proxy.tls import server_context

log = logging.getLogger(__name__)

KEEPALIVE_S = 75.0
MOST_OPERATORS = 256
"""Connections to the admin API at once; beyond them the oldest is closed."""
GC_THRESHOLDS = (20_000, 20, 20)


@dataclass
class Running:
    """A proxy that serves.

    Parameters
    ----------
    proxy, front
        What serves.
    doors
        The clients' address, and the operators' where there is one.
    """

    proxy: Proxy
    front: Front
    doors: list[Door]
    _drained: bool | None = None

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self.doors[0].port

    @property
    def admin_port(self) -> int | None:
        """Where operators connect, None where they cannot."""
        return self.doors[1].port if len(self.doors) > 1 else None

    async def stop(self, *, drain_s: float, grace_s: float = 0.0) -> bool:
        """Stop serving without cutting a stream.

        Parameters
        ----------
        drain_s
            Longest wait for streams that run.
        grace_s
            Before that, go on accepting for so long, while ``/ready`` says no.

        Returns
        -------
        bool
            Whether all streams ended in time; a second call answers as the first did.
        """
        if self._drained is not None:
            return self._drained
        log.info("draining: %d requests", self.front.active)
        self.proxy.draining_soon = True
        await asyncio.sleep(grace_s)
        self.proxy.draining = True
        self.doors[0].shut()
        self._drained = await self.front.drained(timeout_s=drain_s)
        if not self._drained:
            await self.front.cut_off()
        for door in self.doors:
            await door.close()
        await self.front.close()
        await self.proxy.close()
        log.info("stopped%s", "" if self._drained else ", with requests cut off")
        return self._drained


async def start(settings: Settings) -> Running:
    """Open the sockets and serve.

    Raises
    ------
    InputError
        If an address cannot be used or the certificate does not fit.
    """
    tls = server_context(settings.server)
    proxy = Proxy(settings)
    connections = _connections(proxy, settings)
    front = Front(proxy, connections)
    doors = [_front_door(front, connections, settings, tls)]
    if settings.admin.enabled:
        doors.append(_admin_door(proxy, settings))
    try:
        for door in doors:
            await door.open()
    except BaseException:
        for door in doors:
            await door.close()
        await front.close()
        await proxy.close()
        raise
    log.info("serving on %s port %d", settings.server.host, doors[0].port)
    return Running(proxy, front, doors)


async def serve_until_told(
    settings: Settings, *, on_start: Callable[[Running], None] | None = None
) -> bool:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends at once.

    Returns
    -------
    bool
        Whether all streams ended in time.
    """
    raise_file_limit()
    running = await start(settings)
    if on_start is not None:
        on_start(running)
    _spare_the_collector()
    told = asyncio.Queue[int]()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.put_nowait, number)
    await told.get()
    server = settings.server
    stopping = asyncio.create_task(
        running.stop(drain_s=server.drain_s, grace_s=server.drain_grace_s)
    )
    again = asyncio.create_task(told.get())
    await asyncio.wait([stopping, again], return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not stopping.done():
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping
        return False
    return stopping.result()


def _spare_the_collector() -> None:
    """Leave what was loaded out of garbage collection, and collect less often.

    Requests leave few cycles behind, and a full collection over all modules would stop every
    stream for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _connections(proxy: Proxy, settings: Settings) -> Connections:
    telemetry, server = proxy.telemetry, settings.server
    connections = Connections(
        most=server.max_connections or most_connections(),
        silent_s=server.body_s,
        on_cut=telemetry.connections_cut.inc,
    )
    telemetry.connections.set_function(lambda: float(connections.open))
    return connections


def _front_door(
    front: Front, connections: Connections, settings: Settings, tls: ssl.SSLContext | None
) -> Door:
    limit = settings.server.max_header_bytes
    runner = web.AppRunner(
        front.application(),
        handler_cancellation=True,
        access_log=None,
        logger=logging.getLogger(HTTP),
        keepalive_timeout=KEEPALIVE_S,
        max_line_size=limit,
        max_field_size=limit,
        auto_decompress=False,  # a few bytes can become gigabytes
        shutdown_timeout=1.0,
    )
    host, port = settings.server.host, settings.server.port
    return Door(runner, connections, host=host, port=port, tls=tls)


def _admin_door(proxy: Proxy, settings: Settings) -> Door:
    silent_s = settings.server.body_s
    connections = Connections(most=MOST_OPERATORS, silent_s=silent_s, on_cut=_uncounted)
    runner = web.AppRunner(
        Admin(proxy, connections).application(),
        access_log=None,
        logger=logging.getLogger(HTTP),
        auto_decompress=False,
    )
    return Door(runner, connections, host=settings.admin.host, port=settings.admin.port)


def _uncounted() -> None:
    """Metrics are about clients."""
