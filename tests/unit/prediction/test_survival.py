"""Survival predictor: unbiased where the plain law is not, follows drift, never guesses."""

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.length_law import kaplan_meier
from brtheory.prediction.prequential import Timeline, play
from brtheory.prediction.protocol import ANCHOR, OnlinePredictor, Running
from brtheory.prediction.survival import SurvivalPredictor

NO_ONE = np.array([], dtype=np.int64)


def request(index):
    return Request(index, prompt_tokens=10)


def teach(predictor, outputs, *, first=0):
    """Admit and finish requests, and refit."""
    for i, output in enumerate(outputs, start=first):
        predictor.observe_admitted(request(i))
        predictor.observe_finished(request(i), output_tokens=output)
    predictor.refit([])


def test_it_is_an_online_predictor():
    assert isinstance(SurvivalPredictor(), OnlinePredictor)


def test_censoring_removes_the_bias_that_the_plain_law_has():
    # Outputs uniform on 1..100, admissions uniform over the 100 steps before now. One that was
    # admitted u steps ago has finished if its output is at most u: of the finished, a share of
    # (50 - 50^2/200) / (100 - 100^2/200) = 37.5 / 50 = 0.75 is no longer than 50; the truth is 0.5.
    rng = np.random.default_rng(1)
    outputs, ages = rng.integers(1, 101, size=20_000), rng.integers(0, 100, size=20_000)
    finished, running = outputs[outputs <= ages], ages[outputs > ages]
    plain = kaplan_meier(finished, NO_ONE)
    censored = kaplan_meier(finished, running)
    assert plain.predict(age=0, horizon=50).p_finish == pytest.approx(0.75, abs=0.02)
    # Greenwood's standard error here is below 0.006.
    assert censored.predict(age=0, horizon=50).p_finish == pytest.approx(0.5, abs=0.02)
    assert censored.predict(age=0, horizon=25).p_finish == pytest.approx(0.25, abs=0.02)


def test_the_predictor_is_unbiased_while_most_requests_still_run():
    # The same through the events of a run that began 100 steps ago.
    rng = np.random.default_rng(2)
    outputs, ages = rng.integers(1, 101, size=8000), rng.integers(0, 100, size=8000)
    predictor = SurvivalPredictor(window=8000)
    for i in range(8000):
        predictor.observe_admitted(request(i))
    for i in np.flatnonzero(outputs <= ages).tolist():
        predictor.observe_finished(request(i), output_tokens=int(outputs[i]))
    running = np.flatnonzero(outputs > ages).tolist()
    predictor.refit([Running(request(i), int(ages[i])) for i in running])
    prediction = predictor.predict(request(0), age=20, horizon=40)
    # P(20 < o <= 60 | o > 20) = 40/80, and the mean of 1..40 is 20.5.
    assert prediction.p_finish == pytest.approx(0.5, abs=0.03)
    assert prediction.mean_remaining == pytest.approx(20.5, abs=1.0)


def test_knowing_nothing_it_says_anchor():
    predictor = SurvivalPredictor()
    assert predictor.predict(request(0), age=0, horizon=80) is ANCHOR
    predictor.observe_admitted(request(0))
    predictor.refit([Running(request(0), 50)])
    assert predictor.law is None
    teach(predictor, [5], first=1)
    # Past the longest known output nothing is known either.
    assert predictor.predict(request(9), age=5, horizon=80) is ANCHOR


def test_predictions_change_at_refits_only():
    predictor = SurvivalPredictor()
    teach(predictor, [10])
    before = predictor.predict(request(9), age=0, horizon=5)
    predictor.observe_admitted(request(1))
    predictor.observe_finished(request(1), output_tokens=3)
    assert predictor.predict(request(9), age=0, horizon=5) == before == ANCHOR
    assert predictor.refit_due
    predictor.refit([])
    assert not predictor.refit_due
    assert predictor.predict(request(9), age=0, horizon=5).p_finish == 0.5


def test_the_window_follows_drift():
    predictor = SurvivalPredictor(window=50)
    teach(predictor, [1000] * 50)
    teach(predictor, [10] * 50, first=50)
    prediction = predictor.predict(request(999), age=0, horizon=80)
    assert (prediction.p_finish, prediction.mean_remaining) == (1.0, 10.0)


def test_a_window_narrower_than_what_runs_still_knows_great_lengths():
    # Forty run at once, outputs of 1 to 80 steps: the last ten admissions are hardly ever older
    # than ten steps, yet the law must reach to 80.
    rng = np.random.default_rng(3)
    steps = np.arange(2000, dtype=np.int64)
    run = Timeline(np.ones(2000, dtype=np.int64), rng.integers(1, 81, size=2000), steps)
    predictor = SurvivalPredictor(window=10)
    play(run, predictor, horizon=20, until=1500)
    prediction = predictor.predict(request(0), age=40, horizon=20)
    # P(40 < o <= 60 | o > 40) = 20/40, from about 320 requests.
    assert prediction.p_finish == pytest.approx(0.5, abs=0.12)


def test_a_cancelled_request_is_evidence_of_length_not_of_an_end():
    predictor = SurvivalPredictor()
    teach(predictor, [4])
    predictor.observe_admitted(request(1))
    predictor.observe_cancelled(request(1), output_tokens=6)
    predictor.observe_admitted(request(2))
    predictor.observe_finished(request(2), output_tokens=8)
    predictor.refit([])
    # Three reach 4, one ends there: S = 2/3. At 8 only one is left at risk.
    assert predictor.predict(request(9), age=0, horizon=4).p_finish == pytest.approx(1 / 3)
    assert predictor.law.support.tolist() == [4, 8]


def test_impossible_lengths_are_refused():
    with pytest.raises(InputError, match=r"finished\[1\]: expected tokens >= 1, got 0"):
        kaplan_meier(np.array([3, 0]), NO_ONE)
    with pytest.raises(InputError, match=r"censored\[0\]: expected tokens >= 0, got -2"):
        kaplan_meier(np.array([3]), np.array([-2]))


def test_no_finished_request_gives_no_law():
    assert kaplan_meier(NO_ONE, np.array([5, 6])) is None
