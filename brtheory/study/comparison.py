"""From runs to rows and summaries: two derived metrics, means over seeds, ratios to JSQ.

    barrier_time_fraction = a0*I_total / G / (b0*steps + a0*sum_peak)

is the share of decode time for which a replica waits for the slowest one, averaged over replicas;
``barrier_idle_fraction`` leaves b0 out. steps_between_completions = G*steps / requests, measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from brtheory.analysis.statistics import mean_with_interval, ratio_of_means
from brtheory.simulation.run import RunConfig
from brtheory.simulation.workload import StepTime
from brtheory.study.campaign import RunCell
from brtheory.study.choices import BASELINE
from brtheory.study.results import SCOPES, Estimate, Number, Row, Scope, Summary, all_known
from brtheory.study.tasks import Result


def study_rows(cells: Iterable[RunCell]) -> list[Row]:
    """One row a run and scope, in the order of the plan."""
    return [_row(cell, scope) for cell in cells for scope in SCOPES]


def summarise_rows(rows: Sequence[Row]) -> list[Summary]:
    """Means over seeds with intervals, and ratios to JSQ on the same seeds and replicas."""
    groups = {
        key: sorted(group, key=lambda row: row.seed)
        for key, group in groupby(sorted(rows, key=_group), key=_group)
    }
    order = list(dict.fromkeys(_group(row) for row in rows))
    return [_summary(groups[key], groups.get(_baseline(key))) for key in order]


def scope_metrics(summary: Result, scope: Scope, *, config: RunConfig) -> dict[str, Number]:
    """Metrics of a run over one scope, the derived ones included; empty where the scope is."""
    metrics = _metrics_of(summary, scope)
    if metrics:
        metrics |= _derived(metrics, replicas=config.shape.replicas, step_time=config.step_time)
    if metrics and config.shape.paces(config.step_time) is not None:
        # Where replicas differ, the idle fraction is one of times already, b_g of each included.
        metrics["barrier_time_fraction"] = metrics["barrier_idle_fraction"]
    return metrics


def _row(cell: RunCell, scope: Scope) -> Row:
    return Row(
        section="routers" if cell.section == "routers" else "scaling",
        label=cell.choice.label,
        seed=cell.config.seed,
        replicas=cell.config.shape.replicas,
        requests_offered=cell.requests,
        scope=scope,
        metrics=scope_metrics(cell.metrics, scope, config=cell.config),
    )


def _metrics_of(summary: Result, scope: Scope) -> dict[str, Number]:
    if scope == "loaded_window":
        return dict(summary["loaded_window"] or {})
    return {name: value for name, value in summary.items() if name != "loaded_window"}


def _derived(
    metrics: Mapping[str, Number], *, replicas: int, step_time: StepTime
) -> dict[str, Number]:
    steps, requests = metrics["steps"] or 0, metrics["requests"] or 0
    peaks, imbalance = metrics["sum_peak_tokens"] or 0, metrics["imbalance_total_tokens"] or 0
    decode_s = step_time.b0 * steps + step_time.a0 * peaks
    lost_s = step_time.a0 * imbalance / replicas
    return {
        "imbalance_per_replica_tokens": imbalance / (replicas * steps) if steps else None,
        "barrier_time_fraction": lost_s / decode_s if decode_s else None,
        "steps_between_completions": replicas * steps / requests if requests else None,
    }


Group = tuple[str, str, int, Scope]


def _group(row: Row) -> Group:
    return row.section, row.label, row.replicas, row.scope


def _baseline(key: Group) -> Group:
    section, _, replicas, scope = key
    return section, BASELINE, replicas, scope


def _summary(rows: Sequence[Row], baseline: Sequence[Row] | None) -> Summary:
    names = max((row.metrics for row in rows), key=len)
    return Summary(
        section=rows[0].section,
        label=rows[0].label,
        replicas=rows[0].replicas,
        scope=rows[0].scope,
        metrics={name: _estimate(name, rows, baseline) for name in names},
    )


def _estimate(name: str, rows: Sequence[Row], baseline: Sequence[Row] | None) -> Estimate | None:
    """Mean over seeds; None as soon as one seed has no value."""
    values = _values(name, rows)
    mean = mean_with_interval(values) if values else None
    if mean is None:
        return None
    reference = _values(name, baseline or ())
    ratio = ratio_of_means(values, reference) if len(reference) == len(values) else None
    low, high = mean.ends
    # JSQ's ratio to itself is 1 by definition: an interval would only look like a measurement.
    ratio_low, ratio_high = (
        (None, None) if ratio is None or rows[0].label == BASELINE else ratio.ends
    )
    return Estimate(
        mean=mean.value,
        low=low,
        high=high,
        seeds=mean.count,
        ratio_to_jsq=None if ratio is None else ratio.value,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
    )


def _values(name: str, rows: Sequence[Row]) -> list[float]:
    return all_known(row.metrics.get(name) for row in rows)
