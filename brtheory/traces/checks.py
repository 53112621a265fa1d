"""Checks that turn columns of text into arrival times and token counts, one batch at a time.

Rules, in this order for every row: the row has the right shape; it is no failed request; its time
is readable; prompt and output tokens are whole numbers from 1 to `MAX_TOKENS`; its time is at most
`MAX_SPAN_S` after the first sound row's and does not go back behind an earlier kept row. All checks
are vectorised; the state between batches is the origin of time, the last kept time and the way
times are written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from brtheory.traces.faults import FaultKind, Faults
from brtheory.traces.formats import ARRIVAL, OUTPUT, PREFIX, PROMPT, Layout
from brtheory.traces.schema import MAX_SPAN_S, MAX_TOKENS

# Exact in both forms: int64 nanoseconds for dates, float64 in the file's own unit for numbers.
Times: TypeAlias = NDArray[Any]

_DATE = "%Y-%m-%d %H:%M:%S%.f"
_LIKE_DATE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:"
_OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
_NANOSECONDS = 1_000_000_000
_DATED = "a time such as 2023-11-16 18:15:46.680590"
_NUMBERED = "a time as a number >= 0"


@dataclass(frozen=True)
class RawRows:
    """Columns of one batch as they stand in the file (text, or typed from Parquet)."""

    columns: Mapping[str, pl.Series]
    faults: Faults


@dataclass(frozen=True)
class CheckedRows:
    """One batch after the checks: values are meaningful where ``faults.sound``.

    Parameters
    ----------
    elapsed_s
        Shape (rows,), float64, seconds since the first sound row of the file.
    prompt_tokens, output_tokens
        Shape (rows,), int64, tokens.
    prefix_id
        Shape (rows,), int64, -1 where unknown; None where the format has none.
    faults
        Which rows are unusable, and why.
    """

    elapsed_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_id: NDArray[np.int64] | None
    faults: Faults


class Checker:
    """Checks batches in file order; see the module for the rules.

    Parameters
    ----------
    layout
        The file's format; its times are dates if the first value is no number.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._dates: bool | None = None
        self._origin: Any = None
        self._last: Any = None

    def check(self, rows: RawRows) -> CheckedRows:
        """Return typed columns of a batch and the faults of its rows."""
        faults = rows.faults
        output, output_text = _whole_numbers(rows.columns[OUTPUT])
        if self._layout.zero_output_is_failure:
            faults.mark(output == 0, _failed_request())
        times = self._times(rows)
        prompt, prompt_text = _whole_numbers(rows.columns[PROMPT])
        _check_tokens(faults, PROMPT, prompt, text=prompt_text)
        _check_tokens(faults, OUTPUT, output, text=output_text)
        prefix = _prefixes(rows)
        self._check_span(faults, times)
        self._check_order(faults, times)
        return CheckedRows(
            self._elapsed(times), prompt.astype(np.int64), output.astype(np.int64),
            prefix, faults,
        )  # fmt: skip

    def _times(self, rows: RawRows) -> Times:
        """Return times in units of the file, exact; marks those that cannot be read."""
        if ARRIVAL not in rows.columns:
            return np.zeros(len(rows.faults.code))
        column = rows.columns[ARRIVAL]
        if self._dates is None:
            self._dates = _written_as_dates(column.filter(pl.Series(rows.faults.sound)))
        parsed = _dates(column) if self._dates else _numbers(column)
        readable = parsed.is_not_null().to_numpy()
        expected = _DATED if self._dates else _NUMBERED
        kind = FaultKind("unreadable time", expected, lambda row: _shown(column[row]))
        rows.faults.mark(~readable, kind)
        return parsed.fill_null(0).to_numpy()

    def _check_span(self, faults: Faults, times: Times) -> None:
        if self._origin is None and faults.sound.any():
            self._origin = times[faults.sound][0]
        if self._origin is None:
            return
        # As floats: the distance of two dates may leave int64.
        elapsed = (times.astype(np.float64) - float(self._origin)) / self._units
        expected = f"a time at most {MAX_SPAN_S:,.0f} s after the first row's"
        kind = FaultKind("time too far", expected, lambda row: f"{elapsed[row]:g} s after it")
        faults.mark(elapsed > MAX_SPAN_S, kind)

    @property
    def _units(self) -> int:
        return _NANOSECONDS if self._dates else self._layout.units_per_second

    def _check_order(self, faults: Faults, times: Times) -> None:
        sound = faults.sound
        if not sound.any():
            return
        kept = times[sound]
        latest = np.maximum.accumulate(kept if self._last is None else np.append(self._last, kept))
        previous = latest[-len(kept) - 1 : -1] if self._last is not None else latest[:-1]
        first = 0 if self._last is not None else 1
        back = np.zeros(len(times), dtype=np.bool_)
        back[np.flatnonzero(sound)[first:]] = kept[first:] < previous
        faults.mark(back, self._time_goes_back(faults, times))
        self._last = latest[-1]

    def _time_goes_back(self, faults: Faults, times: Times) -> FaultKind:
        last = self._last

        def got(row: int) -> str:
            before = times[:row][faults.sound[:row]]
            latest = max([*before[-1:], *([] if last is None else [last])])
            return f"a time {float(latest - times[row]) / self._units:g} s earlier"

        return FaultKind("time goes back", "a time not before the previous row's", got)

    def _elapsed(self, times: Times) -> NDArray[np.float64]:
        origin = times.dtype.type(0) if self._origin is None else self._origin
        elapsed: NDArray[np.float64] = (times - origin) / self._units
        return elapsed


def _failed_request() -> FaultKind:
    return FaultKind("failed request (0 output tokens)", "an answer", lambda _: 0, is_error=False)


def _whole_numbers(column: pl.Series) -> tuple[NDArray[np.float64], pl.Series]:
    """Return whole numbers (NaN where there is none; exact up to 2**53) and what was written."""
    text = column
    if column.dtype == pl.String:
        text = column.str.strip_chars()
    number = text.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    number[~np.isfinite(number) | (number != np.floor(number))] = np.nan
    return number, text


def _check_tokens(
    faults: Faults, role: str, tokens: NDArray[np.float64], *, text: pl.Series
) -> None:
    name = role.replace("_", " ")
    expected = f"{name} from 1 to {MAX_TOKENS:,}"
    missing = text.is_null().to_numpy()
    if text.dtype == pl.String:
        missing = missing | (text == "").fill_null(value=True).to_numpy()

    def kind(reason: str) -> FaultKind:
        return FaultKind(f"{name} {reason}", expected, lambda row: _shown(text[row]))

    faults.mark(missing, kind("missing"))
    faults.mark(np.isnan(tokens), kind("not a whole number"))
    faults.mark(tokens < 1, kind("below 1"))
    faults.mark(tokens > MAX_TOKENS, kind(f"above {MAX_TOKENS:,}"))
    tokens[~faults.sound] = 0


def _prefixes(rows: RawRows) -> NDArray[np.int64] | None:
    if PREFIX not in rows.columns:
        return None
    column = rows.columns[PREFIX]
    prefix = column.cast(pl.Int64, strict=False)
    wrong = (prefix.is_null() & column.is_not_null()) | (prefix < -1).fill_null(value=False)
    kind = FaultKind(
        "unreadable prefix id", "a whole number as prefix id", lambda row: _shown(column[row])
    )
    rows.faults.mark(wrong.to_numpy(), kind)
    return prefix.fill_null(-1).to_numpy()


def _written_as_dates(column: pl.Series) -> bool | None:
    """Return how the first readable time is written; None while there is none."""
    if column.dtype != pl.String:
        return column.dtype.is_temporal()
    text = column.str.strip_chars()
    dated = text.str.contains(_LIKE_DATE).fill_null(value=False)
    readable = dated | text.cast(pl.Float64, strict=False).is_not_null()
    first = dated.filter(readable).head(1).to_list()
    return first[0] if first else None


def _numbers(column: pl.Series) -> pl.Series:
    text = column.str.strip_chars() if column.dtype == pl.String else column
    number = text.cast(pl.Float64, strict=False)
    usable = number.is_finite() & (number >= 0)
    return number.to_frame("t").select(pl.when(usable).then(pl.col("t")))["t"]


def _dates(column: pl.Series) -> pl.Series:
    """Return nanoseconds since 1970 (UTC; a date without an offset is taken as UTC)."""
    if column.dtype.is_temporal():
        return column.cast(pl.Datetime("ns")).cast(pl.Int64)
    text = pl.col("t").str.strip_chars()
    offset = text.str.extract(_OFFSET)
    naive = text.str.replace(_OFFSET, "").str.replace("T", " ", literal=True)
    frame = column.to_frame("t").select(
        naive.str.to_datetime(_DATE, time_unit="ns", strict=False).cast(pl.Int64).alias("t"),
        offset.fill_null("Z").alias("offset"),
    )
    offsets = frame["offset"].unique()
    if all(value in ("Z", "+00:00", "+0000") for value in offsets):
        return frame["t"]
    shift = {value: _offset_ns(value) for value in offsets}
    return frame.select(
        pl.col("t") - pl.col("offset").replace_strict(shift, return_dtype=pl.Int64)
    )["t"]


def _offset_ns(offset: str) -> int:
    if offset == "Z":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[-2:])
    return (1 if offset[0] == "+" else -1) * (hours * 60 + minutes) * 60 * _NANOSECONDS


def _shown(value: object) -> str:
    """Return a value as one short piece of text for a message."""
    if value is None or value == "":
        return "nothing"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
