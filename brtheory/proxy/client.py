"""The client's side of a request: headers late, writes with back-pressure, stalls noticed."""

import asyncio
from collections.abc import Mapping

from aiohttp import HttpVersion11, web

from brtheory.proxy.faults import RequestError

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
REQUEST_ID = "X-Request-Id"
HIGH_WATER, LOW_WATER = 1 << 16, 1 << 14
"""Bytes waiting for the client at which upstream is no longer read, and is read again."""
CATCH_UP_S = 0.005


class ClientGoneError(Exception):
    """The client has closed its connection."""


class ClientSide:
    """Answers one request.

    Parameters
    ----------
    request
        As the server got it.
    request_id
        Sent back in a header.

    Attributes
    ----------
    response
        What has been answered, None while nothing has.
    writes
        Writes the client has taken.
    cut_off
        Whether its cancellation is the proxy's doing, so that it must be told.
    writing
        Whether one is under way, and perhaps waiting for the client to read.
    """

    __slots__ = (
        "_chunked",
        "_request",
        "_stream",
        "cut_off",
        "request_id",
        "response",
        "writes",
        "writing",
    )

    def __init__(self, request: web.Request, request_id: str) -> None:
        self._request = request
        self._chunked = False
        self._stream: web.StreamResponse | None = None
        self.request_id = request_id
        self.response: web.StreamResponse | None = None
        self.writes = 0
        self.writing = False
        self.cut_off = False

    @property
    def streaming(self) -> bool:
        """Whether headers of a stream have been sent."""
        return self._stream is not None

    def is_writing(self) -> bool:
        """Whether a write is under way: then upstream is not being read."""
        return self.writing

    async def start(self) -> None:
        """Send the headers of an event stream."""
        self._stream = web.StreamResponse(headers={**STREAM_HEADERS, REQUEST_ID: self.request_id})
        self._chunked = self._request.version >= HttpVersion11
        if self._chunked:
            self._stream.enable_chunked_encoding()
        self.response = self._stream
        try:
            await self._stream.prepare(self._request)
        except OSError as error:
            raise ClientGoneError from error

    async def write(self, data: bytes) -> None:
        """Send bytes of the stream; waits while the client does not read.

        Raises
        ------
        ClientGoneError
            If it has left.
        """
        assert self._stream is not None  # noqa: S101  # ``start`` comes first
        self.writing = True
        try:
            await self._stream.write(data)
        except OSError as error:
            raise ClientGoneError from error
        self.writes += 1
        self.writing = False

    def push(self, data: bytes) -> bool:
        """Send bytes of a stream that has begun, at once; returns whether the client keeps up.

        Raises
        ------
        ClientGoneError
            If it has left.
        """
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ClientGoneError
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return transport.get_write_buffer_size() <= HIGH_WATER

    async def caught_up(self) -> None:
        """Wait until the client has read most of what was pushed; each bit read is progress.

        Raises
        ------
        ClientGoneError
            If it has left.
        """
        self.writing, before = True, 1 << 62
        while True:
            transport = self._request.transport
            if transport is None or transport.is_closing():
                raise ClientGoneError
            left = transport.get_write_buffer_size()
            if left <= LOW_WATER:
                break
            self.writes += left < before
            before = left
            await asyncio.sleep(CATCH_UP_S)
        self.writes += 1
        self.writing = False

    async def end(self) -> None:
        """End the stream."""
        assert self._stream is not None  # noqa: S101  # ``start`` comes first
        self.writing = True
        try:
            await self._stream.write_eof()
        except OSError as error:
            raise ClientGoneError from error
        self.writes += 1
        self.writing = False

    def whole(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Set a whole answer; it is sent when the handler returns."""
        self.response = web.Response(
            status=status,
            body=body,
            headers={
                "Content-Type": content_type,
                REQUEST_ID: self.request_id,
                **(headers or {}),
            },
        )

    def fail(self, error: RequestError) -> None:
        """Set an error of the proxy as the answer."""
        retry = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
        self.whole(error.status, error.body(), headers=retry)

    def abort(self) -> None:
        """Cut the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()
