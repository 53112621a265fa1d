"""A serving process: sockets opened, signals heard, streams drained before it ends."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from brtheory.errors import InputError
from brtheory.proxy.admin import Admin
from brtheory.proxy.app import Front
from brtheory.proxy.logs import HTTP
from brtheory.proxy.proxy import Proxy
from brtheory.proxy.settings import Settings
from brtheory.proxy.tls import server_context

log = logging.getLogger(__name__)

KEEPALIVE_S = 75.0
BACKLOG = 2048
GC_THRESHOLDS = (20_000, 20, 20)


@dataclass
class Running:
    """A proxy that serves.

    Parameters
    ----------
    proxy, front
        What serves.
    port, admin_port
        Where; None where there is no admin API.
    """

    proxy: Proxy
    front: Front
    port: int
    admin_port: int | None
    _runners: list[web.AppRunner]
    _sites: list[web.SockSite]
    _drained: bool | None = None

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
        await self._sites[0].stop()
        self._drained = await self.front.drained(timeout_s=drain_s)
        if not self._drained:
            await self.front.cut_off()
        for runner in self._runners:
            await runner.cleanup()
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
    front = Front(proxy)
    limit = settings.server.max_header_bytes
    runners = [
        web.AppRunner(
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
    ]
    addresses = [(settings.server.host, settings.server.port)]
    if settings.admin.enabled:
        runners.append(
            web.AppRunner(
                Admin(proxy).application(),
                access_log=None,
                logger=logging.getLogger(HTTP),
                auto_decompress=False,
            )
        )
        addresses.append((settings.admin.host, settings.admin.port))
    sites, ports = [], []
    try:
        for runner, (host, port), context in zip(runners, addresses, (tls, None), strict=False):
            await runner.setup()
            listener = _listen(host, port)
            ports.append(listener.getsockname()[1])
            site = web.SockSite(runner, listener, backlog=BACKLOG, ssl_context=context)
            await site.start()
            sites.append(site)
        front.server = runners[0].server
    except InputError:
        for runner in runners:
            await runner.cleanup()
        await front.close()
        await proxy.close()
        raise
    log.info("serving on %s port %d", settings.server.host, ports[0])
    return Running(proxy, front, ports[0], ports[1] if len(ports) > 1 else None, runners, sites)


async def serve_until_told(
    settings: Settings, *, on_start: Callable[[Running], None] | None = None
) -> bool:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends at once.

    Returns
    -------
    bool
        Whether all streams ended in time.
    """
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


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
        )
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port}", "an address that is free", error) from error
