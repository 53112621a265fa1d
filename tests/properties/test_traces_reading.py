"""Laws of reading traces, on generated files."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import brtheory.traces.source
from brtheory.errors import InputError
from brtheory.traces.blocks import read_blocks
from brtheory.traces.canonical import write_trace
from brtheory.traces.read import OnError, read_trace
from brtheory.traces.schema import MAX_TOKENS, Trace

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "prefix_id")
a_file = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
tokens = st.integers(1, MAX_TOKENS)
gaps = st.floats(0, 1e6, allow_nan=False)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(
        st.lists(st.tuples(gaps, tokens, tokens, st.integers(-1, 9)), min_size=1, max_size=30)
    )
    arrival = np.cumsum([row[0] for row in rows])
    columns = [np.array([row[place] for row in rows]) for place in (1, 2, 3)]
    prefix = columns[2] if draw(st.booleans()) else None
    return Trace("t", "drawn", True, arrival - arrival[0], columns[0], columns[1], prefix)


def assert_same(left: Trace, right: Trace) -> None:
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(left, column), getattr(right, column))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@a_file
@given(trace=traces())
def test_canonical_files_give_back_the_same_bits(tmp_path: Path, name: str, trace: Trace) -> None:
    path = tmp_path / name
    write_trace(trace, path)
    result = read_trace(path)
    assert result.format == "canonical"
    assert_same(result.trace, trace)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@a_file
@given(trace=traces())
def test_parquet_keeps_the_provenance(tmp_path: Path, trace: Trace) -> None:
    write_trace(trace, tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet").trace
    assert (read.name, read.source, read.synthetic) == ("t", "drawn", True)


@a_file
@given(trace=traces(), block_bytes=st.integers(1, 200), end=st.sampled_from(["\n", "\r\n"]))
def test_the_size_of_blocks_does_not_matter(
    tmp_path: Path, trace: Trace, block_bytes: int, end: str
) -> None:
    path = tmp_path / "t.csv"
    write_trace(trace, path)
    path.write_text(path.read_text().rstrip("\n").replace("\n", end), newline="")
    with pytest.MonkeyPatch.context() as patch:
        small = partial(read_blocks, block_bytes=block_bytes)
        patch.setattr(brtheory.traces.source, "read_blocks", small)
        assert_same(read_trace(path).trace, trace)


BAD_LINES = ("", "1", "1,2,3,4,5", "x,1,1", "0,0,1", "0,1,-1", "0,nan,1", '0,"1,1', "-1,1,1", "\0")


@a_file
@given(
    trace=traces(),
    bad=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(BAD_LINES)), max_size=8),
    block_bytes=st.sampled_from([16, 1 << 20]),
)
def test_skipping_leaves_exactly_the_good_rows_and_counts_every_other(
    tmp_path: Path, trace: Trace, bad: list[tuple[int, str]], block_bytes: int
) -> None:
    path = tmp_path / "t.csv"
    plain = Trace("t", "drawn", False, trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
    write_trace(plain, path)
    lines = path.read_text().splitlines()
    for place, line in bad:
        lines.insert(1 + min(place, len(lines) - 1), line)
    path.write_text("\n".join(lines) + "\n")
    broken = [number for number, line in enumerate(lines, 1) if line in BAD_LINES and line.strip()]
    with pytest.MonkeyPatch.context() as patch:
        small = partial(read_blocks, block_bytes=block_bytes)
        patch.setattr(brtheory.traces.source, "read_blocks", small)
        result = read_trace(path, on_error="skip")
        assert_same(result.trace, plain)
        assert sum(result.dropped.values()) == len(broken)
        assert result.rows_read == len(plain) + len(broken)
        if broken:
            with pytest.raises(InputError) as caught:
                read_trace(path)
            assert caught.value.where == f"{path}:{broken[0]}"


@a_file
@given(times=st.lists(st.integers(0, 20), min_size=1, max_size=30))
@example(times=[5, 3, 4, 5, 1, 9])
def test_skipping_keeps_the_rows_that_set_or_equal_the_latest_time(
    tmp_path: Path, times: list[int]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{t},1,1\n" for t in times)
    )
    kept = [t for t, latest in zip(times, np.maximum.accumulate(times), strict=True) if t == latest]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brtheory.traces.source, "read_blocks", partial(read_blocks, block_bytes=8))
        result = read_trace(path, on_error="skip")
    assert result.trace.arrival_s.tolist() == [float(t - kept[0]) for t in kept]
    assert sum(result.dropped.values()) == len(times) - len(kept)


@a_file
@given(
    trace=traces(),
    window=st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e7)),
    limit=st.integers(1, 40),
    rate=st.floats(0.1, 10),
)
def test_slicing_limit_and_rate_act_as_on_arrays(
    tmp_path: Path, trace: Trace, window: tuple[float, float], limit: int, rate: float
) -> None:
    start, length = window
    path = tmp_path / "t.csv"
    write_trace(trace, path)
    inside = (trace.arrival_s >= start) & (trace.arrival_s < start + length)
    rows = np.flatnonzero(inside)[:limit]
    read = partial(read_trace, path, start_s=start, end_s=start + length, limit=limit, rate=rate)
    if len(rows) == 0:
        with pytest.raises(InputError):
            read()
        return
    result = read()
    expected = (trace.arrival_s[rows] - trace.arrival_s[rows[0]]) / rate
    np.testing.assert_array_equal(result.trace.arrival_s, expected)
    np.testing.assert_array_equal(result.trace.prompt_tokens, trace.prompt_tokens[rows])


def two_members(text: bytes) -> bytes:
    return gzip.compress(text[:70]) + gzip.compress(text[70:])


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, two_members])
def test_compression_is_seen_through_and_a_cut_is_never_missed(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    text = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(
        b"%d,%d,1\n" % (i, i + 1) for i in range(40)
    )
    path = tmp_path / "misleading.jsonl"
    packed = compress(text)
    path.write_bytes(packed)
    assert read_trace(path).trace.prompt_tokens.tolist() == list(range(1, 41))
    # A cut between two members leaves a whole, shorter stream; it is the only place that may pass.
    seam = len(gzip.compress(text[:70])) if compress is two_members else 0
    for length in range(4, len(packed)):
        if length != seam:
            path.write_bytes(packed[:length])
            with pytest.raises(InputError):
                read_trace(path, on_error="skip")


HEADS = (
    b"",
    b"arrival_s,prompt_tokens,output_tokens\n",
    b'{"timestamp":0,"input_length":1,"output_length":1}\n',
    b"0,1,1,Gamma,1,1\n",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b"\xef\xbb\xbf",
)


@settings(a_file, max_examples=150)
@given(
    head=st.sampled_from(HEADS),
    tail=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
    on_error=st.sampled_from(["raise", "skip"]),
)
@example(head=b"", tail=b"\x01\r\x01", on_error="raise")
def test_no_file_whatever_makes_the_reader_crash(
    tmp_path: Path, head: bytes, tail: bytes, on_error: OnError
) -> None:
    path = tmp_path / "any"
    path.write_bytes(head + tail)
    with suppress(InputError):
        assert len(read_trace(path, on_error=on_error).trace) >= 1
