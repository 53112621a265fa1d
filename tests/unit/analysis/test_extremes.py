"""Expected extremes: closed forms, laws in G, and agreement with independent computations."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtri

from brtheory.analysis.extremes import (
    expected_max_exponential,
    expected_max_normal,
    expected_max_sample,
    expected_max_uniform,
    gumbel_max_normal,
    log_bound_max_normal,
    log_bound_overstatement,
)
from brtheory.errors import InputError

SIZES = (1, 2, 3, 4, 8, 16, 64, 144, 1024)
integer_samples = st.lists(st.integers(-1000, 1000), min_size=1, max_size=6)


@pytest.mark.parametrize(
    "expected_max",
    [expected_max_normal, expected_max_exponential, expected_max_uniform, log_bound_max_normal],
)
def test_the_maximum_grows_with_the_number_of_replicas_but_ever_more_slowly(expected_max):
    values = [float(expected_max(replicas)) for replicas in range(1, 40)]
    gains = np.diff(values)
    assert (gains > 0).all()
    assert (np.diff(gains) < 0).all()


@pytest.mark.parametrize(
    ("replicas", "closed_form"),
    [
        (1, 0.0),
        # E max of two: E|X - Y|/2 = 1/sqrt(pi); of three: 3/2 of that.
        (2, 1 / math.sqrt(math.pi)),
        (3, 3 / (2 * math.sqrt(math.pi))),
        # David and Nagaraja (2003), section 3.2, with the orthant probability asin(1/3).
        (4, 3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi)),
        (5, 5 / math.sqrt(math.pi) * (0.25 + 1.5 * math.asin(1 / 3) / math.pi)),
    ],
)
def test_normal_maxima_have_these_closed_forms(replicas, closed_form):
    assert expected_max_normal(replicas) == pytest.approx(closed_form, abs=1e-12)


@pytest.mark.parametrize("replicas", [6, 8, 64, 1024, 10**6])
def test_normal_maxima_agree_with_a_fine_grid_of_the_density(replicas):
    # E max = int x G phi(x) Phi(x)^(G-1) dx by the trapezoid rule, which converges faster than any
    # power of the step for such integrands; the product integrates the distribution function.
    x, step = np.linspace(-12.0, 12.0, 48_001, retstep=True)
    log_density = math.log(replicas) - x**2 / 2 - math.log(2 * math.pi) / 2
    density = np.exp(log_density + (replicas - 1) * log_ndtr(x))
    assert density.sum() * step == pytest.approx(1.0, abs=1e-11)
    assert expected_max_normal(replicas) == pytest.approx((x * density).sum() * step, abs=1e-9)


@pytest.mark.parametrize(("replicas", "reported"), [(4, 1.029), (8, 1.423), (16, 1.765)])
def test_normal_maxima_truncate_to_the_reported_three_decimals(replicas, reported):
    assert math.floor(1000 * expected_max_normal(replicas)) / 1000 == reported


def test_normal_maxima_survive_huge_numbers_of_replicas():
    # sqrt(2 ln G) - E max tends to 0 and E max stays below: at 2**31 - 1 they differ by < 6 %.
    bound = log_bound_max_normal(2**31 - 1)
    assert 0.94 * bound < expected_max_normal(2**31 - 1) < bound


def test_exponential_maxima_are_harmonic_numbers():
    partial_sums = itertools.accumulate(Fraction(1, k) for k in range(1, 60))
    assert [expected_max_exponential(replicas) for replicas in range(1, 60)] == list(partial_sums)


@pytest.mark.parametrize("replicas", SIZES)
def test_the_barrier_idles_half_of_g_less_one_in_g_with_uniform_loads(replicas):
    # 1 - mean/max = 1 - (1/2)(G + 1)/G = (G - 1)/(2G) (T36).
    idle = 1 - Fraction(1, 2) / expected_max_uniform(replicas)
    assert idle == Fraction(replicas - 1, 2 * replicas)


@given(sample=integer_samples, replicas=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_sample_maxima_equal_the_average_over_all_draws(sample, replicas):
    draws = list(itertools.product(sample, repeat=replicas))
    exact = Fraction(sum(map(max, draws)), len(draws))
    assert expected_max_sample(sample, replicas) == pytest.approx(float(exact), abs=1e-9)


@given(
    sample=integer_samples,
    replicas=st.integers(1, 2000),
    scale=st.integers(1, 50),
    shift=st.integers(-(10**6), 10**6),
)
@settings(max_examples=60, deadline=None)
def test_sample_maxima_follow_scale_and_shift(sample, replicas, scale, shift):
    moved = [scale * value + shift for value in sample]
    expected = scale * expected_max_sample(sample, replicas) + shift
    assert expected_max_sample(moved, replicas) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(sample=integer_samples, replicas=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_sample_maxima_lie_between_mean_and_largest_and_grow(sample, replicas):
    here, next_ = (expected_max_sample(sample, replicas + more) for more in (0, 1))
    assert np.mean(sample) - 1e-9 <= here <= next_ + 1e-9 <= max(sample) + 2e-9


@pytest.mark.parametrize("replicas", [2, 8, 64])
def test_a_large_sample_of_normals_has_nearly_the_maxima_of_the_law(replicas):
    # Its quantiles at the midpoints (i - 1/2)/n make a sample without noise.
    sample = ndtri((np.arange(200_000) + 0.5) / 200_000)
    assert expected_max_sample(sample, replicas) == pytest.approx(
        expected_max_normal(replicas), abs=1e-3
    )


@pytest.mark.parametrize(("replicas", "percent"), [(2, 109), (8, 43), (1024, 15)])
def test_the_logarithmic_bound_overstates_by_this_much(replicas, percent):
    assert round(100 * log_bound_overstatement(replicas)) == percent


def test_the_overstatement_of_a_single_replica_is_unknown():
    # Both the bound and the expected maximum are 0 there.
    assert log_bound_overstatement(1) is None


def test_the_gumbel_approximation_gets_better_with_replicas():
    sizes = [8 * 4**k for k in range(8)]
    errors = [gumbel_max_normal(size) / expected_max_normal(size) - 1 for size in sizes]
    assert all(0 < later < earlier for earlier, later in itertools.pairwise(errors))
    assert max(errors) < 0.026


def test_the_gumbel_approximation_needs_two_replicas():
    with pytest.raises(InputError, match=r"replicas: expected an integer from 2"):
        gumbel_max_normal(1)


def test_a_maximum_of_nothing_is_refused():
    with pytest.raises(InputError, match=r"sample: expected at least one value, got none"):
        expected_max_sample([], 4)
