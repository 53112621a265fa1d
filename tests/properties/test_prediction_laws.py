"""Laws of the length law, the scores and the play: against definitions, written out slowly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.prediction.calibration import area_under_curve, calibration_curve, score
from brtheory.prediction.contribution import contribution
from brtheory.prediction.length_law import kaplan_meier
from brtheory.prediction.prequential import Timeline, play
from brtheory.prediction.protocol import Prediction
from brtheory.prediction.survival import SurvivalPredictor

lengths = st.lists(st.integers(1, 30), min_size=1, max_size=25)
ages = st.lists(st.integers(0, 30), max_size=25)
probabilities = st.floats(0, 1)


def ints(values):
    return np.array(values, dtype=np.int64)


def survival_by_definition(finished, censored, length):
    """Product over v <= length of 1 - (ended at v) / (known to reach v), exactly."""
    left = Fraction(1)
    for v in sorted(set(finished)):
        if v <= length:
            reach = sum(o >= v for o in finished) + sum(c >= v for c in censored)
            left *= 1 - Fraction(finished.count(v), reach)
    return left


@given(lengths, ages, st.integers(0, 31))
def test_the_survival_function_is_the_product_of_kaplan_and_meier(finished, censored, length):
    law = kaplan_meier(ints(finished), ints(censored))
    left = 1 - law.predict(age=0, horizon=length).p_finish
    expected = survival_by_definition(finished, censored, length)
    assert math.isclose(left, expected, rel_tol=1e-9, abs_tol=1e-12)


@given(lengths, ages, st.integers(0, 31), st.integers(0, 31))
def test_p_and_mu_are_sums_over_the_law(finished, censored, age, horizon):
    law = kaplan_meier(ints(finished), ints(censored))
    left = [survival_by_definition(finished, censored, x) for x in range(age, age + horizon + 1)]
    mass = {r: left[r - 1] - left[r] for r in range(1, horizon + 1)}
    prediction = law.predict(age=age, horizon=horizon)
    if sum(mass.values()) == 0:
        assert prediction == Prediction(0.0, None)
        return
    p = sum(mass.values()) / left[0]
    mu = sum(r * m for r, m in mass.items()) / sum(mass.values())
    assert prediction.p_finish == pytest.approx(float(p), rel=1e-9)
    assert prediction.mean_remaining == pytest.approx(float(mu), rel=1e-6)


@given(lengths, st.integers(0, 31), st.integers(1, 31))
def test_without_censoring_the_law_is_the_plain_share_of_what_is_longer_than_the_age(
    finished, age, horizon
):
    prediction = kaplan_meier(ints(finished), ints([])).predict(age=age, horizon=horizon)
    longer = [o - age for o in finished if o > age]
    ending = [r for r in longer if r <= horizon]
    assert prediction.p_finish == pytest.approx(len(ending) / len(longer) if longer else 0.0)
    if ending:
        assert prediction.mean_remaining == pytest.approx(sum(ending) / len(ending))


@given(lengths, ages, st.integers(0, 31), st.integers(1, 31))
def test_a_contribution_stays_between_p_mu_and_the_horizon(finished, censored, age, horizon):
    prediction = kaplan_meier(ints(finished), ints(censored)).predict(age=age, horizon=horizon)
    c_hat = contribution(prediction, horizon=horizon, gate=0.0)
    least = prediction.p_finish * (prediction.mean_remaining or 0.0)
    assert least <= c_hat <= horizon * (1 + 1e-12)


@given(lengths, ages)
def test_requests_censored_at_age_zero_change_nothing(finished, censored):
    law = kaplan_meier(ints(finished), ints(censored))
    more = kaplan_meier(ints(finished), ints([*censored, 0, 0]))
    assert law.support.tolist() == more.support.tolist()
    assert law.survival == pytest.approx(more.survival)


@given(st.lists(st.tuples(probabilities, st.booleans()), max_size=30))
def test_auc_is_the_share_of_pairs_in_the_right_order(answers):
    ended = [p for p, y in answers if y]
    others = [p for p, y in answers if not y]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in ended for b in others]
    p, y = np.array([p for p, _ in answers]), np.array([y for _, y in answers], dtype=bool)
    expected = pytest.approx(sum(pairs) / len(pairs)) if pairs else None
    assert area_under_curve(p, y) == expected


@given(st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=40))
def test_the_calibration_curve_loses_no_prediction(answers):
    p, y = np.array([p for p, _ in answers]), np.array([y for _, y in answers])
    curve = calibration_curve(p, y)
    assert sum(b.count for b in curve) == len(answers)
    assert sum(b.count * b.observed for b in curve) == pytest.approx(y.sum())
    assert sum(b.count * b.mean_predicted for b in curve) == pytest.approx(p.sum())
    assert all(b.low <= b.mean_predicted <= b.high + 1e-12 for b in curve)


@given(
    st.lists(st.tuples(probabilities, st.integers(1, 12), st.floats(1, 8)), min_size=1, max_size=20)
)
def test_contribution_error_is_that_of_the_contract(answers):
    p, r, mu = (np.array(column) for column in zip(*answers, strict=True))
    scores = score(p, mu, remaining=r, horizon=8)
    errors = [abs(contribution(Prediction(p, mu), horizon=8) - min(r, 8)) for p, r, mu in answers]
    assert scores.contribution_mae_steps == pytest.approx(sum(errors) / len(errors))


timelines = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 20), st.integers(0, 40)), min_size=1, max_size=15
).map(lambda rows: Timeline(*(ints(column) for column in zip(*rows, strict=True))))


@given(timelines, st.integers(1, 12))
def test_a_play_asks_for_every_request_at_every_refresh_of_its_life(timeline, horizon):
    answers = play(timeline, SurvivalPredictor(), horizon=horizon)
    refresh = max(1, horizon // 2)
    expected = {
        (i, age)
        for i, output in enumerate(timeline.output_tokens.tolist())
        for age in range(0, output, refresh)
    }
    asked = list(zip(answers.request.tolist(), answers.age.tolist(), strict=True))
    assert sorted(asked) == sorted(expected)
    assert (answers.step == timeline.admitted_step[answers.request] + answers.age).all()
    assert (np.diff(answers.step) >= 0).all()
