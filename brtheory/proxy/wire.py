"""One upstream connection: an HTTP/1.1 answer is handed on as it comes, with no task in between.

This is where every streamed token passes, so data goes from the socket through one callback to the
client. Parsing is httptools'.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httptools

from brtheory.errors import BrtheoryError

FIRST_FINAL = 200
HELD_LIMIT = 1 << 16
"""Bytes held of an answer nobody takes yet; then reading pauses."""
LARGEST_HEAD = 1 << 18
"""Bytes of an answer in which there is nothing of its body: headers, trailers, extensions."""
LARGEST_WHOLE = 64 << 20
"""Bytes of an answer that is read whole before it is passed on."""


class UnreachableError(BrtheoryError):
    """The connection itself failed: the node has not seen the request."""


class ExhaustedError(UnreachableError):
    """The proxy's own machine had no file or memory left for a connection: no fault of the node."""


class BrokenError(BrtheoryError):
    """The connection broke, or fell silent, after the request may have been seen."""


class LostError(BrokenError):
    """The node, or something between, has closed the connection."""


class Answer:
    """An answer whose status is known and whose body may still be coming.

    Attributes
    ----------
    status, headers
        Names in lower case.
    received
        Bytes of the body so far.
    ended
        Done when the body is complete; fails with ``BrokenError`` when it cannot be.
    """

    def __init__(self, wire: "Wire", status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.received = 0
        self.ended: asyncio.Future[None] = wire.loop.create_future()
        self._wire = wire
        self._held: list[bytes] = []
        self._take: Callable[[bytes], None] | None = None

    @property
    def content_type(self) -> str:
        """As the node labels it."""
        return self.headers.get("content-type", "application/json")

    def deliver(self, take: Callable[[bytes], None]) -> None:
        """Hand all that has come and will come to ``take``.

        What it raises of what has come is raised here; of what comes later, it ends the answer.
        """
        held, self._held = self._held, []
        self._take = take
        if held:
            take(b"".join(held))
        self._wire.resume()

    async def read(self) -> bytes:
        """The whole body.

        Raises
        ------
        BrokenError
            If it does not come, or has no end in sight.
        """
        parts: list[bytes] = []

        def take(data: bytes) -> None:
            if self.received > LARGEST_WHOLE:
                raise BrokenError(f"an answer of more than {LARGEST_WHOLE} bytes")
            parts.append(data)

        self.deliver(take)
        await asyncio.shield(self.ended)
        return b"".join(parts)

    def pause(self) -> None:
        """Stop reading for now."""
        self._wire.pause()

    def resume(self) -> None:
        """Go on reading."""
        self._wire.resume()

    def data(self, data: bytes) -> None:
        """Bytes of the body have come."""
        self.received += len(data)
        if self._take is None:
            self._held.append(data)
            if self.received > HELD_LIMIT:
                self._wire.pause()
            return
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001  # told to whoever awaits the answer
            self.fail(error)
            self._wire.close()

    def complete(self) -> None:
        """The body is complete."""
        if not self.ended.done():
            self.ended.set_result(None)

    def fail(self, error: Exception) -> None:
        """The body cannot be completed."""
        if not self.ended.done():
            self.ended.set_exception(error)
            # Whoever awaits it is told; where nobody does any more, nothing is to be said.
            self.ended.exception()


class Wire(asyncio.Protocol):
    """A connection that carries one request at a time.

    Parameters
    ----------
    loop
        The event loop.

    Attributes
    ----------
    served
        Answers it has completed: more than none means that it is reused.
    idle_since_s
        Since when it has been idle.
    open
        Whether it is there.
    silent
        Whether its last request got no answer in time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.served = 0
        self.idle_since_s = 0.0
        self._transport: Any = None
        self._parser: Any = None
        self._status: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = None
        self._headers: dict[str, str] = {}
        self._keep = False
        self._paused = False
        self._unread = 0
        self.open = False
        self.silent = False

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self.open and self._keep and self._answer is None and self._status is None

    def send(self, head: bytes, body: bytes) -> asyncio.Future[Answer]:
        """Send a request; the result comes with the status.

        The future fails with ``BrokenError`` if the connection breaks before.
        """
        self._status = self.loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._keep, self._unread = {}, False, 0
        self._transport.write(head + body if len(body) < HELD_LIMIT else head)
        if len(body) >= HELD_LIMIT:
            self._transport.write(body)
        return self._status

    def pause(self) -> None:
        """Stop reading."""
        if not self._paused and self.open:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        if self._paused and self.open:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Cut the connection."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    # -- the loop's callbacks --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection is there."""
        self._transport = transport
        self.open = True

    def data_received(self, data: bytes) -> None:
        """Bytes have come; without a request they are none of ours."""
        if self._parser is None:
            self.close()
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(BrokenError(f"not HTTP: {error}"))
            self.close()
        if self._unread > LARGEST_HEAD:
            self._break(BrokenError(f"more than {LARGEST_HEAD} bytes of headers"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has gone; that ends answers which say no length of their own."""
        self.open = False
        answer = self._answer
        framed = "content-length" in self._headers or "transfer-encoding" in self._headers
        if answer is not None and exc is None and not framed:
            answer.complete()
        told = "connection lost" if exc is None else str(exc) or type(exc).__name__
        self._break(LostError(told))

    # -- the parser's callbacks ------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The status is known; interim answers (1xx) are passed over."""
        status = self._parser.get_status_code()
        if status < FIRST_FINAL:
            self._headers = {}
            return
        self._keep = self._parser.should_keep_alive()
        self._answer = Answer(self, status, self._headers)
        if self._status is not None and not self._status.done():
            self._status.set_result(self._answer)
        self._status = None

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unread = 0
        if self._answer is not None:
            self._answer.data(body)

    def on_message_complete(self) -> None:
        """The answer is complete, and the connection free."""
        answer, self._answer = self._answer, None
        if answer is not None:
            self._unread = 0
            self.served += 1
            self.idle_since_s = self.loop.time()
            self._parser = None
            self.resume()
            answer.complete()

    def _break(self, error: BrokenError) -> None:
        if self._status is not None and not self._status.done():
            self._status.set_exception(error)
        if self._answer is not None:
            self._answer.fail(error)
        self._status = self._answer = self._parser = None
