"""Streaming counts and moments of a trace: exact token percentiles, gaps, arrivals over time.

Percentiles come from a histogram with one bin per token count, so they are exact however long the
trace is; memory is bounded by `brtheory.traces.schema.MAX_TOKENS` bins. Means, variances and
covariances are merged batch by batch by Chan's formulas (no cancellation on long traces).
"""

import numpy as np
from numpy.typing import NDArray


class IntegerHistogram:
    """Counts of nonnegative integers.

    Examples
    --------
    >>> histogram = IntegerHistogram()
    >>> histogram.add(np.array([1, 2, 2, 10]))
    >>> histogram.percentiles([50.0, 100.0]), histogram.mean
    ([2.0, 10.0], 3.75)
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(1, np.int64)

    def add(self, values: NDArray[np.int64]) -> None:
        """Count some more values."""
        fresh = np.bincount(values)
        if len(fresh) > len(self.counts):
            size = max(len(fresh), min(2 * len(self.counts), 1 << 20))
            self.counts = np.append(self.counts, np.zeros(size - len(self.counts), np.int64))
        self.counts[: len(fresh)] += fresh

    @property
    def total(self) -> int:
        """Number of values counted."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean, from exact integer sums; at least one value is needed."""
        return int(np.dot(self.counts, np.arange(len(self.counts)))) / self.total

    @property
    def minimum(self) -> int:
        """Smallest value; at least one value is needed."""
        return int(np.flatnonzero(self.counts)[0])

    @property
    def maximum(self) -> int:
        """Largest value; at least one value is needed."""
        return int(np.flatnonzero(self.counts)[-1])

    def percentiles(self, percents: list[float]) -> list[float]:
        """Return percentiles by numpy's linear convention (order statistics interpolated)."""
        cumulated = np.cumsum(self.counts)
        place = np.array(percents) / 100 * (cumulated[-1] - 1)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, cumulated[-1] - 1)
        low, high = (np.searchsorted(cumulated, rank, side="right") for rank in (below, above))
        return [float(value) for value in low + (high - low) * (place - below)]

    def log_bins(self, bins: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return edges (integers, about evenly spaced in the logarithm) and counts between them."""
        low, high = max(self.minimum, 1), self.maximum + 1
        edges = np.unique(np.rint(np.geomspace(low, high, bins + 1)).astype(np.int64))
        cumulated = np.concatenate([[0], np.cumsum(self.counts)])
        return edges, np.diff(cumulated[np.minimum(edges, len(self.counts))])


class Moments:
    """Means, variances and covariance of pairs (x, y), fed in batches."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = np.zeros(2)
        self._products = np.zeros((2, 2))

    def add(self, x: NDArray[np.number], y: NDArray[np.number]) -> None:
        """Take in some more pairs."""
        if len(x) == 0:
            return
        pairs = np.stack([x, y]).astype(np.float64)
        mean = pairs.mean(axis=1)
        centred = pairs - mean[:, None]
        total = self.count + len(x)
        shift = mean - self.mean
        self._products += centred @ centred.T
        self._products += np.outer(shift, shift) * (self.count * len(x) / total)
        self.mean = self.mean + shift * (len(x) / total)
        self.count = total

    @property
    def cv(self) -> float | None:
        """Standard deviation of x over its mean; None for fewer than two values or mean 0."""
        if self.count < 2 or self.mean[0] == 0:
            return None
        return float(np.sqrt(self._products[0, 0] / self.count) / self.mean[0])

    @property
    def correlation(self) -> float | None:
        """Pearson correlation; None where x or y does not vary."""
        scale = np.sqrt(self._products[0, 0] * self._products[1, 1])
        return float(self._products[0, 1] / scale) if scale > 0 else None


class ArrivalCounts:
    """Arrivals per time bin; bins double in width whenever the time line outgrows them."""

    BINS = 400

    def __init__(self) -> None:
        self.bin_s = 1e-3
        self.counts: NDArray[np.int64] = np.zeros(self.BINS, np.int64)

    def add(self, arrival_s: NDArray[np.float64]) -> None:
        """Count some more arrivals, at times >= 0 that do not go back."""
        while arrival_s[-1] >= self.bin_s * self.BINS:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.append(pairs, np.zeros(self.BINS - len(pairs), np.int64))
            self.bin_s *= 2
        place = (arrival_s / self.bin_s).astype(np.int64)
        self.counts += np.bincount(place, minlength=self.BINS)
