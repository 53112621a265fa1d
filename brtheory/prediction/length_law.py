"""Law of output lengths from finished and still running requests, queried in O(log n).

Kaplan-Meier: S(x) = P(o > x) = product over finished lengths v <= x of (1 - d_v / n_v), with d_v
requests that ended at v and n_v known to reach it. A request of age a has o > a, so

    p  = P(o <= a + H | o > a) = (S(a) - S(a + H)) / S(a)
    mu = E[o - a | a < o <= a + H] = (T(a) - T(a + H)) / (S(a) - S(a + H)) - a

with T(x) the sum of v * P(o = v) over v > x: two binary searches into tables made once.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray
from scipy.stats import CensoredData, ecdf

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError
from brtheory.prediction.protocol import ANCHOR, Prediction

FloatArray = NDArray[np.float64]


class LengthLaw:
    """Survival function of output lengths as tables.

    Parameters
    ----------
    support
        Lengths at which requests ended, shape (m,), m >= 1 ascending integers >= 1.
    survival
        S before the first length (1) and at each of them, shape (m + 1,), falling.
    """

    def __init__(self, support: IntArray, survival: FloatArray) -> None:
        # Summed from the tail, so that what is left of it keeps its relative precision.
        ending = (survival[:-1] - survival[1:]) * support
        self.support = support
        self.survival = survival
        # Lists serve single queries several times faster than arrays do.
        self._lengths: list[int] = support.tolist()
        self._left: list[float] = survival.tolist()
        self._tail: list[float] = [*np.cumsum(ending[::-1])[::-1].tolist(), 0.0]

    @property
    def longest(self) -> int:
        """The greatest known length in tokens."""
        return self._lengths[-1]

    def predict(self, *, age: int, horizon: int) -> Prediction:
        """Predict for age >= 0 and H >= 0; an anchor where no known length lies in reach."""
        first = bisect_right(self._lengths, age)
        last = bisect_right(self._lengths, age + horizon, first)
        if first == last:
            return ANCHOR
        alive = self._left[first]
        ending = alive - self._left[last]
        mean = (self._tail[first] - self._tail[last]) / ending - age
        if not 1.0 <= mean <= horizon:  # by rounding in the differences alone
            mean = min(max(mean, 1.0), float(horizon))
        return Prediction(ending / alive, mean)


def kaplan_meier(finished: IntArray, censored: IntArray) -> LengthLaw | None:
    """Estimate the law from known lengths and from ages known to be exceeded.

    Parameters
    ----------
    finished
        Output lengths of finished requests, shape (n,), tokens >= 1.
    censored
        Ages of requests known to go on past them, shape (k,), tokens >= 0.

    Returns
    -------
    LengthLaw or None
        None where no request has finished.

    Raises
    ------
    InputError
        If a length is below 1 or an age below 0.

    Notes
    -----
    E. L. Kaplan, P. Meier, Nonparametric estimation from incomplete observations, J. Am. Stat.
    Assoc. 53 (1958); the estimate is SciPy's.
    """
    _check_at_least("finished", finished, 1)
    _check_at_least("censored", censored, 0)
    if len(finished) == 0:
        return None
    estimate = ecdf(CensoredData(uncensored=finished, right=censored)).sf
    support, survival = estimate.quantiles, np.concatenate(([1.0], estimate.probabilities))
    falls = np.flatnonzero(np.diff(survival) < 0)
    return LengthLaw(support[falls].astype(np.int64), np.concatenate(([1.0], survival[falls + 1])))


def _check_at_least(name: str, values: IntArray, least: int) -> None:
    wrong = values < least
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{name}[{row}]", f"tokens >= {least}", values[row])
