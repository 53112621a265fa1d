"""Tables of a grid study: one axis down, one across, a metric inside, the best of a column bold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from brtheory.analysis.statistics import Measured, ratio_of_means
from brtheory.study import wording
from brtheory.study.grid.document import Entry, GridDocument, GridEstimate, Line, Table, Value

NOTHING = Entry(text=wording.NONE)
Better = Literal["low", "high"]
Show = Callable[[GridEstimate], Entry]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric as a table shows it: which end is better, and how a value becomes text."""

    metric: str
    better: Better
    show: Show


def cross_table(
    document: GridDocument,
    measure: Measure,
    *,
    down: str,
    across: str,
    title: str,
    caption: str,
    fixed: Mapping[str, Value] | None = None,
) -> Table:
    """A table of one metric over two axes, the other labels fixed."""
    columns = document.values(across)
    lines = [
        [
            document.estimate(measure.metric, {**(fixed or {}), down: value, across: column})
            for column in columns
        ]
        for value in document.values(down)
    ]
    best = [best_mean([line[i] for line in lines], measure.better) for i in range(len(columns))]
    return Table(
        title=title,
        corner=document.axis(down).title,
        columns=[entry.title for entry in document.axis(across).values],
        lines=[
            Line(
                title=document.title_of(down, value),
                entries=[
                    shown(estimate, measure.show, best=top)
                    for estimate, top in zip(line, best, strict=True)
                ],
            )
            for value, line in zip(document.values(down), lines, strict=True)
            if any(estimate is not None for estimate in line)
        ],
        caption=caption,
    )


def best_mean(estimates: Sequence[GridEstimate | None], better: Better) -> float | None:
    """The best mean, None where there is none to compare."""
    means = [estimate.mean for estimate in estimates if estimate is not None]
    if len(means) < 2:
        return None
    return min(means) if better == "low" else max(means)


def shown(estimate: GridEstimate | None, show: Show, *, best: float | None) -> Entry:
    """A cell of a table."""
    if estimate is None:
        return NOTHING
    return show(estimate).model_copy(update={"best": estimate.mean == best})


def tokens_entry(estimate: GridEstimate) -> Entry:
    """Whole tokens and half the interval."""
    return Entry(text=wording.tokens(estimate.mean), detail=half_width(estimate, scale=1, digits=0))


def percent_entry(estimate: GridEstimate) -> Entry:
    """A share and half its interval in points."""
    return Entry(
        text=wording.percent(estimate.mean), detail=half_width(estimate, scale=100, digits=1)
    )


def ratio_entry(estimate: GridEstimate) -> Entry:
    """A ratio to the baseline and its interval."""
    return Entry(
        text=wording.ratio(estimate.ratio),
        detail=wording.interval(estimate.ratio_low, estimate.ratio_high, digits=2),
    )


def gain_entry(estimate: GridEstimate) -> Entry:
    """A ratio to the baseline as a change in percent, with its interval."""
    if estimate.ratio is None:
        return NOTHING
    return Entry(
        text=f"{change(estimate.ratio)} %",
        detail=_gain_interval(estimate.ratio_low, estimate.ratio_high),
    )


def seconds_entry(estimate: GridEstimate) -> Entry:
    """Seconds."""
    return Entry(text=wording.seconds(estimate.mean))


def milliseconds_entry(estimate: GridEstimate) -> Entry:
    """Seconds as milliseconds."""
    return Entry(text=wording.milliseconds(estimate.mean))


def half_width(estimate: GridEstimate, *, scale: float, digits: int) -> str:
    """``± 1,234``; empty without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"± {scale * (estimate.high - estimate.low) / 2:,.{digits}f}"


def change(ratio: float) -> str:
    """A ratio as a change in percent, signed, without a minus before zero: ``+2.1``."""
    return f"{round(100 * (ratio - 1), 1) + 0.0:+.1f}"


def compare_seeds(top: GridEstimate | None, bottom: GridEstimate | None) -> Measured | None:
    """Ratio of two means over the same seeds, None where one is missing."""
    if top is None or bottom is None or len(top.values) != len(bottom.values):
        return None
    return ratio_of_means(top.values, bottom.values)


def measured_text(measured: Measured) -> str:
    """``0.22 [0.20, 0.24]``."""
    low, high = measured.ends
    return f"{wording.ratio(measured.value)} {wording.interval(low, high, digits=2)}".strip()


def _gain_interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"[{change(low)}, {change(high)}]"
