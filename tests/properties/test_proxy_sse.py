"""Laws of the event stream: however the bytes are split, the events are the same."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brtheory.proxy.sse import DONE, SseDecoder, SseError, SseEvent, encode_event

LINES = st.sampled_from(
    [
        *(b"data: x", b"data:x", b"data:  two", b"data", b": hello", b"event: error", b"id: 7"),
        *("data: héé世界😀".encode(), b'data: {"a":"b"}', b"data: [DONE]", b"nonsense", b""),
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=14).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


def decode(pieces: list[bytes]) -> tuple[list[SseEvent], bytes]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events, decoder.finish()


@settings(deadline=None)
@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200), max_size=6))
@example(stream=b"data: x\r\n\r\ndata: y\r\r", cuts=[8, 9, 10])
@example(stream=b"\n\ndata: x\n\n\n\n", cuts=[1])
def test_events_do_not_depend_on_where_reads_end(stream: bytes, cuts: list[int]) -> None:
    borders = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[a:b] for a, b in pairwise(borders)]
    events, rest = decode(pieces)
    by_byte = decode([stream[i : i + 1] for i in range(len(stream))])
    assert (events, rest) == by_byte == decode([stream])
    assert b"".join(event.raw for event in events) + rest == stream


@settings(deadline=None)
@given(stream=STREAMS.filter(lambda text: not text.startswith(b"\xef\xbb\xbf")))
def test_data_is_what_the_standard_says(stream: bytes) -> None:
    """Against a line-by-line reading of the standard; the rest is never dispatched."""
    events, rest = decode([stream])
    text = stream[: len(stream) - len(rest)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    expected: list[bytes] = []
    lines: list[bytes] = []
    for line in text.split(b"\n"):
        if line == b"" and lines:
            expected.append(b"\n".join(lines))
            lines = []
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value[1:] if value[:1] == b" " else value)
    assert [event.data for event in events if event.data is not None] == expected


@settings(deadline=None)
@given(data=st.binary(max_size=40).filter(lambda text: b"\r" not in text))
def test_an_encoded_event_decodes_to_its_data(data: bytes) -> None:
    (event,), rest = decode([encode_event(data, name=b"error")])
    assert (event.data, event.name, rest) == (data, b"error", b"")


@settings(deadline=None)
@given(size=st.integers(0, 60), step=st.integers(1, 70))
def test_an_event_beyond_the_limit_is_refused_whole_or_in_pieces(size: int, step: int) -> None:
    raw = b"data: " + b"x" * size + b"\n\n"
    decoder = SseDecoder(limit=32)
    pieces = [raw[i : i + step] for i in range(0, len(raw), step)]
    if len(raw) <= 32:
        assert [e for piece in pieces for e in decoder.feed(piece)] == [SseEvent(raw, b"x" * size)]
        return
    with pytest.raises(SseError, match="more than 32 bytes"):
        [decoder.feed(piece) for piece in pieces]


def test_done_is_recognised_with_and_without_a_space() -> None:
    events, _ = decode([DONE, b"data:[DONE]\r\n\r\n"])
    assert [event.is_done for event in events] == [True, True]
