"""The page on prediction runs, and its numbers are those of the code."""

import doctest
from pathlib import Path

from brtheory.prediction import auto_horizon, exact_match, learned, survival
from brtheory.prediction.training import TrainingSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "prediction.md"


def test_the_example_on_the_page_gives_what_it_shows():
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert (results.failed, results.attempted) == (0, 10)


def test_defaults_named_on_the_page_are_those_of_the_code():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    estimator = auto_horizon.HorizonEstimator.__init__.__kwdefaults__
    for phrase in (
        f"last {survival.DEFAULT_WINDOW} admissions",
        f"every {survival.DEFAULT_REFIT_EVERY} completions",
        f"forgotten beyond {exact_match.DEFAULT_PREFIXES}, each keeps",
        f"keeps its last {exact_match.DEFAULT_PREFIX_WINDOW} requests",
        f"retrained every {learned.DEFAULT_RETRAIN_EVERY} completions",
        f"on the last {learned.DEFAULT_MOST_ROWS:,} rows",
        f"H is {auto_horizon.DEFAULT_FACTOR} times that gap",
        f"last {estimator['window']} completions",
    ):
        assert phrase in text, phrase
    assert exact_match.DEFAULT_LEAST_FINISHED == 2
    assert "after two of its requests" in text
    assert TrainingSettings().calibration_share == 0.25
    assert "later quarter" in text
    assert estimator["slack"] == 0.25
