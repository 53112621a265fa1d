"""Axes of figures: ticks that enclose the data, growth without the replica that has no peers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.study.figures.scaling import scaling_lines
from brtheory.study.figures.tails import FLOOR_S, MOST_TICKS, log_ticks
from brtheory.study.results import Estimate, IndependentLoads, Summary
from tests.unit.study.samples import document, metrics


@given(st.lists(st.floats(0, 1e7), max_size=9))
def test_log_ticks_enclose_the_values_and_are_few(seconds):
    ticks = log_ticks(seconds)
    assert ticks == sorted(set(ticks))
    assert 2 <= len(ticks) <= MOST_TICKS + 1
    assert all(ticks[0] <= max(value, FLOOR_S) <= ticks[-1] for value in seconds)


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [([2.7, 15.1], [2, 5, 10, 20]), ([0.0, 1000], [0.001, 0.01, 0.1, 1, 10, 100, 1000][::2])],
)
def test_log_ticks_are_round(seconds, ticks):
    assert log_ticks(seconds)[: len(ticks)] == ticks


def grown(means):
    """JSQ's imbalance per replica by G beside independent loads of 100 tokens."""
    study = document({"jsq": [metrics(5)]})
    empty = {"low": None, "high": None, "seeds": 1}
    no_ratio = {"ratio_to_jsq": 1.0, "ratio_low": None, "ratio_high": None}
    summaries = [
        Summary(
            section="scaling",
            label="jsq",
            replicas=replicas,
            scope="loaded_window",
            metrics={"imbalance_per_replica_tokens": Estimate(mean=mean, **empty, **no_ratio)},
        )
        for replicas, mean in means.items()
    ]
    laws = [
        IndependentLoads(
            replicas=replicas, excess_tokens=100.0 * (replicas > 1), standard_error_tokens=1.0
        )
        for replicas in means
    ]
    return study.model_copy(update={"summaries": summaries, "independent_loads": laws})


def test_the_caption_measures_how_near_jsq_is_to_independent_loads():
    # 112 and 95 against 100: within 12 %.
    assert "within 12 % of that" in scaling_lines(grown({2: 112.0, 4: 95.0})).caption


def test_one_replica_has_no_imbalance_to_draw():
    drawing = scaling_lines(grown({1: 0.0, 2: 110.0}))
    assert "1: 0" not in drawing.alt
    assert "2: 110" in drawing.alt
    assert scaling_lines(grown({1: 0.0})) is None
