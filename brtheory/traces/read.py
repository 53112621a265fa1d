"""Reading a trace of any format, whole or as a stream of batches in bounded memory.

Modes: ``raise`` stops at the first bad row; ``skip`` drops bad rows and counts them by reason.
Failed requests a format records on purpose (BurstGPT's answers of 0 tokens) are dropped and
counted in both modes. Time zero is the first kept row. Faults of the file itself always raise.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.traces.checks import CheckedRows, Checker, RawRows
from brtheory.traces.formats import ARRIVAL, ROLES, Layout
from brtheory.traces.schema import Trace, check_rate
from brtheory.traces.source import Source, open_source

OnError = Literal["raise", "skip"]

NO_ARRIVALS = "no arrival column: every request arrives at time 0"


@dataclass(frozen=True)
class Batch:
    """Consecutive kept rows; arrays as in `Trace`, of equal length >= 1."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_id: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True)
class ReadResult:
    """A trace and how reading it went.

    Parameters
    ----------
    trace
        The kept rows.
    format
        Format of the file, e.g. ``azure-2023``.
    rows_read
        Rows looked at: kept, dropped and before ``start_s``. Rows after the limit or the end of
        the time slice are not looked at.
    dropped
        Reason to number of rows dropped.
    notes
        What a user of the numbers should know, e.g. that there are no arrival times.
    """

    trace: Trace
    format: str
    rows_read: int
    dropped: dict[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """What to keep and what to do with bad rows; see `stream_trace`."""

    on_error: OnError = "raise"
    limit: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    rate: float = 1.0
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise InputError("on_error", "'raise' or 'skip'", self.on_error)
        if self.limit is not None and self.limit < 1:
            raise InputError("limit", "at least 1 row", self.limit)
        start, end = self.start_s or 0.0, inf if self.end_s is None else self.end_s
        if not (isfinite(start) and start >= 0):
            raise InputError("start", "seconds >= 0", self.start_s)
        if not end > start:
            raise InputError("end", f"seconds after the start ({start:g})", self.end_s)
        check_rate(self.rate)
        unknown = sorted(set(self.columns) - set(ROLES))
        if unknown:
            raise InputError("columns", f"names among {', '.join(ROLES)}", unknown[0])


class TraceStream:
    """The rows of a trace file, read as they are iterated over (once).

    ``format``, ``name``, ``source``, ``synthetic`` and ``notes`` are known at once; ``rows_read``
    and ``dropped`` grow with the iteration. Iteration raises InputError as `stream_trace` says.
    """

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self.format = source.layout.format
        self.name = source.name
        self.source = source.provenance
        self.synthetic = source.synthetic
        self.notes = () if ARRIVAL in source.layout.columns else (NO_ARRIVALS,)
        self.rows_read = 0
        self.dropped: dict[str, int] = {}
        self._where = source.where
        self._batches = self._read(source.rows, source.layout, options)

    def __iter__(self) -> Iterator[Batch]:
        return self._batches

    def close(self) -> None:
        """Close the file before the end is reached."""
        self._batches.close()

    def _read(
        self, rows: Generator[RawRows, None, None], layout: Layout, options: ReadOptions
    ) -> Generator[Batch, None, None]:
        checker = Checker(layout)
        kept, zero = 0, None
        with closing(rows):
            for raw in rows:
                checked = checker.check(raw)
                stop, finished = _extent(checked, options, kept=kept)
                self._account(checked, options, stop=stop)
                keep = np.flatnonzero(_in_slice(checked, options)[:stop])
                if len(keep):
                    zero = checked.elapsed_s[keep[0]] if zero is None else zero
                    kept += len(keep)
                    yield _batch(checked, keep, zero_s=zero, rate=options.rate)
                if finished:
                    break
        if kept == 0:
            raise self._nothing_kept()

    def _account(self, checked: CheckedRows, options: ReadOptions, *, stop: int) -> None:
        if options.on_error == "raise":
            checked.faults.raise_first(before=stop)
        self.rows_read += stop
        for reason, rows in checked.faults.count(before=stop).items():
            self.dropped[reason] = self.dropped.get(reason, 0) + rows

    def _nothing_kept(self) -> InputError:
        if self.rows_read == 0:
            return InputError(self._where, "at least one row", "none")
        reasons = ", ".join(f"{rows} {reason}" for reason, rows in self.dropped.items())
        got = f"none of {self.rows_read} ({reasons or 'all outside the time slice'})"
        return InputError(self._where, "at least one usable row", got)


def stream_trace(
    path: Path | str,
    *,
    on_error: OnError = "raise",
    limit: int | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    rate: float = 1.0,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> TraceStream:
    """Open a trace of any format as a stream of batches.

    Parameters
    ----------
    path
        A file (plain, gzip or zstd), or a directory of ServeGen clients.
    on_error
        What to do with a bad row: ``raise`` (default) or ``skip``, which drops and counts it.
    limit
        Keep at most this many rows (>= 1), after slicing.
    start_s, end_s
        Keep rows from ``start_s`` (inclusive) to ``end_s`` (exclusive), in seconds of the file
        from its first sound row.
    rate
        Multiply the arrival rate by this (> 0); applied after slicing.
    columns
        ``arrival_s``, ``prompt_tokens`` or ``output_tokens`` to the name of the column to use.
    seed
        For ServeGen only, whose requests are sampled.
    on_progress
        Called with the number of bytes of the file read since the last call.

    Raises
    ------
    InputError
        At once if the file cannot be opened or its format is unknown; while iterating at the first
        bad row (``file:line``) in mode ``raise``, and if no row is left.
    """
    options = ReadOptions(on_error, limit, start_s, end_s, rate, columns or {})
    source = open_source(Path(path), columns=columns, seed=seed, on_progress=on_progress)
    return TraceStream(source, options)


def read_trace(
    path: Path | str,
    *,
    on_error: OnError = "raise",
    limit: int | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    rate: float = 1.0,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> ReadResult:
    """Read a trace of any format into memory (32 bytes a row); parameters as `stream_trace`."""
    stream = stream_trace(
        path, on_error=on_error, limit=limit, start_s=start_s, end_s=end_s, rate=rate,
        columns=columns, seed=seed, on_progress=on_progress,
    )  # fmt: skip
    return collect(stream)


def collect(stream: TraceStream) -> ReadResult:
    """Read what is left of a stream into memory; raises as iterating over it does."""
    batches = list(stream)
    prefixes = [batch.prefix_id for batch in batches if batch.prefix_id is not None]
    trace = Trace(
        name=stream.name,
        source=stream.source,
        synthetic=stream.synthetic,
        arrival_s=np.concatenate([batch.arrival_s for batch in batches]),
        prompt_tokens=np.concatenate([batch.prompt_tokens for batch in batches]),
        output_tokens=np.concatenate([batch.output_tokens for batch in batches]),
        prefix_id=np.concatenate(prefixes) if prefixes else None,
    )
    return ReadResult(trace, stream.format, stream.rows_read, stream.dropped, stream.notes)


def _in_slice(checked: CheckedRows, options: ReadOptions) -> NDArray[np.bool_]:
    return checked.faults.sound & (checked.elapsed_s >= (options.start_s or 0.0))


def _extent(checked: CheckedRows, options: ReadOptions, *, kept: int) -> tuple[int, bool]:
    """Return how many rows of a batch to look at, and whether the reading ends there."""
    stop, finished = len(checked.elapsed_s), False
    if options.end_s is not None:
        late = checked.faults.sound & (checked.elapsed_s >= options.end_s)
        if late.any():
            stop, finished = int(late.argmax()), True
    if options.limit is not None:
        inside = np.flatnonzero(_in_slice(checked, options)[:stop])
        if kept + len(inside) >= options.limit:
            stop, finished = int(inside[options.limit - kept - 1]) + 1, True
    return stop, finished


def _batch(checked: CheckedRows, keep: NDArray[np.int64], *, zero_s: float, rate: float) -> Batch:
    prefix = checked.prefix_id
    return Batch(
        arrival_s=(checked.elapsed_s[keep] - zero_s) / rate,
        prompt_tokens=checked.prompt_tokens[keep],
        output_tokens=checked.output_tokens[keep],
        prefix_id=None if prefix is None else prefix[keep],
    )
