"""Talking to the nodes: connection pools, time limits, and failures told apart by what is safe.

The engines close idle connections after 5 s, so ours expire earlier; a reset on a reused one
before any byte of an answer is tried once more on a fresh one. No total time limit on streams.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp

from brtheory.errors import BrtheoryError
from brtheory.proxy.settings import UpstreamSettings

WATCH_S = 1.0
READ_BUFFER = 1 << 16
"""Bytes buffered of a stream the client does not read: twice this, then reading pauses."""


class UnreachableError(BrtheoryError):
    """The connection itself failed: the node has not seen the request."""


class BrokenError(BrtheoryError):
    """The connection broke, or fell silent, after the request may have been seen."""


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
    """

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=settings.connect_s, sock_read=None
        )
        self._pooled = self._session(timeout, keep=True)
        self._fresh = self._session(timeout, keep=False)
        self._streams: dict[aiohttp.ClientResponse, _Progress] = {}
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Close all connections."""
        self._watcher.cancel()
        await asyncio.gather(self._watcher, return_exceptions=True)
        await self._pooled.close()
        await self._fresh.close()

    @property
    def open_connections(self) -> int:
        """Connections in use now."""
        connectors = (self._pooled.connector, self._fresh.connector)
        return sum(len(c._acquired) for c in connectors if c is not None)

    async def get(self, url: str, *, timeout_s: float, headers: Mapping[str, str]) -> Reply:
        """A small GET, e.g. of health or metrics.

        Raises
        ------
        UnreachableError, BrokenError
            If there is no answer in time.
        """
        try:
            async with asyncio.timeout(timeout_s), self._fresh.get(url, headers=headers) as answer:
                return await _whole(answer)
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(_reason(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
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
            async with (
                asyncio.timeout(timeout_s),
                self.stream(url, body, headers=headers) as answer,
            ):
                return await _whole(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BrokenError(_reason(error)) from error

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        paused: Callable[[], bool] = lambda: False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """POST and yield the answer once its status is known.

        Reading an answer that falls silent for too long fails, unless ``paused`` says that it is
        not being read just now.

        Raises
        ------
        UnreachableError
            If no connection could be made.
        BrokenError
            If the connection broke before the status was known.
        """
        try:
            async with asyncio.timeout(self._settings.idle_s):
                answer = await self._open(url, body, headers)
        except TimeoutError as error:
            raise BrokenError(_reason(error)) from error
        self._streams[answer] = _Progress(paused, 0, self._loop.time())
        try:
            yield answer
        finally:
            del self._streams[answer]
            answer.close() if not answer.content.at_eof() else answer.release()

    async def _watch(self) -> None:
        """Close streams that have been silent for too long; costs nothing per chunk."""
        idle_s = self._settings.idle_s
        while True:
            await asyncio.sleep(min(WATCH_S, idle_s / 4))
            now_s = self._loop.time()
            for answer, progress in list(self._streams.items()):
                if progress.moved(answer.content.total_bytes, now_s):
                    continue
                if now_s - progress.since_s > idle_s:
                    answer.close()

    async def _open(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        context = SimpleNamespace(reused=False)
        try:
            return await self._pooled.post(
                url, data=body, headers=headers, trace_request_ctx=context, allow_redirects=False
            )
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(_reason(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            timed_out = isinstance(error, TimeoutError)
            if timed_out and isinstance(error, aiohttp.ConnectionTimeoutError):
                raise UnreachableError(_reason(error)) from error
            if timed_out or not context.reused:
                raise BrokenError(_reason(error)) from error
        return await self._open_fresh(url, body, headers)

    async def _open_fresh(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        try:
            return await self._fresh.post(url, data=body, headers=headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachableError(_reason(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BrokenError(_reason(error)) from error

    def _session(self, timeout: aiohttp.ClientTimeout, *, keep: bool) -> aiohttp.ClientSession:
        connector = (
            aiohttp.TCPConnector(limit=0, keepalive_timeout=self._settings.keepalive_s)
            if keep
            else aiohttp.TCPConnector(limit=0, force_close=True)
        )
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            trace_configs=[trace] if keep else [],
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent",),
            headers={"Accept-Encoding": "identity"},
            read_bufsize=READ_BUFFER,
        )


async def _note_reuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: Any
) -> None:
    del session, params
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.reused = True


async def _whole(answer: aiohttp.ClientResponse) -> Reply:
    return Reply(
        status=answer.status,
        content_type=answer.headers.get("Content-Type", "application/json"),
        body=await answer.read(),
        retry_after=answer.headers.get("Retry-After"),
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return " ".join(str(error).split())[:200] or type(error).__name__
