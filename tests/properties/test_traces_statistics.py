"""Streaming statistics equal those of the whole arrays, however the data is cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.traces.histograms import ArrivalCounts, IntegerHistogram, Moments

values = st.lists(st.integers(0, 5000), min_size=1, max_size=60)
PERCENTS = [0.0, 1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0]


@given(values, st.integers(1, 7))
def test_percentiles_are_numpys(drawn: list[int], size: int) -> None:
    histogram = IntegerHistogram()
    for start in range(0, len(drawn), size):
        histogram.add(np.array(drawn[start : start + size]))
    expected = np.percentile(drawn, PERCENTS)
    np.testing.assert_allclose(histogram.percentiles(PERCENTS), expected, rtol=1e-12, atol=1e-9)
    assert histogram.mean == pytest.approx(np.mean(drawn), rel=1e-12)
    assert (histogram.minimum, histogram.maximum) == (min(drawn), max(drawn))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.integers(1, 40))
def test_log_bins_hold_every_value_once(drawn: list[int], bins: int) -> None:
    histogram = IntegerHistogram()
    histogram.add(np.array(drawn))
    edges, counts = histogram.log_bins(bins)
    assert (np.diff(edges) > 0).all()
    expected, _ = np.histogram(drawn, np.append(edges[:-1], edges[-1] - 0.5))
    assert counts.tolist() == expected.tolist()
    assert counts.sum() == len(drawn)


@given(
    st.lists(st.tuples(st.integers(-999, 999), st.integers(-999, 999)), max_size=60),
    st.integers(1, 7),
)
def test_moments_are_numpys(pairs: list[tuple[int, int]], size: int) -> None:
    moments = Moments()
    x, y = np.array(pairs, dtype=float).reshape(-1, 2).T + 1e6
    for start in range(0, len(pairs), size):
        moments.add(x[start : start + size], y[start : start + size])
    if len(pairs) >= 2:
        # An offset of a million would cost a sum of squares six digits.
        assert moments.cv == pytest.approx(x.std() / x.mean(), rel=1e-9, abs=1e-15)
    if len(pairs) >= 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
        assert moments.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    else:
        assert moments.correlation is None


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=60), st.integers(1, 7))
def test_arrivals_are_counted_once_in_the_right_bin(drawn: list[float], size: int) -> None:
    times = np.sort(drawn)
    counts = ArrivalCounts()
    for start in range(0, len(times), size):
        counts.add(times[start : start + size])
    assert counts.counts.sum() == len(times)
    # Rounding may move a time on an edge by one bin.
    place = np.repeat(np.arange(counts.BINS), counts.counts)
    assert (np.abs(place - times / counts.bin_s) <= 1 + 1e-9).all()
