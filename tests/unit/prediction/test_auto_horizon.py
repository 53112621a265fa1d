"""Horizon from the gap between completions: the formula, its limits, and a calm estimator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.prediction.auto_horizon import HorizonEstimator, completion_gap, horizon_for_gap


def test_the_gap_is_counted_on_one_replica():
    # 2 replicas of 4 full slots, outputs of 20 steps: each completes a request every 5 steps.
    assert completion_gap(steps=100, completions=40, replicas=2) == 5.0


def test_no_completion_has_no_gap():
    assert completion_gap(steps=100, completions=0, replicas=2) is None


@given(st.floats(0, 1e6), st.floats(0.1, 10))
def test_the_horizon_grows_with_the_gap_within_its_limits(gap, factor):
    horizons = [horizon_for_gap(g, factor=factor, shortest=3, longest=200) for g in (gap, gap + 7)]
    assert 3 <= horizons[0] <= horizons[1] <= 200


@given(st.floats(2, 300))
def test_by_default_it_is_the_gap(gap):
    assert gap - 0.5 <= horizon_for_gap(gap) <= gap + 0.5


def steady(estimator, *, every, steps, start=0):
    """One completion on all replicas together every so many steps; steps at which H changed."""
    return [
        step
        for step in range(start, start + steps)
        if estimator.observe(int(step % every == 0), step=step)
    ]


def test_a_steady_load_is_measured_exactly_and_changes_the_horizon_once():
    estimator = HorizonEstimator(replicas=8, initial=80, least=16)
    changes = steady(estimator, every=2, steps=400)
    # One completion every 2 steps on 8 replicas: 16 steps on each.
    assert estimator.gap == 16.0
    assert estimator.horizon == 16
    assert changes == [30]  # at the sixteenth completion, steps 0, 2 .. 30


def test_before_enough_completions_the_initial_horizon_stands():
    estimator = HorizonEstimator(replicas=8, initial=80, least=16)
    assert steady(estimator, every=2, steps=30) == []
    assert (estimator.gap, estimator.horizon) == (None, 80)


def test_it_follows_a_change_of_load():
    estimator = HorizonEstimator(replicas=8, window=64, least=16)
    steady(estimator, every=2, steps=400)
    steady(estimator, every=8, steps=64 * 8 + 8, start=400)
    # 8 steps apart on 8 replicas: 64 steps. The last changes stay within the slack.
    assert estimator.gap == 64.0
    assert abs(estimator.horizon - 64) <= 0.25 * estimator.horizon


def test_noise_within_the_slack_changes_nothing():
    estimator = HorizonEstimator(replicas=8, window=512, least=64)
    rng = np.random.default_rng(6)
    changes = [step for step in range(4000) if estimator.observe(rng.poisson(0.5), step=step)]
    # A change at the first measurement; a gap over 512 has a relative error of 4 %.
    assert len(changes) <= 2
    assert abs(estimator.horizon - 16) <= 4


def test_many_completions_in_one_step_are_one_moment():
    estimator = HorizonEstimator(replicas=4, window=8, least=2)
    assert estimator.observe(100, step=5)
    assert (estimator.gap, estimator.horizon) == (0.0, 1)


@pytest.mark.parametrize(
    "numbers",
    [
        {"replicas": 0},
        {"least": 1},
        {"least": 600},
        {"slack": -0.1},
        {"factor": 0.0},
        {"shortest": 0},
        {"longest": 4, "shortest": 5},
        {"initial": 0},
    ],
)
def test_numbers_out_of_range_are_refused(numbers):
    with pytest.raises(InputError):
        HorizonEstimator(**({"replicas": 8} | numbers))


def test_impossible_observations_are_refused():
    estimator = HorizonEstimator(replicas=8)
    estimator.observe(1, step=10)
    with pytest.raises(InputError, match="at least 10, the last one, got 9"):
        estimator.observe(1, step=9)
    with pytest.raises(InputError, match="completions"):
        estimator.observe(-1, step=11)
    with pytest.raises(InputError, match="steps"):
        completion_gap(steps=-1, completions=2, replicas=1)
    with pytest.raises(InputError, match="gap"):
        horizon_for_gap(float("nan"))
