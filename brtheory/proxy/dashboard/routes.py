"""The dashboard's addresses: the page for anyone, what it shows for those with the admin key.

The page itself tells nothing; it asks for the key and sends it with each request, which is why it
reads its events with ``fetch``: an ``EventSource`` cannot send a header.
"""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from brtheory.proxy.dashboard.catalog import router_catalog
from brtheory.proxy.dashboard.feed import Feed
from brtheory.proxy.dashboard.page import load_page
from brtheory.proxy.dashboard.sampler import Sampler

PAGE = "dashboard-page"
"""Name of the one route that needs no key."""
STALL_S = 30.0
"""A watcher that takes nothing for so long is cut off."""


class Dashboard:
    """The page, its events, and the routers to choose from.

    Parameters
    ----------
    sampler
        What it shows.
    stall_s
        Longest a watcher may take nothing.
    """

    def __init__(self, sampler: Sampler, *, stall_s: float = STALL_S) -> None:
        self.feed = Feed(sampler)
        self._stall_s = stall_s

    def add_routes(self, app: web.Application) -> None:
        """Serve it there, from the application's start to its shutdown."""
        app.router.add_get("/dashboard", self._page, name=PAGE)
        app.router.add_get("/dashboard/events", self._events)
        app.router.add_get("/admin/routers", self._routers)
        app.cleanup_ctx.append(self._sampling)
        app.on_shutdown.append(self._close)

    async def _page(self, request: web.Request) -> web.Response:
        del request
        page = load_page()
        return web.Response(body=page.body, headers=page.headers)

    async def _routers(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(router_catalog())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        with self.feed.watching():
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream; charset=utf-8",
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                }
            )
            try:
                await response.prepare(request)
                await self._send(response, self.feed.beginning())
                await self._follow(request, response)
            except (ConnectionError, TimeoutError):
                # The watcher has gone or takes nothing; nothing is left to tell.
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def _follow(self, request: web.Request, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        taken_s = loop.time()
        while True:
            await self.feed.published()
            transport = request.transport
            if self.feed.closed or transport is None or transport.is_closing():
                return
            if transport.get_write_buffer_size() == 0:
                taken_s = loop.time()
                await self._send(response, self.feed.latest)
            elif loop.time() - taken_s > self._stall_s:
                raise TimeoutError

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        """Hand an event over; only one larger than what is buffered has to wait for room."""
        async with asyncio.timeout(self._stall_s):
            await response.write(data)

    async def _sampling(self, app: web.Application) -> AsyncIterator[None]:
        del app
        task = asyncio.create_task(self.feed.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _close(self, app: web.Application) -> None:
        del app
        self.feed.close()
