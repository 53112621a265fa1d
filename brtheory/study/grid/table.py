"""From finished cells to rows, and from rows to means over seeds and ratios to the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from brtheory.analysis.statistics import mean_with_interval, ratio_of_means
from brtheory.study.comparison import scope_metrics
from brtheory.study.grid.document import Baseline, GridEstimate, GridSummary, Value
from brtheory.study.grid.plan import Cell
from brtheory.study.results import SCOPES, Number, Scope, all_known
from brtheory.study.tasks import Result, RunTask, StationaryTask

Labels = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Row:
    """Metrics of one cell over one scope; none where the scope is empty."""

    labels: Mapping[str, Value]
    seed: int
    requests: int
    scope: Scope
    metrics: Mapping[str, Number]

    @property
    def group(self) -> Labels:
        """What it shares with its other seeds."""
        return tuple(self.labels.items())


def grid_rows(cells: Sequence[Cell], results: Sequence[Result]) -> list[Row]:
    """One row a cell and scope, in the order of the plan."""
    return [
        Row(cell.labels, cell.seed, cell.requests, scope, _metrics(cell, result, scope))
        for cell, result in zip(cells, results, strict=True)
        for scope in SCOPES
    ]


def summarise_grid(rows: Sequence[Row], baseline: Baseline) -> list[GridSummary]:
    """Means over seeds with intervals, ratios on the same seeds, in the order of the plan."""
    groups: dict[Labels, dict[Scope, list[Row]]] = {}
    for row in rows:
        groups.setdefault(row.group, {scope: [] for scope in SCOPES})[row.scope].append(row)
    return [
        _summary(scopes, groups.get(_reference(labels, baseline)))
        for labels, scopes in groups.items()
    ]


def rows_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a table: a column an axis, then seed, requests, scope, then a column a metric."""
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    records = [
        {
            **row.labels,
            "seed": row.seed,
            "requests_offered": row.requests,
            "scope": row.scope,
            **{name: row.metrics.get(name) for name in names},
        }
        for row in rows
    ]
    return pl.DataFrame(records, infer_schema_length=None, strict=False)


def _metrics(cell: Cell, result: Result, scope: Scope) -> Mapping[str, Number]:
    if isinstance(cell.task, RunTask):
        return scope_metrics(result, scope, config=cell.task.config)
    if isinstance(cell.task, StationaryTask):
        # A law has no start and no end: it is read as if measured in the loaded window.
        return {} if scope == "all_steps" else _law_metrics(result)
    return {name: value for name, value in result.items() if isinstance(value, int | float)}


def _law_metrics(result: Result) -> Mapping[str, Number]:
    return {
        "imbalance_per_replica_tokens": result["mean"],
        "monte_carlo_error_tokens": result["standard_error"],
        "normal_excess_tokens": result["normal_excess"],
        "load_sigma_tokens": result["load_sigma"],
    }


def _reference(labels: Labels, baseline: Baseline) -> Labels:
    return tuple((n, baseline.value if n == baseline.axis else value) for n, value in labels)


def _summary(
    scopes: Mapping[Scope, Sequence[Row]], reference: Mapping[Scope, Sequence[Row]] | None
) -> GridSummary:
    loaded = all(row.metrics for row in scopes["loaded_window"])
    scope: Scope = "loaded_window" if loaded else "all_steps"
    rows = sorted(scopes[scope], key=lambda row: row.seed)
    against = sorted(reference[scope] if reference else (), key=lambda row: row.seed)
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    return GridSummary(
        labels=dict(rows[0].labels),
        scope=scope,
        metrics={name: _estimate(name, rows, against) for name in names},
    )


def _estimate(name: str, rows: Sequence[Row], against: Sequence[Row]) -> GridEstimate | None:
    """Mean over seeds; None as soon as one seed has no value."""
    values, reference = _values(name, rows), _values(name, against)
    mean = mean_with_interval(values) if values else None
    if mean is None:
        return None
    paired = [row.seed for row in rows] == [row.seed for row in against] and bool(reference)
    ratio = ratio_of_means(values, reference) if paired else None
    low, high = mean.ends
    # A ratio to itself is 1 by definition: an interval would only look like a measurement.
    itself = bool(rows and against and rows[0].group == against[0].group)
    ratio_low, ratio_high = (None, None) if itself or ratio is None else ratio.ends
    return GridEstimate(
        mean=mean.value,
        low=low,
        high=high,
        values=values,
        ratio=None if ratio is None else ratio.value,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def _values(name: str, rows: Sequence[Row]) -> list[float]:
    return all_known(row.metrics.get(name) for row in rows)
