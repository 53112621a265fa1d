"""Talking to the nodes: connection pools, time limits, and failures told apart by what is safe.

The engines close idle connections after 5 s, so ours expire earlier; a reset on a reused one
before any byte of an answer is tried once more on a fresh one. No total time limit on streams.
"""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

import aiohttp

from brtheory.proxy.settings import UpstreamSettings
from brtheory.proxy.tls import upstream_context
from brtheory.proxy.wire import Answer, BrokenError, ExhaustedError, UnreachableError, Wire

WATCH_S = 1.0
UNLIMITED = float("inf")
"""No time limit here: the caller has one of its own."""
PORTS = {"http": 80, "https": 443}
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Reasons for which no connection is made that lie with this machine."""


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    content_type: str
    body: bytes
    retry_after: str | None = None


@dataclass
class _Progress:
    """How far a stream has come."""

    paused: Callable[[], bool]
    received: int
    since_s: float

    def moved(self, received: int, now_s: float) -> bool:
        if received == self.received and not self.paused():
            return False
        self.received, self.since_s = received, now_s
        return True


class Upstream:
    """Client side of the proxy.

    Parameters
    ----------
    settings
        Times and limits.

    Raises
    ------
    InputError
        If what secures its connections cannot be read.
    """

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._tls = upstream_context(settings)
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[str, str], list[Wire]] = {}
        self._streams: dict[Answer, tuple[Wire, _Progress]] = {}
        self._busy: set[Wire] = set()
        self._probes = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, force_close=True, ssl=True if self._tls is None else self._tls
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent",),
        )
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Close all connections."""
        self._watcher.cancel()
        await asyncio.gather(self._watcher, return_exceptions=True)
        for wire in [*self._busy, *(wire for idle in self._idle.values() for wire in idle)]:
            wire.close()
        await self._probes.close()
        # Transports close in the loop's next turn.
        await asyncio.sleep(0)

    @property
    def open_connections(self) -> int:
        """Connections in use now."""
        return len(self._busy)

    async def get(self, url: str, *, timeout_s: float, headers: Mapping[str, str]) -> Reply:
        """A small GET, e.g. of health or metrics.

        Raises
        ------
        UnreachableError, BrokenError
            If there is no answer in time.
        """
        try:
            async with asyncio.timeout(timeout_s), self._probes.get(url, headers=headers) as answer:
                return Reply(
                    answer.status,
                    answer.headers.get("Content-Type", "application/json"),
                    await answer.read(),
                )
        except aiohttp.ClientConnectorError as error:
            raise _unreachable(error.os_error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenError(_reason(error)) from error

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> Reply:
        """POST and read the whole answer within a time limit.

        Raises
        ------
        UnreachableError, BrokenError
            As ``stream``.
        """
        try:
            async with asyncio.timeout(timeout_s):
                async with self.stream(url, body, headers=headers, status_s=UNLIMITED) as answer:
                    return await whole(answer)
        except TimeoutError as error:
            raise BrokenError(_reason(error)) from error

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        paused: Callable[[], bool] = lambda: False,
        status_s: float | None = None,
    ) -> AsyncIterator[Answer]:
        """POST and yield the answer once its status is known, within ``status_s`` or ``idle_s``.

        An answer that falls silent for too long breaks, unless ``paused`` says that it is not
        being read just now. Leaving early cuts the connection.

        Raises
        ------
        UnreachableError
            If no connection could be made.
        BrokenError
            If the connection broke, or nothing came, before the status was known.
        """
        origin = _split(url)
        head = _head(origin, headers, len(body))
        wait_s = self._settings.idle_s if status_s is None else status_s
        wire, answer = await self._open(origin, head, body, wait_s=wait_s)
        self._streams[answer] = (wire, _Progress(paused, 0, self._loop.time()))
        try:
            yield answer
        finally:
            del self._streams[answer]
            self._give_back(origin, wire)

    async def _open(
        self, origin: SplitResult, head: bytes, body: bytes, *, wait_s: float
    ) -> tuple[Wire, Answer]:
        wire = self._idle_wire(origin)
        if wire is not None:
            try:
                return wire, await self._ask(wire, head, body, wait_s=wait_s)
            except BrokenError:
                if wire.silent:
                    raise
        wire = await self._connect(origin)
        return wire, await self._ask(wire, head, body, wait_s=wait_s)

    async def _ask(self, wire: Wire, head: bytes, body: bytes, *, wait_s: float) -> Answer:
        self._busy.add(wire)
        try:
            async with asyncio.timeout(None if wait_s == UNLIMITED else wait_s):
                return await wire.send(head, body)
        except TimeoutError as error:
            wire.silent = True
            self._drop(wire)
            raise BrokenError(_reason(error)) from error
        except BaseException:
            self._drop(wire)
            raise

    async def _connect(self, origin: SplitResult) -> Wire:
        secure = origin.scheme == "https"
        if secure and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            async with asyncio.timeout(self._settings.connect_s):
                _, wire = await self._loop.create_connection(
                    lambda: Wire(self._loop),
                    origin.hostname or "",
                    origin.port or PORTS[origin.scheme],
                    ssl=self._tls if secure else None,
                )
        except OSError as error:
            raise _unreachable(error) from error
        return wire

    def _idle_wire(self, origin: SplitResult) -> Wire | None:
        """The connection used last that is still young enough."""
        idle = self._idle.get((origin.scheme, origin.netloc), [])
        while idle:
            wire = idle.pop()
            if wire.reusable and self._young(wire):
                return wire
            wire.close()
        return None

    def _give_back(self, origin: SplitResult, wire: Wire) -> None:
        self._busy.discard(wire)
        if wire.reusable:
            self._idle.setdefault((origin.scheme, origin.netloc), []).append(wire)
        else:
            wire.close()

    def _drop(self, wire: Wire) -> None:
        self._busy.discard(wire)
        wire.close()

    def _young(self, wire: Wire) -> bool:
        return self._loop.time() - wire.idle_since_s < self._settings.keepalive_s

    async def _watch(self) -> None:
        """Break streams that have been silent for too long, close old idle connections."""
        idle_s = self._settings.idle_s
        while True:
            await asyncio.sleep(min(WATCH_S, idle_s / 4))
            now_s = self._loop.time()
            for answer, (wire, progress) in list(self._streams.items()):
                if not progress.moved(answer.received, now_s) and now_s - progress.since_s > idle_s:
                    answer.fail(BrokenError("no answer in time"))
                    wire.close()
            for origin, idle in list(self._idle.items()):
                young = [wire for wire in idle if wire.open and self._young(wire)]
                for wire in set(idle).difference(young):
                    wire.close()
                self._idle[origin] = young


async def whole(answer: Answer) -> Reply:
    """Read an answer to its end."""
    body = await answer.read()
    return Reply(answer.status, answer.content_type, body, answer.headers.get("retry-after"))


@lru_cache(maxsize=1024)
def _split(url: str) -> SplitResult:
    return urlsplit(url)


def _head(origin: SplitResult, headers: Mapping[str, str], length: int) -> bytes:
    lines = [
        f"POST {origin.path or '/'} HTTP/1.1",
        f"Host: {origin.netloc.rpartition('@')[2]}",
        "Accept: */*",
        f"Content-Length: {length}",
        *(f"{name}: {_one_line(value)}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _one_line(value: str) -> str:
    """A header value cannot smuggle in another header."""
    return value.replace("\r", " ").replace("\n", " ").replace("\0", " ")


def _unreachable(error: OSError) -> UnreachableError:
    kind = ExhaustedError if error.errno in EXHAUSTED else UnreachableError
    return kind(_reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return " ".join(str(error).split())[:200] or type(error).__name__
