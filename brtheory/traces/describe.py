"""What a trace is: sizes, times, dependence, and where it is unusual; streaming, in one pass.

``rate_per_s`` is gaps over span (one over the mean gap); ``interarrival_cv`` is the gaps' standard
deviation over their mean; ``correlation`` is Pearson's, of prompt and output tokens. What the data
does not determine (a rate where all arrive at once) is None.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from brtheory.contracts import Contract
from brtheory.traces.histograms import ArrivalCounts, IntegerHistogram, Moments
from brtheory.traces.read import NO_ARRIVALS, Batch, TraceStream
from brtheory.traces.schema import Trace

PERCENTS = (1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)

_SPIKE_SHARE = 0.2
_TIES_SHARE = 0.1
_BURSTY_CV = 2.0
_HEAVY_TAIL = 10.0
_ALMOST_CONSTANT = 1.1
_COARSE_CLOCK_S = 0.5


@dataclass(frozen=True)
class Description:
    """A trace in numbers.

    Parameters
    ----------
    name, source, synthetic
        As in `brtheory.traces.schema.Trace`.
    format
        Format of the file, or ``workload``.
    rows
        Requests described.
    rows_read, dropped
        As in `brtheory.traces.read.ReadResult`.
    time_span_s
        Seconds from the first to the last arrival; None where the file has no arrivals.
    rate_per_s, interarrival_cv, correlation
        See the module; None where undetermined.
    prompt_tokens, output_tokens
        ``min``, ``p1`` .. ``p99``, ``max``, ``mean`` in tokens.
    unusual
        Sentences about what to keep in mind when using the trace.
    prompt_histogram, output_histogram, arrivals
        Counts, for pictures.
    """

    name: str
    source: str
    synthetic: bool
    format: str
    rows: int
    rows_read: int
    dropped: dict[str, int]
    time_span_s: float | None
    rate_per_s: float | None
    interarrival_cv: float | None
    correlation: float | None
    prompt_tokens: dict[str, float]
    output_tokens: dict[str, float]
    unusual: tuple[str, ...]
    prompt_histogram: IntegerHistogram = field(repr=False)
    output_histogram: IntegerHistogram = field(repr=False)
    arrivals: ArrivalCounts = field(repr=False)

    def as_json(self) -> dict[str, object]:
        """Return everything but the counts, as plain JSON values."""
        hidden = ("prompt_histogram", "output_histogram", "arrivals")
        values = {key: value for key, value in vars(self).items() if key not in hidden}
        return {**values, "unusual": list(self.unusual)}

    def figure(self, key: str) -> float | None:
        """Return one figure by a key such as ``rows`` or ``prompt_tokens.p99.9``."""
        column, _, statistic = key.partition(".")
        if not statistic:
            value: float | None = getattr(self, column)
            return value
        if not statistic.startswith("p"):
            return float(getattr(self, column)[statistic])
        histogram: IntegerHistogram = getattr(self, column.replace("_tokens", "_histogram"))
        return histogram.percentiles([float(statistic[1:])])[0]


class TokenFiguresDocument(Contract):
    """Statistics of one column of token counts; percentiles are exact, linear between ranks."""

    min: int
    p1: float
    p5: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: int
    mean: float


class DescriptionDocument(Contract):
    """Output of ``brtheory trace describe --json``."""

    name: str
    source: str
    synthetic: bool
    format: str = Field(description="Format told by the content.")
    rows: int = Field(description="Rows kept.")
    rows_read: int = Field(description="Rows looked at, dropped ones included.")
    dropped: dict[str, int] = Field(description="Rows dropped, by reason.")
    time_span_s: float | None = Field(description="Null without arrival times.")
    rate_per_s: float | None
    interarrival_cv: float | None = Field(description="Standard deviation over mean of the gaps.")
    correlation: float | None = Field(description="Between prompt and output tokens.")
    prompt_tokens: TokenFiguresDocument
    output_tokens: TokenFiguresDocument
    unusual: list[str] = Field(description="What to know before using the numbers.")


def describe_stream(stream: TraceStream) -> Description:
    """Read a stream to its end and describe it; raises what the stream raises."""
    statistics = _Statistics()
    for batch in stream:
        statistics.add(batch)
    return statistics.described(
        name=stream.name,
        source=stream.source,
        synthetic=stream.synthetic,
        format_name=stream.format,
        rows_read=stream.rows_read,
        dropped=stream.dropped,
        notes=stream.notes,
    )


def describe_trace(trace: Trace, *, format_name: str) -> Description:
    """Describe a trace in memory."""
    statistics = _Statistics()
    statistics.add(
        Batch(trace.arrival_s, trace.prompt_tokens, trace.output_tokens, trace.prefix_id)
    )
    return statistics.described(
        name=trace.name,
        source=trace.source,
        synthetic=trace.synthetic,
        format_name=format_name,
        rows_read=len(trace),
        dropped={},
        notes=(),
    )


class _Statistics:
    def __init__(self) -> None:
        self.prompts, self.outputs = IntegerHistogram(), IntegerHistogram()
        self.tokens, self.gaps = Moments(), Moments()
        self.arrivals = ArrivalCounts()
        self.ties = 0
        self.smallest_gap_s = np.inf
        self._first_s: float | None = None
        self._last_s = 0.0

    def add(self, batch: Batch) -> None:
        self.prompts.add(batch.prompt_tokens)
        self.outputs.add(batch.output_tokens)
        self.tokens.add(batch.prompt_tokens, batch.output_tokens)
        self.arrivals.add(batch.arrival_s)
        gaps = np.diff(batch.arrival_s)
        if self._first_s is None:
            self._first_s = float(batch.arrival_s[0])
        else:
            gaps = np.concatenate([[batch.arrival_s[0] - self._last_s], gaps])
        self._last_s = float(batch.arrival_s[-1])
        self._add_gaps(gaps)

    def _add_gaps(self, gaps: NDArray[np.float64]) -> None:
        self.gaps.add(gaps, gaps)
        self.ties += int((gaps == 0).sum())
        self.smallest_gap_s = min(self.smallest_gap_s, gaps[gaps > 0].min(initial=np.inf))

    def described(
        self,
        *,
        name: str,
        source: str,
        synthetic: bool,
        format_name: str,
        rows_read: int,
        dropped: dict[str, int],
        notes: tuple[str, ...],
    ) -> Description:
        span = None if NO_ARRIVALS in notes else self._last_s - (self._first_s or 0.0)
        rows = self.tokens.count
        return Description(
            name=name,
            source=source,
            synthetic=synthetic,
            format=format_name,
            rows=rows,
            rows_read=rows_read,
            dropped=dropped,
            time_span_s=span,
            rate_per_s=_finite((rows - 1) / span) if span else None,
            interarrival_cv=self.gaps.cv,
            correlation=self.tokens.correlation,
            prompt_tokens=_summary(self.prompts),
            output_tokens=_summary(self.outputs),
            unusual=(*notes, *self._oddities(dropped)),
            prompt_histogram=self.prompts,
            output_histogram=self.outputs,
            arrivals=self.arrivals,
        )

    def _oddities(self, dropped: dict[str, int]) -> Iterable[str]:
        if dropped:
            yield f"{sum(dropped.values()):,} rows were dropped"
        yield from _token_oddities("prompt", self.prompts)
        yield from _token_oddities("output", self.outputs)
        yield from self._arrival_oddities()

    def _arrival_oddities(self) -> Iterable[str]:
        if self.gaps.count == 0 or self._last_s == self._first_s:
            return
        share = self.ties / self.gaps.count
        if share >= _TIES_SHARE:
            yield f"{share:.0%} of the arrivals share their time with the one before"
        if share >= _TIES_SHARE and self.smallest_gap_s >= _COARSE_CLOCK_S:
            yield f"arrival times are coarse: different ones are {self.smallest_gap_s:g} s apart"
        cv = self.gaps.cv
        if cv is not None and cv >= _BURSTY_CV:
            yield f"arrivals are bursty: gaps have a CV of {cv:.1f} (a Poisson process has 1)"


def _finite(value: float) -> float | None:
    """None where times are too close together for a rate."""
    return value if np.isfinite(value) else None


def _summary(histogram: IntegerHistogram) -> dict[str, float]:
    values = histogram.percentiles(list(PERCENTS))
    percentiles = {f"p{percent:g}": value for percent, value in zip(PERCENTS, values, strict=True)}
    low, high = histogram.minimum, histogram.maximum
    return {"min": low, **percentiles, "max": high, "mean": histogram.mean}


def _token_oddities(what: str, histogram: IntegerHistogram) -> Iterable[str]:
    mode, rows = int(histogram.counts.argmax()), histogram.total
    share = int(histogram.counts[mode]) / rows
    p5, p50, p95, p99 = histogram.percentiles([5.0, 50.0, 95.0, 99.0])
    if p95 <= _ALMOST_CONSTANT * p5:
        yield f"{what}s are almost constant: nine in ten have {p5:,.0f} to {p95:,.0f} tokens"
    elif share >= _SPIKE_SHARE:
        yield f"{share:.0%} of the {what}s have exactly {mode:,} tokens (a limit?)"
    if p99 >= _HEAVY_TAIL * p50:
        yield f"{what}s have a heavy tail: the 99th percentile is {p99 / p50:.0f} times the median"
