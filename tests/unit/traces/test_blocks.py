"""Blocks hold whole lines, know their number, and stay small."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brtheory.traces.blocks
from brtheory.errors import InputError
from brtheory.traces.blocks import read_blocks
from brtheory.traces.read import stream_trace


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("ab,", max_size=20), max_size=30), st.booleans(), st.integers(1, 64),
    st.booleans(),
)  # fmt: skip
def test_blocks_are_the_file_and_know_their_lines(
    tmp_path: Path, lines: list[str], ends: bool, size: int, packed: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ends else b"")
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data) if packed else data)
    number, joined = 1, b""
    for block in read_blocks(path, block_bytes=size):
        assert block.first_line == number
        number += block.data.count(b"\n")
        joined += block.data
    assert joined == data


def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(bytes(range(256)) * 5000))
    seen: list[int] = []
    for _ in read_blocks(path, on_progress=seen.append):
        pass
    assert sum(seen) == path.stat().st_size


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brtheory.traces.blocks, "LONGEST_LINE_BYTES", 1000)
    path = tmp_path / "file"
    path.write_bytes(b"short\n" + b"x" * 5000)
    with pytest.raises(InputError, match=r":2: expected lines of at most 1,000 bytes"):
        list(read_blocks(path, block_bytes=100))


def test_padding_after_a_gzip_member_is_allowed_and_other_bytes_are_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(b"a\n") + b"\0" * 512)
    assert [block.data for block in read_blocks(path)] == [b"a\n"]
    path.write_bytes(gzip.compress(b"a\n") + b"more")
    with pytest.raises(InputError, match=r"expected a sound gzip stream"):
        list(read_blocks(path))


def test_a_long_file_streams_in_bounded_batches(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = 400_000
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + "1234567,1234567,1234567\n" * rows)
    sizes = [len(batch) for batch in stream_trace(path)]
    assert sum(sizes) == rows
    # 24 bytes a row: no batch holds more rows than a block (and one piece read on top) can.
    assert max(sizes) <= (brtheory.traces.blocks.BLOCK_BYTES + (1 << 20)) / 24
