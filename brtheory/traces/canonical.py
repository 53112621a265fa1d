"""Canonical trace files: CSV and Parquet out, Parquet in.

Columns ``arrival_s`` (seconds from the first request), ``prompt_tokens``, ``output_tokens`` and,
where known, ``prefix_id``. Numbers are written so that reading them back gives the same bits.
Parquet also keeps name, source and the synthetic mark; CSV has no room for them. Files appear
whole or not at all.
"""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import numpy as np
import polars as pl

from brtheory.errors import InputError
from brtheory.traces.checks import RawRows
from brtheory.traces.faults import Faults
from brtheory.traces.formats import PREFIX, Layout
from brtheory.traces.schema import Trace
from brtheory.traces.table_file import write_csv, write_parquet

METADATA_KEY = "brtheory.trace"
_ROWS_PER_BATCH = 1 << 17


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace as canonical CSV or Parquet, by the suffix of ``path``.

    Raises
    ------
    InputError
        If the suffix is neither ``.csv`` nor ``.parquet``, or ``path`` is a directory.
    """
    writers: dict[str, Callable[[Trace, Path], None]] = {
        ".csv": _write_csv,
        ".parquet": _write_parquet,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(str(path), "an output file ending in .csv or .parquet", path.name)
    if path.is_dir():
        raise InputError(str(path), "an output file", "a directory")
    writer(trace, path)


def parquet_head(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, object]]:
    """Return column names, the first row as text, and the provenance kept in the file."""
    try:
        frame = pl.scan_parquet(path).head(1).collect()
        kept = json.loads(pl.read_parquet_metadata(path).get(METADATA_KEY, "{}"))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        message = " ".join(str(error).split())[:120]
        raise InputError(str(path), "a sound Parquet file", message) from error
    return (
        tuple(frame.columns),
        tuple(str(value) for value in frame.row(0)) if len(frame) else (),
        kept,
    )


def parquet_rows(path: Path, layout: Layout) -> Generator[RawRows, None, None]:
    """Yield the columns of a Parquet file in batches; rows are counted from 1."""
    start = 0
    scan = pl.scan_parquet(path).select(
        pl.col(name).alias(role) for role, name in layout.columns.items()
    )
    while True:
        frame = scan.slice(start, _ROWS_PER_BATCH).collect()
        if frame.is_empty():
            return
        yield RawRows({role: frame[role] for role in layout.columns}, _faults(path, start, frame))
        start += len(frame)


def _faults(path: Path, start: int, frame: pl.DataFrame) -> Faults:
    return Faults(lambda row: f"{path}: row {start + row + 1}", np.zeros(len(frame), np.int64))


def _frame(trace: Trace) -> pl.DataFrame:
    columns = {
        "arrival_s": trace.arrival_s,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
    }
    if trace.prefix_id is not None:
        columns[PREFIX] = trace.prefix_id
    return pl.DataFrame(columns)


def _write_csv(trace: Trace, path: Path) -> None:
    write_csv(_frame(trace), path)


def _write_parquet(trace: Trace, path: Path) -> None:
    kept = {"name": trace.name, "source": trace.source, "synthetic": trace.synthetic}
    write_parquet(_frame(trace), path, metadata={METADATA_KEY: json.dumps(kept)})
