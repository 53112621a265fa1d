"""A bad row stops strict reading with file and line; skipping drops and counts it by reason."""

from pathlib import Path

import pytest

from brtheory.errors import InputError
from brtheory.traces.read import read_trace
from brtheory.traces.schema import MAX_TOKENS

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
GOOD = "2024-05-12 00:00:00+00:00,1,2\n"
LATER = "2024-05-12 00:00:09+00:00,3,4\n"
STAMP = "2024-05-12 00:00:01+00:00"

CSV_ROWS = [
    (f"{STAMP},1", "wrong number of fields", "3 comma-separated fields, got 2"),
    (f"{STAMP},1,2,3", "wrong number of fields", "3 comma-separated fields, got 4"),
    (f'"{STAMP},1,2', "wrong number of fields", "got a quote that does not close"),
    ("yesterday,1,2", "unreadable time", "got yesterday"),
    (",1,2", "unreadable time", "got nothing"),
    (f"{STAMP},,2", "prompt tokens missing", "prompt tokens from 1 to 10,000,000, got nothing"),
    (f"{STAMP},many,2", "prompt tokens not a whole number", "got many"),
    (f"{STAMP},NaN,2", "prompt tokens not a whole number", "got NaN"),
    (f"{STAMP},inf,2", "prompt tokens not a whole number", "got inf"),
    (f"{STAMP},1.5,2", "prompt tokens not a whole number", "got 1.5"),
    (f"{STAMP},0,2", "prompt tokens below 1", "got 0"),
    (f"{STAMP},1,-4", "output tokens below 1", "output tokens from 1 to 10,000,000, got -4"),
    (f"{STAMP},1,0", "output tokens below 1", "got 0"),
    (f"{STAMP},{MAX_TOKENS + 1},1", "prompt tokens above 10,000,000", f"got {MAX_TOKENS + 1}"),
    (f"{STAMP},{10**30},1", "prompt tokens above 10,000,000", f"got {10**30}"),
    ("2024-05-11 23:59:58+00:00,1,2", "time goes back", "got a time 2 s earlier"),
    # 2024-05-12 to 2060-05-12: 36 years of 365 days and 9 leap days, 13,149 * 86,400 s.
    ("2060-05-12 00:00:00+00:00,1,2", "time too far", "got 1.13607e+09 s after it"),
]


@pytest.mark.parametrize(("row", "reason", "message"), CSV_ROWS)
def test_bad_csv_rows(tmp_path: Path, row: str, reason: str, message: str) -> None:
    path = tmp_path / "azure.csv"
    # Line 3 is blank: it holds no row but counts as a line, so the bad row is on line 4.
    path.write_text(HEADER + GOOD + "\n" + row + "\r\n" + LATER)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:4: expected ")
    assert message in str(caught.value)
    result = read_trace(path, on_error="skip")
    assert result.dropped == {reason: 1}
    assert result.rows_read == 3
    assert result.trace.arrival_s.tolist() == [0.0, 9.0]


NO_NUMBER = "prompt tokens not a whole number"
JSON_ROWS = [
    ('{"timestamp": 1, "input_length": 5', "not JSON"),
    ("garbage", "not JSON"),
    ("[1, 2, 3]", "not a JSON object"),
    ('{"timestamp": 1, "input_length": NaN, "output_length": 1}', NO_NUMBER),
    ('{"timestamp": 1, "input_length": true, "output_length": 1}', NO_NUMBER),
    ('{"timestamp": 1, "input_length": 5}', "output tokens missing"),
    ('{"timestamp": 1, "input_length": null, "output_length": 1}', "prompt tokens missing"),
    ('{"timestamp": -1, "input_length": 5, "output_length": 1}', "unreadable time"),
    (
        '{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": ["x"]}',
        "unreadable prefix id",
    ),
]


@pytest.mark.parametrize(("row", "reason"), JSON_ROWS)
def test_bad_json_rows(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "mooncake"
    good = '{"timestamp": %d, "input_length": 5, "output_length": 2, "hash_ids": [4]}\n'
    path.write_text(good % 0 + row + "\n" + good % 2000)
    with pytest.raises(InputError, match=r":2: expected "):
        read_trace(path)
    result = read_trace(path, on_error="skip")
    assert result.dropped == {reason: 1}
    assert result.trace.arrival_s.tolist() == [0.0, 2.0]


def test_bytes_that_are_not_utf8_spoil_only_their_row(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_bytes((HEADER + GOOD).encode() + b"\xff,1,2\n" + LATER.encode())
    with pytest.raises(InputError, match=r":3: expected text in UTF-8"):
        read_trace(path)
    assert read_trace(path, on_error="skip").dropped == {"unreadable bytes": 1}


def test_a_broken_first_row_does_not_hide_how_times_are_written(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEADER + "oops,1,2\n" + GOOD + LATER)
    result = read_trace(path, on_error="skip")
    assert result.dropped == {"unreadable time": 1}
    assert len(result.trace) == 2


def test_rows_beyond_the_limit_are_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEADER + GOOD + LATER + "broken\n")
    assert len(read_trace(path, limit=2).trace) == 2
    with pytest.raises(InputError, match=r":4: "):
        read_trace(path, limit=3)


def test_nothing_usable_left_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEADER + "x,1,2\ny,1,2\n")
    with pytest.raises(InputError, match=r"none of 2 \(2 unreadable time\)"):
        read_trace(path, on_error="skip")
    path.write_text(HEADER + GOOD)
    with pytest.raises(InputError, match="outside the time slice"):
        read_trace(path, start_s=5.0)


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"start_s": -1.0}, {"end_s": 0.0}, {"start_s": 2.0, "end_s": 1.0},
     {"rate": 0.0}, {"rate": float("nan")}, {"columns": {"prompts": "x"}}],
)  # fmt: skip
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(HEADER + GOOD)
    with pytest.raises(InputError):
        read_trace(path, **options)


def test_half_a_surrogate_pair_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl"
    path.write_text('{"timestamp": 0, "input_length": "\\ud800", "output_length": 1}\n')
    with pytest.raises(InputError, match=r"jsonl:1: expected prompt tokens .* got \\ud800"):
        read_trace(path)


def test_a_column_that_is_there_twice_is_refused_only_if_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("arrival_s,prompt_tokens,Prompt-Tokens,output_tokens\n0,1,2,3\n")
    with pytest.raises(InputError, match=r"csv:1: expected one column 'prompt_tokens'.* got 2"):
        read_trace(path)
    path.write_text("arrival_s,note,note,prompt_tokens,output_tokens\n0,x,y,1,3\n")
    assert read_trace(path).trace.prompt_tokens.tolist() == [1]
