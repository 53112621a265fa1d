"""When to tick: as soon as something has changed, not more often than asked, and at deadlines."""

import asyncio
import logging
import time
from collections.abc import Callable

from brtheory.proxy.desk import Desk

log = logging.getLogger(__name__)


class Dispatcher:
    """Calls the desk's dispatch from the event loop; the desk's clock is the loop's.

    Parameters
    ----------
    desk
        Its ``on_change`` is taken over.
    interval_s
        Shortest time between two ticks while waiting may gain something.
    on_tick
        Called with the seconds each dispatch took.
    """

    def __init__(self, desk: Desk, *, interval_s: float, on_tick: Callable[[float], None]) -> None:
        self._desk = desk
        self._interval_s = interval_s
        self._on_tick = on_tick
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._last_s = float("-inf")
        desk.on_change = self.wanted

    def wanted(self) -> None:
        """Dispatch soon; any number of calls before that count as one."""
        if self._soon is None:
            wait_s = self._last_s + self._interval_s - self._loop.time()
            if wait_s <= 0 or self._desk.ticker.nothing_to_gain(self._desk.fleet.live("decode")):
                self._soon = self._loop.call_soon(self._run)
            else:
                self._soon = self._loop.call_later(wait_s, self._run)

    def stop(self) -> None:
        """Cancel what is planned."""
        for handle in (self._soon, self._deadline):
            if handle is not None:
                handle.cancel()

    def _run(self) -> None:
        self._soon = None
        self._last_s = self._loop.time()
        started = time.perf_counter()
        try:
            self._desk.dispatch()
        except Exception:
            # A fault here must not stop the requests that are to come.
            log.exception("dispatch failed")
        self._on_tick(time.perf_counter() - started)
        self._plan_deadline()

    def _plan_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        at_s = self._desk.pool.next_deadline_s(self._loop.time())
        if at_s < float("inf"):
            self._deadline = self._loop.call_at(at_s, self.wanted)
