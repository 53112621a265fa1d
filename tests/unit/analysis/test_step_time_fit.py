"""The step model fitted: exact on exact data, intervals that cover, outliers, drift, refusals."""

import doctest
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from brtheory.analysis.step_time_fit import (
    LEAST_STEPS,
    LONGEST_S,
    MOST_TOKENS,
    SHORTEST_S,
    StepTimeFit,
    fit_step_time,
)
from brtheory.errors import InputError

A0, B0 = 2.5e-7, 0.060
PAGE = Path(__file__).resolve().parents[3] / "docs" / "calibrate.md"


def measured(seed, steps=60, *, noise=1e-3, far=0.0):
    """Steps of the model with noise that grows with the load, some of them with a long pause."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(50_000, 250_000, size=steps)
    errors = rng.normal(0, noise, size=steps) * loads / 150_000
    pauses = np.where(rng.random(steps) < far, rng.exponential(0.3, size=steps), 0.0)
    return loads, B0 + A0 * loads + errors + pauses


@given(
    a0=st.floats(1e-9, 1e-5),
    b0=st.floats(1e-4, 1.0),
    loads=st.lists(st.integers(0, 10**7), min_size=3, max_size=20, unique=True),
    robust=st.booleans(),
)
def test_exact_steps_give_the_exact_line(a0, b0, loads, robust):
    seconds = [b0 + a0 * load for load in loads]
    fit = fit_step_time(loads, seconds, robust=robust)
    # Absolute errors are relative to the times they are made of.
    size = max(seconds)
    assert fit.b0.value == pytest.approx(b0, abs=1e-6 * size)
    assert fit.a0.value * max(loads) == pytest.approx(a0 * max(loads), abs=1e-6 * size)
    assert len(fit.residual_s) == fit.steps == len(loads)


@pytest.mark.parametrize("robust", [True, False])
@pytest.mark.parametrize("far", [0.0, 0.03])
def test_intervals_cover_the_truth_as_often_as_they_say(robust, far):
    trials, confidence = 300, 0.9
    fits = [
        fit_step_time(*measured(seed, far=far), robust=robust, confidence=confidence)
        for seed in range(trials)
    ]
    # 90 % of binomial(300, 0.9) down to its one-in-a-thousand quantile. Beyond the nominal share is
    # no fault: the pauses of least squares widen its intervals. Pauses are all above the line, and
    # so is the mean that least squares estimates: of b0 the share is only asked of the robust fit.
    least = int(binom.ppf(1e-3, trials, confidence))
    assert sum(f.a0.interval.low <= A0 <= f.a0.interval.high for f in fits) >= least
    if robust or not far:
        assert sum(f.b0.interval.low <= B0 <= f.b0.interval.high for f in fits) >= least


def test_a_robust_fit_is_several_times_closer_where_steps_pause():
    errors = {
        robust: np.mean([
            abs(fit_step_time(*measured(seed, far=0.03), robust=robust).a0.value / A0 - 1)
            for seed in range(40)
        ])
        for robust in (True, False)
    }  # fmt: skip
    assert errors[True] < errors[False] / 3


def test_pauses_are_reported_and_ordinary_noise_is_not():
    loads, seconds = measured(1)
    seconds[[7, 30]] += 0.5
    assert fit_step_time(loads, seconds).outliers.tolist() == [7, 30]
    assert fit_step_time(*measured(1)).outliers.tolist() == []


@given(seed=st.integers(0, 1000), unit=st.sampled_from([1e-3, 1.0, 1e3]))
def test_another_unit_of_time_scales_the_fit(seed, unit):
    loads, seconds = measured(seed, steps=20)
    one, other = fit_step_time(loads, seconds), fit_step_time(loads, unit * seconds)
    assert other.a0.value == pytest.approx(unit * one.a0.value, rel=1e-6)
    assert other.b0.interval.low == pytest.approx(unit * one.b0.interval.low, rel=1e-6)


def test_the_online_fit_without_forgetting_is_least_squares():
    loads, seconds = measured(3)
    online = StepTimeFit(forgetting=1.0)
    for load, time_s in zip(loads, seconds, strict=True):
        online.observe(load, time_s)
    a0, b0 = online.coefficients()
    slope, intercept = np.polyfit(loads, seconds, 1)
    assert (a0.value, b0.value) == pytest.approx((slope, intercept), rel=1e-9)
    assert online.effective_steps == pytest.approx(len(loads))
    # Its interval of a0 is the textbook's: t_(n-2) * s / sqrt(sum of squares of the loads).
    residual = seconds - slope * loads - intercept
    s = math.sqrt((residual**2).sum() / (len(loads) - 2))
    error = s / math.sqrt(((loads - loads.mean()) ** 2).sum())
    half = (a0.interval.high - a0.interval.low) / 2
    assert half / error == pytest.approx(2.0017, abs=1e-3)  # t of 58 degrees at 97.5 %


def test_the_online_fit_weighs_a_step_less_the_older_it_is():
    loads, seconds = measured(4, steps=50)
    online = StepTimeFit(forgetting=0.9)
    for load, time_s in zip(loads, seconds, strict=True):
        online.observe(load, time_s)
    weights = 0.9 ** np.arange(49, -1, -1)
    slope, intercept = np.polyfit(loads, seconds, 1, w=np.sqrt(weights))
    a0, b0 = online.coefficients()
    assert (a0.value, b0.value) == pytest.approx((slope, intercept), rel=1e-9)


def test_the_online_fit_follows_a_change_and_one_that_forgets_nothing_does_not():
    forgetful, faithful = StepTimeFit(forgetting=0.98), StepTimeFit(forgetting=1.0)
    for factor in (1, 2):
        loads, seconds = measured(5, steps=400)
        for load, time_s in zip(loads, factor * seconds, strict=True):
            forgetful.observe(load, time_s)
            faithful.observe(load, time_s)
    assert forgetful.coefficients()[0].value == pytest.approx(2 * A0, rel=0.1)
    assert faithful.coefficients()[0].value < 1.8 * A0


def test_online_nothing_is_said_before_the_loads_vary():
    online = StepTimeFit()
    assert online.coefficients() is None
    for _ in range(10):
        online.observe(1000, 0.02)
    assert online.coefficients() is None
    online.observe(2000, 0.03)
    assert online.coefficients() is not None


@pytest.mark.parametrize(
    ("loads", "seconds", "message"),
    [
        ([1, 2], [1, 1], f"steps: expected at least {LEAST_STEPS}, got 2"),
        ([1, 2, 3], [1, 1], "seconds: expected 3 values"),
        ([7, 7, 7], [1, 2, 3], "loads that vary"),
        ([0, 0, 0], [1, 2, 3], "loads that vary"),
        ([1, 2, -3], [1, 1, 1], "max_load: expected tokens >= 0"),
        ([1, 2, 3], [1, 0, 1], "seconds: expected a duration > 0"),
        ([1, 2, 3], [1, 1, 1e308], "seconds: expected a duration .* to 1e.09 seconds"),
        ([1, 2, 3], [5e-324, 1, 1], "seconds: expected a duration .* from 1e-09"),
        ([1, 2, 1e300], [1, 1, 1], "max_load: expected tokens .* <= 1e.18"),
        ([0, 1e-320, 2e-320], [1, 2, 3], "loads that vary"),
        ([1, 2, math.nan], [1, 1, 1], r"max_load\[2\]: expected a finite number"),
    ],
)
def test_steps_that_cannot_be_fitted_are_refused(loads, seconds, message):
    with pytest.raises(InputError, match=message):
        fit_step_time(loads, seconds)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(InputError, match="confidence"):
        fit_step_time([1, 2, 3], [1, 2, 3], confidence=1.0)
    with pytest.raises(InputError, match="forgetting"):
        StepTimeFit(forgetting=0.0)
    for load, seconds in ((-1, 1), (1, 0), (math.inf, 1), (1, math.nan)):
        with pytest.raises(InputError):
            StepTimeFit().observe(load, seconds)


@pytest.mark.parametrize("robust", [True, False])
@pytest.mark.parametrize("seconds", [SHORTEST_S, LONGEST_S])
@pytest.mark.parametrize("tokens", [1.0, MOST_TOKENS])
def test_fits_stay_finite_at_the_ends_of_the_ranges(tokens, seconds, robust):
    loads = tokens * np.array([0.0, 0.25, 0.5, 1.0])
    times = np.array([1.0, 1.0, 1.0, 2.0]) * (seconds if seconds < 1 else seconds / 2)
    fit = fit_step_time(loads, times, robust=robust)
    ends = [fit.a0.interval.low, fit.a0.interval.high, fit.b0.interval.low, fit.b0.interval.high]
    assert np.isfinite([*ends, fit.scale_s, fit.r_squared]).all()
    assert fit.a0.interval.low < fit.a0.interval.high


def test_the_example_on_the_page_gives_what_it_shows():
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert (results.failed, results.attempted) == (0, 5)
