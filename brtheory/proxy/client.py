"""The client's side of a request: headers late, writes with back-pressure, stalls noticed."""

from collections.abc import Mapping

from aiohttp import web

from brtheory.proxy.faults import RequestError

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
REQUEST_ID = "X-Request-Id"


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

    __slots__ = ("_request", "_stream", "cut_off", "request_id", "response", "writes", "writing")

    def __init__(self, request: web.Request, request_id: str) -> None:
        self._request = request
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
