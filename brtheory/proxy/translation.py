"""One decode stream as the client gets it, without I/O: bytes in, bytes out, tokens counted.

What ends a stream decides what the client is told: ``[DONE]`` ends it well; an end without it is a
truncation, told by an error event; an error event of the engine passes through.
"""

from collections.abc import Callable
from enum import Enum

from brtheory.proxy.chunk import Chunk, ChunkKind, quick_usage, read_chunk
from brtheory.proxy.continuation import Transcript, wants_recompute
from brtheory.proxy.counting import TokenCounter
from brtheory.proxy.faults import error_body
from brtheory.proxy.sse import DONE, DONE_DATA, SseDecoder, SseEvent, encode_event

FRAMING = len(b"data: \n\n")
LAST = read_chunk(DONE_DATA)
"""What ends a stream, to editors: nothing comes after it."""

Take = Callable[[SseEvent, Chunk], bytes]
"""What to forward for a chunk: an editor's ``edit``, or an assembler that forwards nothing."""


class Ending(Enum):
    """How a stream ended."""

    DONE = "done"
    ERROR = "error"
    TRUNCATED = "truncated"
    RECOMPUTED = "recomputed"


class Translation:
    """A stream in progress.

    Parameters
    ----------
    take
        See ``Take``.
    counter
        Counts its tokens.
    grow
        Called with each change of the count.
    limit
        Largest event in bytes.
    transcript
        Remembers the text, where the engine may preempt; else None.
    on_prompt
        Called once with the prompt's tokens, when the stream tells them.

    quick
        ``StreamEditor.quick``, for a stream of one choice; None looks at every chunk closely.

    Attributes
    ----------
    ending
        How it ended, None while it goes on.
    error
        Data of the engine's error event, None where there was none.
    """

    def __init__(
        self,
        take: Take,
        counter: TokenCounter,
        *,
        grow: Callable[[int], None],
        limit: int,
        transcript: Transcript | None = None,
        on_prompt: Callable[[int], None] | None = None,
        quick: bool | None = None,
    ) -> None:
        self._take = take
        self._counter = counter
        self._grow = grow
        self._decoder = SseDecoder(limit)
        self._limit = limit
        self._transcript = transcript
        self._on_prompt = on_prompt
        self._quick = None if transcript is not None else quick
        self.ending: Ending | None = None
        self.error: bytes | None = None

    def ended(self) -> bool:
        """Whether the stream is over."""
        return self.ending is not None

    def feed(self, data: bytes) -> bytes:
        """Bytes to forward for bytes that came; nothing once the stream has ended.

        Raises
        ------
        SseError
            If an event is larger than the limit.
        """
        if self.ending is not None:
            return b""
        if self._quick is not None and self._is_one_line(data):
            plain = self._plain(data, data[6:-2])
            if plain is not None:
                return plain
        out = []
        for event in self._decoder.feed(data):
            if event.data is None:
                out.append(event.raw)
            elif event.data == DONE_DATA:
                self.ending = Ending.DONE if self.error is None else Ending.ERROR
                out.append(self._take(event, LAST))
                break
            elif (plain := self._plain(event.raw, event.data)) is not None:
                out.append(plain)
            else:
                out.append(self._translate(event, read_chunk(event.data)))
                if self.ended():
                    break
        return out[0] if len(out) == 1 else b"".join(out)

    def finish(self) -> bytes:
        """Bytes to forward when upstream has closed: what makes the end unmistakable."""
        if self.ended():
            return b""
        if self._decoder.finish().strip().endswith(DONE_DATA):
            self.ending = Ending.DONE if self.error is None else Ending.ERROR
        else:
            self.ending = Ending.TRUNCATED if self.error is None else Ending.ERROR
        early = self.ending is Ending.TRUNCATED
        end = interruption("the stream from the decode node ended early") if early else DONE
        return self._take(SseEvent(end, DONE_DATA, None), LAST)

    def _is_one_line(self, data: bytes) -> bool:
        """Whether a read is one whole event of one line, as nearly every read of a stream is."""
        return (
            data[:6] == b"data: "
            and data[-1:] == b"\n"
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
            and len(data) <= self._limit
            and self._decoder.idle
        )

    def _plain(self, raw: bytes, data: bytes) -> bytes | None:
        """The quick way for a plain chunk, None where a closer look is needed."""
        if self._quick is None or self._on_prompt is not None:
            return None
        known = quick_usage(data)
        if known is None or len(raw) != len(data) + FRAMING:
            return None
        grown = self._counter.observe_total(known[0])
        if grown:
            self._grow(grown)
        return b"data: " + known[1] + b"\n\n" if self._quick else raw

    def _translate(self, event: SseEvent, chunk: Chunk) -> bytes:
        grown = self._counter.observe(chunk)
        if grown:
            self._grow(grown)
        if self._on_prompt is not None and chunk.prompt_tokens is not None:
            self._on_prompt(chunk.prompt_tokens)
            self._on_prompt = None
        if chunk.kind is ChunkKind.ERROR and self.error is None:
            self.error = chunk.data
        if self._transcript is not None:
            return self._remember(event, chunk, self._transcript)
        return self._take(event, chunk)

    def _remember(self, event: SseEvent, chunk: Chunk, transcript: Transcript) -> bytes:
        if wants_recompute(chunk):
            self.ending = Ending.RECOMPUTED
            return b""
        transcript.add(chunk)
        if transcript.tokens:
            data = transcript.shown(chunk.data)
            event = SseEvent(encode_event(data, name=event.name), data, event.name)
            chunk = read_chunk(data)
        return self._take(event, chunk)


def interruption(message: str, *, status: int = 502, code: str = "stream_interrupted") -> bytes:
    """An error event and ``[DONE]``: how a stream ends that cannot end well."""
    return encode_event(error_body(status, message, code=code)) + DONE
