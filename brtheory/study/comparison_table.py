"""The comparison as a table: the same columns and words in the terminal and on the page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from brtheory.study import wording
from brtheory.study.results import Estimate, StudyDocument


@dataclass(frozen=True)
class Column:
    """One column: heading, metric, which end is better, how to show a value and its interval."""

    title: str
    metric: str
    better: Literal["low", "high"]
    show: Callable[[Estimate], str]
    detail: Callable[[Estimate], str] = lambda _estimate: ""


@dataclass(frozen=True)
class TableCell:
    """One cell: the value, its interval or nothing, whether it is the best of its column."""

    text: str
    detail: str
    best: bool


@dataclass(frozen=True)
class TableRow:
    """One router."""

    title: str
    oracle: bool
    cells: list[TableCell]


def _mean_tokens(estimate: Estimate) -> str:
    return wording.tokens(estimate.mean)


def _half_width(estimate: Estimate) -> str:
    half = wording.half_width(estimate)
    return "" if half is None else f"± {half:,.0f}"


def _ratio(estimate: Estimate) -> str:
    return wording.ratio(estimate.ratio_to_jsq)


def _ratio_interval(estimate: Estimate) -> str:
    return wording.interval(estimate.ratio_low, estimate.ratio_high, digits=2)


def _percent(estimate: Estimate) -> str:
    return wording.percent(estimate.mean)


def _milliseconds(estimate: Estimate) -> str:
    return wording.milliseconds(estimate.mean)


def _seconds(estimate: Estimate) -> str:
    return wording.seconds(estimate.mean)


COLUMNS = (
    Column("imbalance, tokens", "imbalance_mean_tokens", "low", _mean_tokens, _half_width),
    Column("ratio to JSQ", "imbalance_mean_tokens", "low", _ratio, _ratio_interval),
    Column("idle", "barrier_idle_fraction", "low", _percent),
    Column("time lost", "barrier_time_fraction", "low", _percent),
    Column("tokens/s", "throughput_tokens_per_s", "high", _mean_tokens, wording.gain),
    Column("TPOT P95", "tpot_p95_s", "low", _milliseconds),
    Column("wait P50", "wait_p50_s", "low", _seconds),
    Column("wait P99", "wait_p99_s", "low", _seconds),
    Column("wait max", "wait_max_s", "low", _seconds),
)


def table_rows(document: StudyDocument) -> list[TableRow]:
    """One row a router, over the main scope."""
    best = {column.title: _best(document, column) for column in COLUMNS}
    return [
        TableRow(
            facts.title,
            facts.oracle,
            [_cell(document, facts.label, column, best[column.title]) for column in COLUMNS],
        )
        for facts in document.routers
    ]


def _cell(document: StudyDocument, label: str, column: Column, best: float | None) -> TableCell:
    estimate = document.estimate(label, column.metric)
    if estimate is None:
        return TableCell(wording.NONE, "", best=False)
    return TableCell(column.show(estimate), column.detail(estimate), best=estimate.mean == best)


def _best(document: StudyDocument, column: Column) -> float | None:
    estimates = [document.estimate(facts.label, column.metric) for facts in document.routers]
    means = [estimate.mean for estimate in estimates if estimate is not None]
    if not means:
        return None
    return min(means) if column.better == "low" else max(means)
