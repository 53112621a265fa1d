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
        Called with the seconds of each dispatch in which the router decided.
    """

    def __init__(self, desk: Desk, *, interval_s: float, on_tick: Callable[[float], None]) -> None:
        self._desk = desk
        self._interval_s = interval_s
        self._on_tick = on_tick
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._last_s = float("-inf")
        desk.on_change = self.wanted

    def wanted(self) -> None:
        """Dispatch soon; any number of calls before that count as one."""
        if self._soon is None:
            self._soon = self._loop.call_soon(self._run)

    def stop(self) -> None:
        """Cancel what is planned."""
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()

    def _run(self) -> None:
        self._soon = None
        desk, wait_s = self._desk, self._last_s + self._interval_s - self._loop.time()
        if wait_s > 0 and not desk.ticker.nothing_to_gain(desk.fleet.live("decode")):
            desk.pump()
            self._wake_at(self._loop.time() + wait_s)
            return
        started, ticks = time.perf_counter(), desk.ticker.ticks
        try:
            desk.dispatch()
        except Exception:
            # A fault here must not stop the requests that are to come.
            log.exception("dispatch failed")
        if desk.ticker.ticks > ticks:
            self._last_s = self._loop.time()
            self._on_tick(time.perf_counter() - started)
        held_until_s = desk.ticker.next_look_s(desk.fleet.live("decode"))
        self._wake_at(min(desk.pool.next_deadline_s(self._loop.time()), held_until_s))

    def _wake_at(self, at_s: float) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if at_s < float("inf"):
            self._later = self._loop.call_at(at_s, self.wanted)
