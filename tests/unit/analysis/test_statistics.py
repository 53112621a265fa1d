"""Small-sample statistics: textbook values, equivariance, coverage, and what cannot be known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from brtheory.analysis.statistics import (
    mean_with_interval,
    ratio_of_means,
)
from brtheory.errors import InputError

samples = st.lists(st.integers(-1000, 1000), min_size=2, max_size=8)


def test_the_interval_of_three_values_is_the_textbook_one():
    # Mean 2, standard deviation 1, t(0.975, 2) = sqrt(2 p^2/(1 - p^2)) with p = 0.95 in closed
    # form for two degrees of freedom = 4.302653; half width = t/sqrt(3).
    half = math.sqrt(2 * 0.95**2 / (1 - 0.95**2)) / math.sqrt(3)
    measured = mean_with_interval([3, 1, 2])
    assert (measured.value, measured.count) == (2.0, 3)
    assert measured.interval.low == pytest.approx(2 - half, rel=1e-12)
    assert measured.interval.high == pytest.approx(2 + half, rel=1e-12)


@given(values=samples, scale=st.integers(1, 20), shift=st.integers(-500, 500))
@settings(max_examples=50, deadline=None)
def test_the_interval_follows_scale_and_shift(values, scale, shift):
    here = mean_with_interval(values)
    moved = mean_with_interval([scale * value + shift for value in values])
    for name in ("low", "high"):
        expected = scale * getattr(here.interval, name) + shift
        assert getattr(moved.interval, name) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(values=samples)
@settings(max_examples=30, deadline=None)
def test_more_confidence_never_narrows_the_interval(values):
    narrow, wide = (mean_with_interval(values, confidence=level) for level in (0.8, 0.99))
    assert wide.interval.low <= narrow.interval.low <= narrow.value
    assert narrow.value <= narrow.interval.high <= wide.interval.high


def test_the_interval_covers_the_true_mean_in_95_of_100_studies():
    draws = np.random.default_rng(3).normal(5.0, 2.0, size=(2000, 4))
    intervals = [mean_with_interval(row).interval for row in draws]
    covered = np.mean([interval.low <= 5.0 <= interval.high for interval in intervals])
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_value_has_no_interval_and_no_value_no_mean():
    assert mean_with_interval([4.0]).value == 4.0
    assert mean_with_interval([4.0]).interval is None
    assert mean_with_interval([]) is None


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, float("nan")])
def test_confidence_lies_strictly_between_zero_and_one(confidence):
    with pytest.raises(InputError, match=r"^confidence: expected 0 < confidence < 1"):
        mean_with_interval([1.0, 2.0], confidence=confidence)


def test_a_value_that_is_no_number_is_named():
    with pytest.raises(InputError, match=r"^values\[1\]: expected a finite number, got nan"):
        mean_with_interval([1.0, float("nan")])


pairs = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(900, 1100)), min_size=3, max_size=8
).filter(lambda rows: len({top / bottom for top, bottom in rows}) > 1)


@given(rows=pairs)
@settings(max_examples=60, deadline=None)
def test_the_ends_of_the_ratio_are_where_the_paired_test_turns_significant(rows):
    tops, bottoms = np.array(rows, dtype=float).T
    measured = ratio_of_means(tops, bottoms)
    assert measured.value == pytest.approx(tops.mean() / bottoms.mean(), rel=1e-12)
    for end in (measured.interval.low, measured.interval.high):
        assert ttest_1samp(tops - end * bottoms, 0.0).pvalue == pytest.approx(0.05, rel=1e-5)


@given(rows=pairs, scale=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_the_ratio_follows_the_unit_of_the_numerator(rows, scale):
    tops, bottoms = np.array(rows, dtype=float).T
    here, scaled = ratio_of_means(tops, bottoms), ratio_of_means(scale * tops, bottoms)
    assert scaled.value == pytest.approx(scale * here.value, rel=1e-12)
    assert scaled.interval.low == pytest.approx(scale * here.interval.low, rel=1e-6, abs=1e-9)
    assert scaled.interval.high == pytest.approx(scale * here.interval.high, rel=1e-6, abs=1e-9)


def test_pairing_over_seeds_takes_the_common_noise_out():
    # Seeds differ by a factor of three, but each numerator is a third of its denominator or so.
    bottoms = np.array([100.0, 200.0, 150.0, 300.0, 120.0, 280.0])
    tops = bottoms * np.array([0.33, 0.34, 0.33, 0.335, 0.335, 0.33])
    paired, shuffled = ratio_of_means(tops, bottoms), ratio_of_means(tops, np.roll(bottoms, 1))
    assert paired.value == pytest.approx(shuffled.value, rel=1e-12)
    assert paired.interval.high - paired.interval.low < 0.02
    assert shuffled.interval.high - shuffled.interval.low > 0.3


def test_an_exact_ratio_has_an_interval_of_no_width():
    measured = ratio_of_means([10.0, 11.0, 12.0], [20.0, 22.0, 24.0])
    assert (measured.interval.low, measured.interval.high) == (0.5, 0.5)


def test_a_ratio_without_a_bounded_interval_says_so():
    # The denominators' mean of 1 lies within their noise of +- 5: no bounded interval covers.
    measured = ratio_of_means([1.0, 2.0, 3.0], [-4.0, 1.0, 6.0])
    assert measured.value == 2.0
    assert measured.interval is None
    assert ratio_of_means([1.0], [2.0]).interval is None


def test_a_ratio_to_zero_or_of_nothing_is_unknown():
    assert ratio_of_means([1.0, 2.0], [-1.0, 1.0]) is None
    assert ratio_of_means([], []) is None


def test_unpaired_values_are_refused():
    with pytest.raises(InputError, match=r"^denominators: expected 2 values, one a pair, got 1"):
        ratio_of_means([1.0, 2.0], [1.0])
