"""Metrics of a run, over all executed steps and over the loaded window, units in the names.

Loaded window: from the completion of the first 10 % of requests to the step at which the last
request becomes ready; per-request metrics there are those of requests 10 .. 90 % by arrival. A
window that is empty is None, never zero.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from brtheory.contracts import Contract
from brtheory.simulation.record import RunRecord, Totals

Metrics = dict[str, float | int | None]
MIDDLE_SHARE = (0.1, 0.9)
PERCENTILES = (50, 95, 99)


class MetricsDocument(Contract):
    """Metrics over one span of steps; null where the span is empty."""

    steps: int = Field(description="Executed steps.")
    requests: int = Field(description="Requests completed.")
    duration_s: float = Field(description="Simulated seconds, idle time included.")
    sum_peak_tokens: int = Field(description="Sum over steps of M, token-steps.")
    sum_load_tokens: int = Field(description="Sum over steps and replicas of L_g, token-steps.")
    imbalance_total_tokens: int = Field(description="G*sum_peak - sum_load, token-steps.")
    imbalance_mean_tokens: float | None = Field(description="Mean over steps of G*M - sum L_g.")
    spread_mean_tokens: float | None = Field(description="Mean over steps of max - min load.")
    peak_over_mean: float | None = Field(description="Sum of peaks over sum of mean loads.")
    barrier_idle_fraction: float | None = Field(
        description="Imbalance over G*M, in sums; where replicas differ in speed, of their times."
    )
    throughput_tokens_per_s: float | None = Field(description="Decoded tokens per second.")
    request_rate_per_s: float | None = Field(description="Completed requests per second.")
    energy_model_j: float = Field(description="Modelled, 100 + 300*u^0.7 W a replica.")
    energy_model_j_per_token: float | None = Field(description="Modelled joules per token.")
    tpot_p50_s: float | None = Field(description="(finish - first decode step) / output tokens.")
    tpot_p95_s: float | None
    tpot_p99_s: float | None
    e2e_p50_s: float | None = Field(description="Finish - arrival.")
    e2e_p95_s: float | None
    e2e_p99_s: float | None
    wait_p50_s: float | None = Field(description="Admission - ready.")
    wait_p95_s: float | None
    wait_p99_s: float | None
    wait_max_s: float | None
    barrier_idle_total_s: float | None = Field(
        default=None,
        description="Where replicas differ in speed: seconds they wait at the barrier, summed.",
    )
    barrier_idle_mean_s: float | None = Field(
        default=None, description="The same per step, summed over replicas."
    )


class RunMetricsDocument(MetricsDocument):
    """Output of ``brtheory simulate --json``: metrics over all steps and the loaded window."""

    router: str
    trace: str = Field(description="Trace file or workload name.")
    synthetic: bool = Field(description="Whether the requests were generated.")
    dropped: dict[str, int] = Field(description="Rows of the trace dropped, by reason.")
    loaded_window: MetricsDocument | None
    limited_ticks: int | None = Field(
        default=None,
        description="Routers that search (exact-tick, bf-io-exact): ticks that a limit ended "
        "before their choice was proved best.",
    )


def summarise(record: RunRecord) -> dict[str, object]:
    """Metrics of a run as one plain object.

    Returns
    -------
    dict
        The metrics over all steps, and under ``loaded_window`` the same over the loaded window,
        or None if that is empty; ``limited_ticks`` if the router searches. ``energy_model_*`` are
        modelled (see ``brtheory.simulation.energy``), not measured.
    """
    everything = np.arange(len(record))
    result: dict[str, object] = dict(
        _metrics(record, _difference(record.totals, Totals()), everything)
    )
    result["loaded_window"] = loaded_window(record)
    if record.limited_ticks is not None:
        result["limited_ticks"] = record.limited_ticks
    return result


def loaded_window(record: RunRecord) -> Metrics | None:
    """Metrics over the loaded window, None where it is empty."""
    start, end = record.window_start, record.window_end
    if start is None or end is None or end.steps <= start.steps:
        return None
    return _metrics(record, _difference(end, start), _middle_requests(record))


def metric(summary: Mapping[str, object], name: str) -> float | None:
    """One metric of a summary; ``loaded_window.`` before the name looks there."""
    if name.startswith("loaded_window."):
        window = summary["loaded_window"]
        value = window[name.split(".", 1)[1]] if isinstance(window, Mapping) else None
    else:
        value = summary[name]
    return float(value) if isinstance(value, int | float) else None


def _difference(later: Totals, earlier: Totals) -> Totals:
    return Totals(
        steps=later.steps - earlier.steps,
        sum_peak=later.sum_peak - earlier.sum_peak,
        sum_load=later.sum_load - earlier.sum_load,
        sum_spread=later.sum_spread - earlier.sum_spread,
        decoded_tokens=later.decoded_tokens - earlier.decoded_tokens,
        completed=later.completed - earlier.completed,
        clock_s=later.clock_s - earlier.clock_s,
        energy_j=later.energy_j - earlier.energy_j,
        sum_longest=later.sum_longest - earlier.sum_longest,
        sum_times=later.sum_times - earlier.sum_times,
    )


def _middle_requests(record: RunRecord) -> NDArray[np.int64]:
    order = np.argsort(record.arrival_s, kind="stable")
    low, high = (share * len(record) for share in MIDDLE_SHARE)
    return order[math.ceil(low) : math.floor(high)]


def _metrics(record: RunRecord, totals: Totals, requests: NDArray[np.int64]) -> Metrics:
    barrier = record.replicas * totals.sum_peak
    imbalance = barrier - totals.sum_load
    metrics: Metrics = {
        "steps": totals.steps,
        "requests": totals.completed,
        "duration_s": totals.clock_s,
        "sum_peak_tokens": totals.sum_peak,
        "sum_load_tokens": totals.sum_load,
        "imbalance_total_tokens": imbalance,
        "imbalance_mean_tokens": _ratio(imbalance, totals.steps),
        "spread_mean_tokens": _ratio(totals.sum_spread, totals.steps),
        "peak_over_mean": _ratio(barrier, totals.sum_load),
        "barrier_idle_fraction": _ratio(imbalance, barrier),
        "throughput_tokens_per_s": _ratio(totals.decoded_tokens, totals.clock_s),
        "request_rate_per_s": _ratio(totals.completed, totals.clock_s),
        "energy_model_j": totals.energy_j,
        "energy_model_j_per_token": _ratio(totals.energy_j, totals.decoded_tokens),
    }
    started_s = record.admitted_s if record.started_s is None else record.started_s
    decode_s = record.finished_s[requests] - started_s[requests]
    metrics |= _percentiles("tpot", decode_s / record.output_tokens[requests])
    metrics |= _percentiles("e2e", record.finished_s[requests] - record.arrival_s[requests])
    wait = record.admitted_s[requests] - record.ready_s[requests]
    metrics |= _percentiles("wait", wait)
    metrics["wait_max_s"] = float(wait.max()) if len(wait) else None
    if record.unit_s is not None:
        metrics |= _idle_times(record.replicas, totals, record.unit_s)
    return metrics


def _idle_times(replicas: int, totals: Totals, unit_s: float) -> Metrics:
    """What unequal replicas wait, in time: tokens of one are not worth those of another."""
    barrier = replicas * totals.sum_longest
    idle = barrier - totals.sum_times
    return {
        "barrier_idle_fraction": _ratio(idle, barrier),
        "barrier_idle_total_s": unit_s * idle,
        "barrier_idle_mean_s": _ratio(unit_s * idle, totals.steps),
    }


def _percentiles(name: str, values: NDArray[np.float64]) -> Metrics:
    if not len(values):
        return {f"{name}_p{q}_s": None for q in PERCENTILES}
    return {f"{name}_p{q}_s": float(np.percentile(values, q)) for q in PERCENTILES}


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
