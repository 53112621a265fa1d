"""Server-sent events, without I/O: bytes in, events out, split anywhere.

An event ends at a blank line; lines end in LF, CRLF or CR. The raw bytes of every event are kept,
so that what needs no change is forwarded untouched: the raw bytes of all events and the rest
returned by ``finish`` concatenate to exactly what came in.
"""

import re
from typing import NamedTuple

from brtheory.errors import BrtheoryError

DONE_DATA = b"[DONE]"
DONE = b"data: [DONE]\n\n"
DEFAULT_EVENT_LIMIT = 4 << 20
"""Bytes of the largest event accepted: a chunk with prompt log probabilities can be long."""

_LINE_END = rb"(?:\r\n|\n|\r(?!\n))"
_BLANK = re.compile(_LINE_END)
_EVENT_END = re.compile(_LINE_END * 2)
_WHOLE = re.compile(rb"\n|.*?\n\n", re.DOTALL)
_LINES = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseError(BrtheoryError):
    """The peer sent something that is not an acceptable event stream."""


class SseEvent(NamedTuple):
    """One event.

    Parameters
    ----------
    raw
        Its bytes as they came, the blank line included.
    data
        The data lines joined by LF, None where there are none (comments, keep-alives).
    name
        The ``event:`` field, None where there is none.
    """

    raw: bytes
    data: bytes | None
    name: bytes | None = None

    @property
    def is_done(self) -> bool:
        """Whether this is the ``[DONE]`` that ends an OpenAI stream."""
        return self.data == DONE_DATA


class SseDecoder:
    """Cuts a byte stream into events.

    Parameters
    ----------
    limit
        Largest event in bytes, >= 1.
    """

    def __init__(self, limit: int = DEFAULT_EVENT_LIMIT) -> None:
        self._limit = limit
        self._rest = b""
        self._searched = 0

    @property
    def idle(self) -> bool:
        """Whether no part of an event is waiting for its rest."""
        return not self._rest

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take bytes in and return the events they complete.

        A CR at the very end waits for the next byte, which may be its LF.

        Raises
        ------
        SseError
            If an event is larger than the limit.
        """
        if not self._rest and chunk[-2:] == b"\n\n" and b"\r" not in chunk:
            return [self._event(raw) for raw in _whole(chunk)]
        buffer, events, start = self._rest + chunk, [], 0
        while (end := self._end(buffer, start)) is not None:
            events.append(self._event(buffer[start:end]))
            start, self._searched = end, 0
        self._rest = buffer[start:]
        self._searched = max(0, len(self._rest) - 3)
        if len(self._rest) > self._limit:
            raise SseError(f"an event of more than {self._limit} bytes")
        return events

    def finish(self) -> bytes:
        """Return, and forget, the bytes after the last complete event; empty on a clean end."""
        rest, self._rest, self._searched = self._rest, b"", 0
        return rest

    def _end(self, buffer: bytes, start: int) -> int | None:
        """End of the event that begins at ``start``; a blank line there is an event by itself."""
        match = _BLANK.match(buffer, start) or _EVENT_END.search(buffer, start + self._searched)
        if match is None or (match.end() == len(buffer) and buffer[-1:] == b"\r"):
            return None
        return match.end()

    def _event(self, raw: bytes) -> SseEvent:
        if len(raw) > self._limit:
            raise SseError(f"an event of more than {self._limit} bytes")
        if raw[:6] == b"data: " and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
            return SseEvent(raw, raw[6:-2])
        return _parse(raw)


def encode_event(data: bytes, *, name: bytes | None = None) -> bytes:
    """One event of ``data``, each of its lines a data line."""
    head = b"" if name is None else b"event: " + name + b"\n"
    return head + b"".join(b"data: " + line + b"\n" for line in _LINES.split(data)) + b"\n"


def _whole(chunk: bytes) -> list[bytes]:
    """Raw events of a chunk that begins and ends at an event's border and knows only LF."""
    if chunk.find(b"\n\n") == len(chunk) - 2 and chunk[:1] != b"\n":
        return [chunk]
    return _WHOLE.findall(chunk)


def _parse(raw: bytes) -> SseEvent:
    data: list[bytes] = []
    name = None
    for line in _LINES.split(raw.removeprefix(_BOM)):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return SseEvent(raw, b"\n".join(data) if data else None, name)
