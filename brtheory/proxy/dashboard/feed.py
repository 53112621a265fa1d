"""Snapshots to those who watch: made once for all, never queued, to a bounded number of watchers.

A watcher that has not taken its last snapshot yet is passed over: it gets the newest one when it
has room again, and is cut off if it takes nothing for too long.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from brtheory.proxy.dashboard.sampler import Sampler
from brtheory.proxy.faults import RequestError

log = logging.getLogger(__name__)

INTERVAL_S = 0.25
MOST_WATCHERS = 16


class Feed:
    """Samples the books at a steady pace, and tells whoever watches.

    Parameters
    ----------
    sampler
        Reads the books; samples are taken whether or not anybody watches.
    interval_s
        Time between two samples, > 0.

    Attributes
    ----------
    latest
        The newest snapshot as an event; empty before the first one somebody watched.
    watchers
        How many watch.
    closed
        Whether it has ended.
    """

    def __init__(self, sampler: Sampler, *, interval_s: float = INTERVAL_S) -> None:
        self.latest = b""
        self.watchers = 0
        self.closed = False
        self._sampler = sampler
        self._interval_s = interval_s
        self._published = asyncio.Event()

    async def run(self) -> None:
        """Sample and publish until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                self.publish()
            except Exception:
                # A fault here must not blind operators for good.
                log.exception("the dashboard could not read the books")

    def publish(self) -> None:
        """Take a sample now and wake the watchers."""
        self._sampler.sample()
        if self.watchers:
            self.latest = event("snapshot", self._sampler.snapshot())
        self._wake()

    def beginning(self) -> bytes:
        """What a new watcher gets first: the history and a snapshot."""
        history = event("history", self._sampler.history())
        return history + event("snapshot", self._sampler.snapshot())

    async def published(self) -> None:
        """Wait for the next snapshot, or the end."""
        if not self.closed:
            await self._published.wait()

    def close(self) -> None:
        """Send all watchers home."""
        self.closed = True
        self._wake()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a watcher in.

        Raises
        ------
        RequestError
            503 if too many watch.
        """
        if self.watchers >= MOST_WATCHERS:
            raise RequestError(
                503, "too many watch the dashboard", code="too_many_watchers", retry_after_s=5
            )
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    def _wake(self) -> None:
        woken, self._published = self._published, asyncio.Event()
        woken.set()


def event(name: str, document: Any) -> bytes:
    """A server-sent event with a JSON document."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
