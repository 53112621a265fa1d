"""Rows and summaries: derived metrics by definition, ratios by seed, unknown stays unknown."""

import numpy as np
import pytest

from brtheory.study.campaign import RunCell
from brtheory.study.choices import resolve_choices
from brtheory.study.comparison import study_rows, summarise_rows
from brtheory.study.tasks import LoadsTask, RunTask
from tests.unit.study.samples import SHAPE, STEP_TIME, cells, metrics, run_config, small_trace


def test_time_fraction_is_the_wait_of_the_average_replica_step_by_step():
    trace, config = small_trace(), run_config("jsq")
    (choice,) = resolve_choices(["jsq"], mean_output_tokens=6, slots=2)
    cell = RunCell("routers", choice, config, len(trace), RunTask(config).run(trace))
    row = next(row for row in study_rows([cell]) if row.scope == "all_steps")
    loads = np.array(LoadsTask(config, 100_000).run(trace)["loads"])
    peak = loads.max(axis=1)
    waits = STEP_TIME.a0 * (peak - loads.mean(axis=1))
    steps = STEP_TIME.b0 + STEP_TIME.a0 * peak
    assert row.metrics["barrier_time_fraction"] == pytest.approx(waits.sum() / steps.sum())
    per_replica = (SHAPE.replicas * peak - loads.sum(axis=1)).mean() / SHAPE.replicas
    assert row.metrics["imbalance_per_replica_tokens"] == pytest.approx(per_replica)
    assert row.metrics["steps_between_completions"] == SHAPE.replicas * len(loads) / len(trace)


def test_means_and_paired_ratios():
    summaries = summarise_rows(
        study_rows(cells({"jsq": [metrics(10), metrics(30)], "br0": [metrics(5), metrics(15)]}))
    )
    found = {(s.label, s.scope): s.metrics["imbalance_mean_tokens"] for s in summaries}
    half = found["br0", "loaded_window"]
    # (5 + 15) / 2; half of JSQ's under each seed, so the ratio is certain though the means are not.
    assert (half.mean, half.ratio_to_jsq, half.seeds) == (10.0, 0.5, 2)
    assert found["jsq", "loaded_window"].ratio_to_jsq == 1.0
    assert half.low < 10 < half.high


def test_an_empty_window_under_one_seed_leaves_no_mean():
    summaries = summarise_rows(
        study_rows(cells({"jsq": [metrics(10), metrics(30)], "br0": [metrics(5), None]}))
    )
    window = next(s for s in summaries if (s.label, s.scope) == ("br0", "loaded_window"))
    assert set(window.metrics.values()) == {None}
    steps = next(s for s in summaries if (s.label, s.scope) == ("br0", "all_steps"))
    assert steps.metrics["imbalance_mean_tokens"].mean == 6.0  # (5 + the whole run's 7) / 2


def test_one_seed_has_no_interval():
    (summary, _) = summarise_rows(study_rows(cells({"jsq": [metrics(10)]})))
    estimate = summary.metrics["imbalance_mean_tokens"]
    assert (estimate.low, estimate.high, estimate.seeds) == (None, None, 1)
