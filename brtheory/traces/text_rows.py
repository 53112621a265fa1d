"""Rows of CSV and JSON Lines files: blocks of text become columns of text, one row a line.

Splitting is vectorised; single lines are looked at only where a block holds quotes (CSV), a line
that is no usable JSON object, or bytes that are not UTF-8. Blank lines hold no row and are passed
over; they still count as lines.
"""

import csv
import json
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from brtheory.traces.blocks import Block
from brtheory.traces.checks import RawRows
from brtheory.traces.faults import FaultKind, Faults
from brtheory.traces.formats import PREFIX, Layout


@dataclass(frozen=True)
class Lines:
    """Lines of a block that are not blank.

    Parameters
    ----------
    number
        Shape (lines,), int64, counted from 1 in the uncompressed file.
    text
        The lines without line ends and outer blanks.
    unreadable
        Shape (lines,), bool: lines that are not UTF-8.
    """

    number: NDArray[np.int64]
    text: pl.Series
    unreadable: NDArray[np.bool_]

    def skip(self, lines: int) -> "Lines":
        """Return the same without the first ``lines`` lines."""
        return Lines(self.number[lines:], self.text[lines:], self.unreadable[lines:])


def lines_of(block: Block) -> Lines:
    """Split a block into its lines."""
    try:
        text = block.data.decode("utf-8")
        unreadable = None
    except UnicodeDecodeError:
        text = block.data.decode("utf-8", errors="replace")
        unreadable = np.array([not _is_utf8(line) for line in block.data.split(b"\n")])
    frame = pl.DataFrame({"line": [text]}).select(
        pl.col("line").str.split("\n").explode().str.strip_chars()
    )
    there = (frame["line"] != "").to_numpy()
    index = np.flatnonzero(there)
    return Lines(
        number=index + block.first_line,
        text=frame["line"].filter(pl.Series(there)),
        unreadable=np.zeros(len(index), np.bool_) if unreadable is None else unreadable[there],
    )


def split_header(line: str) -> tuple[str, ...]:
    """Return the fields of one CSV line; split at every comma where quotes do not close."""
    return tuple(_split_line(line)) or tuple(line.split(","))


def object_keys(line: str) -> tuple[str, ...]:
    """Return the keys of a line that is a JSON object; none if it is something else."""
    value = _loads(line)
    return tuple(value) if isinstance(value, dict) else ()


def csv_rows(
    blocks: Iterable[Lines], layout: Layout, *, path: Path
) -> Generator[RawRows, None, None]:
    """Yield the columns of a CSV file's data lines (the header is already gone)."""
    places = {role: layout.fields.index(name) for role, name in layout.columns.items()}
    for lines in blocks:
        faults = _new_faults(lines, path)
        width = len(layout.fields)
        fields = _split_quoted if _has_quotes(lines.text) else _split_plain
        columns, found = fields(lines.text, places, width=width)
        _mark_width(faults, found, width=width)
        yield RawRows(columns, faults)


def jsonl_rows(
    blocks: Iterable[Lines], layout: Layout, *, path: Path
) -> Generator[RawRows, None, None]:
    """Yield the columns of a JSON Lines file."""
    for lines in blocks:
        faults = _new_faults(lines, path)
        frame = lines.text.alias("line").to_frame()
        columns = {
            role: frame.select(pl.col("line").str.json_path_match(_json_path(role, name)))["line"]
            for role, name in layout.columns.items()
        }
        _look_at_unusable_lines(faults, lines.text, columns, layout=layout)
        yield RawRows(columns, faults)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _new_faults(lines: Lines, path: Path) -> Faults:
    faults = Faults(lambda row: f"{path}:{lines.number[row]}", np.zeros(len(lines.text), np.int64))
    kind = FaultKind("unreadable bytes", "text in UTF-8", lambda _: "other bytes")
    faults.mark(lines.unreadable, kind)
    return faults


def _has_quotes(text: pl.Series) -> bool:
    return bool(text.str.contains('"', literal=True).any())


def _split_plain(
    text: pl.Series, places: Mapping[str, int], *, width: int
) -> tuple[dict[str, pl.Series], NDArray[np.int64]]:
    """Return the wanted columns and the number of fields of each line (no quotes in sight)."""
    del width
    fields = text.str.split(",")
    columns = {role: fields.list.get(place, null_on_oob=True) for role, place in places.items()}
    return columns, fields.list.len().to_numpy().astype(np.int64)


def _split_quoted(
    text: pl.Series, places: Mapping[str, int], *, width: int
) -> tuple[dict[str, pl.Series], NDArray[np.int64]]:
    """Do the same where fields may be quoted; -1 fields where quotes do not close."""
    frame = _parse_whole_block(text, width=width)
    if frame is not None:
        names = frame.columns
        columns = {role: frame[names[place]] for role, place in places.items()}
        return columns, np.full(len(text), width, np.int64)
    rows = [_split_line(line) for line in text]
    columns = {
        role: pl.Series([row[place] if place < len(row) else None for row in rows], dtype=pl.String)
        for role, place in places.items()
    }
    return columns, np.array([len(row) or -1 for row in rows], np.int64)


def _parse_whole_block(text: pl.Series, *, width: int) -> pl.DataFrame | None:
    """Return all fields by the fast parser, or None where it and the lines might not agree."""
    try:
        frame = pl.read_csv(
            text.str.join("\n")[0].encode(),
            has_header=False,
            infer_schema=False,
            new_columns=[f"field{place}" for place in range(width)],
        )
    except pl.exceptions.PolarsError:
        return None
    whole = frame.shape == (len(text), width) and not any(frame.null_count().row(0))
    return frame if whole else None


def _split_line(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _mark_width(faults: Faults, found: NDArray[np.int64], *, width: int) -> None:
    def got(row: int) -> str:
        return f"{found[row]} of them" if found[row] >= 0 else "a quote that does not close"

    expected = f"{width} comma-separated fields"
    faults.mark(found != width, FaultKind("wrong number of fields", expected, got))


def _json_path(role: str, name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'$["{escaped}"]' + ("[0]" if role == PREFIX else "")


def _look_at_unusable_lines(
    faults: Faults, text: pl.Series, columns: dict[str, pl.Series], *, layout: Layout
) -> None:
    """Mark lines that are no JSON object; fill in values the fast parser does not accept (NaN)."""
    needed = [role for role in columns if role != PREFIX]
    empty = np.logical_or.reduce([columns[role].is_null().to_numpy() for role in needed])
    not_json, not_object = np.zeros((2, len(text)), np.bool_)
    for row in np.flatnonzero(empty):
        value = _loads(text[int(row)])
        not_json[row] = value is None
        not_object[row] = value is not None and not isinstance(value, dict)
        if isinstance(value, dict):
            for role in needed:
                columns[role] = _filled(columns[role], int(row), value.get(layout.columns[role]))
    got = _start_of(text)
    faults.mark(not_json, FaultKind("not JSON", "one JSON object a line", got))
    faults.mark(not_object, FaultKind("not a JSON object", "one JSON object a line", got))


def _loads(line: str) -> object:
    """Return the value of one line, None where it is not JSON (or is the JSON null)."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _filled(column: pl.Series, row: int, value: object) -> pl.Series:
    if value is None or column[row] is not None:
        return column
    # Half a surrogate pair is legal in JSON and impossible in a column of text.
    return column.scatter(row, str(value).encode("utf-8", "backslashreplace").decode())


def _start_of(text: pl.Series) -> Callable[[int], str]:
    def start(row: int) -> str:
        line = str(text[row])
        return line if len(line) <= 60 else f"{line[:57]}..."

    return start
