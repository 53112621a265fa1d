"""Opening a trace file: its format is told by its content, and its rows are ready to be checked.

The order of the questions: a directory or a client of ServeGen; Parquet by its magic bytes; JSON
Lines by an opening brace; CSV by a header with known columns. Files that are something else (a Git
LFS pointer, one big JSON document, another delimiter) are named in the message.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from brtheory.errors import InputError
from brtheory.traces.blocks import Block, open_trace, read_blocks
from brtheory.traces.canonical import parquet_head, parquet_rows
from brtheory.traces.checks import RawRows
from brtheory.traces.formats import Layout, looks_like_columns, recognise
from brtheory.traces.servegen import LAYOUT as SERVEGEN
from brtheory.traces.servegen import is_servegen_line, servegen_rows
from brtheory.traces.text_rows import (
    Lines,
    csv_rows,
    jsonl_rows,
    lines_of,
    object_keys,
    split_header,
)

_PARQUET_MAGIC = b"PAR1"
_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}


@dataclass(frozen=True)
class Source:
    """An opened trace file.

    Parameters
    ----------
    layout
        Its format.
    rows
        Its rows; close it to close the file.
    name, provenance, synthetic
        As in `brtheory.traces.schema.Trace`.
    where
        File and header line, for messages about the file as a whole.
    """

    layout: Layout
    rows: Generator[RawRows, None, None]
    name: str
    provenance: str
    synthetic: bool
    where: str


def open_source(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> Source:
    """Open a file or a directory of ServeGen clients; parameters as `stream_trace`.

    Raises
    ------
    InputError
        If it cannot be opened, is empty, or is no trace.
    """
    if path.is_dir():
        return _servegen(path, seed=seed, on_progress=on_progress)
    if path.is_file() and _is_parquet(path):
        return _parquet(path, columns)
    blocks = read_blocks(path, on_progress=on_progress)
    lines = _nonblank(blocks)
    first = next(lines, None)
    if first is None:
        raise InputError(str(path), "a trace", "an empty file")
    return _text(path, first, lines, columns=columns, seed=seed)


def _is_parquet(path: Path) -> bool:
    with open_trace(path) as stream:
        return stream.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _nonblank(blocks: Iterable[Block]) -> Iterator[Lines]:
    for block in blocks:
        lines = lines_of(block)
        if len(lines.text):
            yield lines


def _servegen(path: Path, *, seed: int, on_progress: Callable[[int], None] | None) -> Source:
    rows = servegen_rows(path, seed=seed, on_progress=on_progress)
    source = f"{SERVEGEN.source}, seed {seed}"
    return Source(SERVEGEN, rows, path.name, source, synthetic=True, where=str(path))


def _parquet(path: Path, columns: Mapping[str, str] | None) -> Source:
    names, first_row, kept = parquet_head(path)
    where = str(path)
    layout = recognise(names, first_row, where=where, container="parquet", columns=columns)
    return Source(
        layout,
        parquet_rows(path, layout),
        name=str(kept.get("name", path.name)),
        provenance=str(kept.get("source", layout.source)),
        synthetic=bool(kept.get("synthetic", False)),
        where=where,
    )


def _text(
    path: Path,
    first: Lines,
    rest: Iterator[Lines],
    *,
    columns: Mapping[str, str] | None,
    seed: int,
) -> Source:
    where = f"{path}:{first.number[0]}"
    head = str(first.text[0])
    _refuse_other_files(head, where, unreadable=bool(first.unreadable[0]))
    if head.startswith("{"):
        layout = _jsonl_layout(first, where, columns)
        rows = jsonl_rows(_chained(first, rest), layout, path=path)
    elif not columns and is_servegen_line(split_header(head)):
        return _servegen(path, seed=seed, on_progress=None)
    else:
        layout = _csv_layout(first, where, columns)
        rows = csv_rows(_chained(first.skip(1), rest), layout, path=path)
    return Source(layout, rows, path.name, layout.source, synthetic=False, where=where)


def _chained(first: Lines, rest: Iterator[Lines]) -> Iterator[Lines]:
    if len(first.text):
        yield first
    yield from rest


def _jsonl_layout(first: Lines, where: str, columns: Mapping[str, str] | None) -> Layout:
    """Recognise by the first line that is a JSON object (a broken first row must not hide it)."""
    for line in first.text:
        keys = object_keys(line)
        if keys:
            return recognise(keys, (), where=where, container="jsonl", columns=columns)
    head = str(first.text[0])
    expected = "JSON Lines, one object a line"
    got = "a JSON document over many lines" if head in ("{", "[") else head[:60]
    raise InputError(where, expected, got)


def _csv_layout(first: Lines, where: str, columns: Mapping[str, str] | None) -> Layout:
    head = str(first.text[0])
    names = split_header(head)
    if len(names) == 1:
        _refuse_other_delimiters(head, where)
    row = split_header(str(first.text[1])) if len(first.text) > 1 else ()
    return recognise(names, row, where=where, container="csv", columns=columns)


def _refuse_other_delimiters(head: str, where: str) -> None:
    for delimiter, name in _DELIMITERS.items():
        if looks_like_columns(head.replace('"', "").split(delimiter)):
            raise InputError(where, "comma-separated columns", f"{name}-separated ones")


def _refuse_other_files(head: str, where: str, *, unreadable: bool) -> None:
    if unreadable or "\0" in head:
        raise InputError(where, "a trace in CSV, JSON Lines or Parquet", "other bytes")
    if "\r" in head:
        raise InputError(where, "lines that end in LF or CRLF", "lines that end in CR alone")
    if head.startswith("version https://git-lfs"):
        raise InputError(where, "a trace", "a Git LFS pointer to one (run `git lfs pull`)")
    if head.startswith("["):
        raise InputError(where, "JSON Lines, one object a line", "a JSON array")
