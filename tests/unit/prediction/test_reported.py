"""Reported figures stand beside measured ones with the sentence that fits."""

import pytest

from brtheory.prediction.reported import AZURE, PROPRIETARY, reported_scores, what_is_comparable
from brtheory.traces.workloads import find_workload


def test_figures_are_those_of_the_paper():
    figures = {
        name: [(r.auc, r.mae_steps) for r in reported_scores(name)]
        for name in ("survival", "exact-match", "learned", "oracle")
    }
    assert figures == {
        "survival": [(0.993, 5.4), (0.700, 20.1)],
        "exact-match": [(0.995, 5.4), (0.974, 2.9)],
        "learned": [],
        "oracle": [],
    }


def test_the_workloads_they_belong_to_exist():
    for name in ("survival", "exact-match"):
        for reported in reported_scores(name):
            assert find_workload(reported.workload).name == reported.workload


@pytest.mark.parametrize(
    ("predictor", "trace", "horizon", "sentence"),
    [
        ("survival", PROPRIETARY, 80, "Comparable as far as"),
        ("survival", AZURE, 80, "AUC is comparable"),
        ("exact-match", PROPRIETARY, 80, "prompts that repeat"),
        ("survival", AZURE, 40, "measured at H = 40"),
        ("survival", "mine.csv", 80, "two other traces"),
        ("learned", AZURE, 80, "No figure is reported"),
    ],
)
def test_the_sentence_says_what_can_be_compared(predictor, trace, horizon, sentence):
    assert sentence in what_is_comparable(predictor, trace=trace, horizon=horizon)
