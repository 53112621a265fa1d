"""Small-sample statistics of a study: intervals over seeds and paired ratios.

Rules: the values are one a seed; an interval that the data cannot give is None, never a point.

* mean:   m +- t s / sqrt(n), t the Student quantile with n - 1 degrees of freedom;
* ratio R of paired means, Fieller's interval: all rho for which the mean of y - rho x is not
  significantly different from 0. It is None where x's own mean is not significantly different
  from 0, for then no bounded interval covers.

Reference: E. C. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from brtheory.analysis.arguments import SampleArray, checked_sample
from brtheory.errors import InputError


@dataclass(frozen=True)
class Interval:
    """Lower and upper end of a confidence interval, ``low <= high``."""

    low: float
    high: float


@dataclass(frozen=True)
class Measured:
    """A point estimate with its confidence interval, None where the data do not give one.

    Parameters
    ----------
    value
        Mean or ratio of means, in the unit of the data.
    interval
        At the confidence asked for, or None.
    count
        Number of values, or of pairs.
    """

    value: float
    interval: Interval | None
    count: int

    @property
    def ends(self) -> tuple[float, float] | tuple[None, None]:
        """Lower and upper end of the interval, None where there is none."""
        return (None, None) if self.interval is None else (self.interval.low, self.interval.high)


def mean_with_interval(values: ArrayLike, *, confidence: float = 0.95) -> Measured | None:
    """Mean over seeds with its Student t interval.

    Parameters
    ----------
    values
        Finite numbers, shape (n,), one a seed.
    confidence
        Coverage, strictly between 0 and 1.

    Returns
    -------
    Measured or None
        None for no values; without an interval for a single one.

    Raises
    ------
    InputError
        If a value is not finite or the confidence is not between 0 and 1.

    Examples
    --------
    >>> mean_with_interval([3.0]).interval is None
    True
    """
    sample = checked_sample("values", values)
    quantile = _student_quantile(len(sample), confidence=confidence)
    if len(sample) == 0:
        return None
    mean = float(np.mean(sample))
    if quantile is None:
        return Measured(mean, None, len(sample))
    half = quantile * float(np.std(sample, ddof=1)) / math.sqrt(len(sample))
    return Measured(mean, Interval(mean - half, mean + half), len(sample))


def ratio_of_means(
    numerators: ArrayLike, denominators: ArrayLike, *, confidence: float = 0.95
) -> Measured | None:
    """Ratio of the means of two paired measurements with Fieller's interval.

    Parameters
    ----------
    numerators, denominators
        Finite numbers, shape (n,); entry i of both comes from seed i.
    confidence
        Coverage, strictly between 0 and 1.

    Returns
    -------
    Measured or None
        None for no pairs or a mean denominator of 0; without an interval for a single pair or
        where no bounded interval exists.

    Raises
    ------
    InputError
        If the two differ in length, a value is not finite or the confidence is not in (0, 1).

    Examples
    --------
    >>> ratio_of_means([10.0, 11.0, 12.0], [20.0, 22.0, 24.0])
    Measured(value=0.5, interval=Interval(low=0.5, high=0.5), count=3)
    """
    tops = checked_sample("numerators", numerators)
    bottoms = checked_sample("denominators", denominators)
    if len(tops) != len(bottoms):
        raise InputError("denominators", f"{len(tops)} values, one a pair", len(bottoms))
    quantile = _student_quantile(len(tops), confidence=confidence)
    if len(tops) == 0 or float(np.mean(bottoms)) == 0.0:
        return None
    ratio = float(np.mean(tops) / np.mean(bottoms))
    interval = None if quantile is None else _fieller(tops, bottoms, ratio, quantile)
    return Measured(ratio, interval, len(tops))


def _student_quantile(count: int, *, confidence: float) -> float | None:
    """Two-sided Student quantile for a mean of ``count`` values; None below two of them."""
    if not 0.0 < confidence < 1.0:
        raise InputError("confidence", "0 < confidence < 1", confidence)
    return float(student.ppf(0.5 + confidence / 2.0, count - 1)) if count >= 2 else None


def _fieller(
    tops: SampleArray, bottoms: SampleArray, ratio: float, quantile: float
) -> Interval | None:
    """Solve n (delta mean(x))^2 = t^2 var(e - delta x), e = y - R x, for delta = rho - R.

    Around R the residuals e have mean 0, so the discriminant is a sum of squares: nothing cancels.
    """
    weight = quantile**2 / len(tops)
    (var_e, covariance), (_, var_x) = np.cov(tops - ratio * bottoms, bottoms)
    leading = float(np.mean(bottoms) ** 2 - weight * var_x)
    if leading <= 0.0:
        return None
    middle = -weight * float(covariance)
    root = math.sqrt(middle**2 + leading * weight * float(var_e))
    ends = sorted(ratio + (middle + sign * root) / leading for sign in (-1.0, 1.0))
    return Interval(*ends)
