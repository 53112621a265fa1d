"""The step model tau = b0 + a0*M fitted to measured steps: by least squares, robustly, online.

M is the largest load of a step in KV tokens, tau its duration in seconds.

* ``fit_step_time``: Huber's M-estimate by iteratively reweighted least squares, its scale the
  normalised median absolute residual (or ordinary least squares, with ``robust=False``). Intervals
  are Student's with n - 2 degrees of freedom on the sandwich covariance of the M-estimate, with
  HC3's leverage correction: they hold where the noise grows with the load. Steps further than
  ``OUTLIER_SCALES`` scales off the line are reported; Huber's weight bounds their pull, none is
  dropped.
* ``StepTimeFit``: exponentially forgetting least squares in five running sums, so that it follows
  a step model that drifts; intervals are Student's with the effective number of steps.

References: P. J. Huber, Robust Statistics (1981), chapter 7; J. G. MacKinnon, H. White, J.
Econometrics 29 (1985), for HC3.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from brtheory.analysis.arguments import checked_sample
from brtheory.analysis.statistics import Interval
from brtheory.errors import InputError

HUBER = 1.345
"""Residuals beyond so many scales count less: 95 % efficient where the noise is normal."""
OUTLIER_SCALES = 6.0
LEAST_STEPS = 3
ROUNDS = 100
SETTLED, ROUNDING = 1e-10, 1e-12
MAD_OF_NORMAL = 0.6744897501960817
SMALLEST_SPREAD = 1e-6
"""Loads vary where their spread exceeds this share of the largest (or of one token)."""
MOST_TOKENS = 1e18
SHORTEST_S, LONGEST_S = 1e-9, 1e9
"""No step is outside; squares of squares of such numbers are still finite and not 0."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A fitted a0 (seconds per token) or b0 (seconds): estimate and interval."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class StepFit:
    """A fitted step model.

    Parameters
    ----------
    a0, b0
        Slope and intercept with their intervals, as the data give them: an estimate below 0 says
        that the model does not hold.
    steps
        Steps it is fitted to.
    scale_s
        Robust scale of the residuals, seconds (standard deviation where not robust).
    r_squared
        Share of the variance of the step times that the line explains.
    residual_s
        Measured minus fitted, shape (n,), seconds.
    outliers
        Positions of steps beyond ``OUTLIER_SCALES`` scales, shape (k,).
    confidence
        Of the intervals.
    robust
        Whether outliers were weighted down.
    """

    a0: Coefficient
    b0: Coefficient
    steps: int
    scale_s: float
    r_squared: float
    residual_s: FloatArray
    outliers: NDArray[np.int64]
    confidence: float
    robust: bool


def fit_step_time(
    max_load: ArrayLike, seconds: ArrayLike, *, robust: bool = True, confidence: float = 0.95
) -> StepFit:
    """Fit b0 + a0*M to measured steps.

    Parameters
    ----------
    max_load
        M of each step, shape (n,), n >= 3, tokens from 0 to ``MOST_TOKENS``.
    seconds
        Their durations, shape (n,), from ``SHORTEST_S`` to ``LONGEST_S``.
    robust
        Whether steps far off the line count less.
    confidence
        Of the intervals, in (0, 1).

    Raises
    ------
    InputError
        If the shapes differ, there are fewer than three steps, a number is out of range, or the
        loads do not vary, so that a0 and b0 cannot be told apart.

    Examples
    --------
    >>> fit = fit_step_time([1000, 2000, 3000], [0.011, 0.012, 0.013])
    >>> round(fit.a0.value, 9), round(fit.b0.value, 9)
    (1e-06, 0.01)
    """
    loads, times = _checked(max_load, seconds)
    _check_confidence(confidence)
    # Centred and scaled, the two columns are of one size and nearly orthogonal.
    centre, unit = float(loads.mean()), float(np.ptp(loads))
    design = np.column_stack([np.ones(len(loads)), (loads - centre) / unit])
    weights = _huber_weights(design, times) if robust else np.ones(len(times))
    beta, covariance = _solve(design, times, weights)
    residual = times - design @ beta
    scale = _scale(residual, times) if robust else _deviation(residual)
    # Back to tokens: b0 = beta_0 - beta_1 * centre / unit, a0 = beta_1 / unit.
    back = np.array([[1.0, -centre / unit], [0.0, 1.0 / unit]])
    (b0, a0), errors = back @ beta, np.sqrt(np.diag(back @ covariance @ back.T))
    reach = _quantile(confidence, len(times) - 2) * errors
    spread = float(((times - times.mean()) ** 2).sum())
    return StepFit(
        a0=_coefficient(float(a0), float(reach[1])),
        b0=_coefficient(float(b0), float(reach[0])),
        steps=len(times),
        scale_s=scale,
        r_squared=1.0 - float((residual**2).sum()) / spread if spread > 0 else 1.0,
        residual_s=residual,
        outliers=np.flatnonzero(np.abs(residual) > OUTLIER_SCALES * scale),
        confidence=confidence,
        robust=robust,
    )


class StepTimeFit:
    """The step model as it is being measured: constant memory, old steps forgotten.

    A step seen k steps ago counts ``forgetting**k``; recursive least squares with that factor
    gives the same line, from the same sums.

    Parameters
    ----------
    forgetting
        In (0, 1]; 1 forgets nothing. The default remembers about the last 2000 steps.

    Raises
    ------
    InputError
        If the factor is out of range.
    """

    def __init__(self, *, forgetting: float = 0.9995) -> None:
        if not 0 < forgetting <= 1:
            raise InputError("forgetting", "a factor in (0, 1]", forgetting)
        self._forgetting = forgetting
        self._weight = 0.0
        self._squares = 0.0
        self._mean_load = self._mean_s = 0.0
        self._load_load = self._load_s = self._s_s = 0.0

    @property
    def effective_steps(self) -> float:
        """Steps of equal weight the fit is worth: (sum of weights)^2 / sum of their squares."""
        return self._weight**2 / self._squares if self._squares else 0.0

    def observe(self, max_load: float, seconds: float) -> None:
        """Take in one step; parameters and errors as ``check_step``."""
        check_step(max_load, seconds)
        keep = self._forgetting
        self._squares = keep * keep * self._squares + 1
        before, self._weight = keep * self._weight, keep * self._weight + 1
        off_load, off_s = max_load - self._mean_load, seconds - self._mean_s
        # Sums about the running means: sums of squares of large loads would cancel.
        share = before / self._weight
        self._load_load = keep * self._load_load + share * off_load * off_load
        self._load_s = keep * self._load_s + share * off_load * off_s
        self._s_s = keep * self._s_s + share * off_s * off_s
        self._mean_load += off_load / self._weight
        self._mean_s += off_s / self._weight

    def coefficients(self, *, confidence: float = 0.95) -> tuple[Coefficient, Coefficient] | None:
        """a0 and b0 with their intervals.

        Returns
        -------
        tuple or None
            None while fewer than three steps have been seen or their loads do not vary.

        Raises
        ------
        InputError
            If the confidence is not in (0, 1).
        """
        _check_confidence(confidence)
        freedom = self.effective_steps - 2
        deviation = math.sqrt(self._load_load / self._weight) if self._weight else 0.0
        if freedom < LEAST_STEPS - 2 - 1e-9 or deviation <= SMALLEST_SPREAD * max(
            1.0, self._mean_load
        ):
            return None
        a0 = self._load_s / self._load_load
        b0 = self._mean_s - a0 * self._mean_load
        left = max(0.0, self._s_s - a0 * self._load_s)
        # Of the weighted mean square, n_eff - 2 of n_eff degrees of freedom are noise.
        noise = left / self._weight * self.effective_steps / freedom
        reach = _quantile(confidence, freedom) * math.sqrt(noise / self.effective_steps)
        return (
            _coefficient(a0, reach / deviation),
            _coefficient(b0, reach * math.hypot(1.0, self._mean_load / deviation)),
        )


def check_step(max_load: float, seconds: float) -> None:
    """Refuse a step that cannot have been measured.

    Parameters
    ----------
    max_load
        M, tokens from 0 to ``MOST_TOKENS``.
    seconds
        Its duration, from ``SHORTEST_S`` to ``LONGEST_S``.

    Raises
    ------
    InputError
        If a number is out of range or not a number.
    """
    if not 0 <= max_load <= MOST_TOKENS:
        raise InputError("max_load", f"tokens >= 0 and <= {MOST_TOKENS:g}", max_load)
    if not SHORTEST_S <= seconds <= LONGEST_S:
        expected = f"a duration > 0, from {SHORTEST_S:g} to {LONGEST_S:g} seconds"
        raise InputError("seconds", expected, seconds)


def _checked(max_load: ArrayLike, seconds: ArrayLike) -> tuple[FloatArray, FloatArray]:
    loads, times = checked_sample("max_load", max_load), checked_sample("seconds", seconds)
    if len(loads) != len(times):
        raise InputError("seconds", f"{len(loads)} values, one a load", len(times))
    if len(loads) < LEAST_STEPS:
        raise InputError("steps", f"at least {LEAST_STEPS}", len(loads))
    check_step(float(loads.min()), float(times.min()))
    check_step(float(loads.max()), float(times.max()))
    if np.ptp(loads) <= SMALLEST_SPREAD * max(1.0, loads.max()):
        expected = "loads that vary, or a0 and b0 cannot be told apart"
        raise InputError("max_load", expected, f"{len(loads)} steps at {loads.max():g} tokens")
    return loads, times


def _huber_weights(design: FloatArray, times: FloatArray) -> FloatArray:
    """Weights of the M-estimate, iterated from least squares until they settle."""
    weights: FloatArray = np.ones(len(times))
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        beta = np.linalg.lstsq(design * root[:, None], times * root, rcond=None)[0]
        residual = times - design @ beta
        bound = HUBER * _scale(residual, times)
        fresh = bound / np.maximum(np.abs(residual), bound)
        if np.abs(fresh - weights).max() < SETTLED:
            break
        weights = fresh
    return weights


def _solve(
    design: FloatArray, times: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Weighted least squares, and the sandwich covariance of the M-estimate it is."""
    weighted = design * weights[:, None]
    beta: FloatArray = np.linalg.pinv(weighted.T @ design) @ (weighted.T @ times)
    # The slope of Huber's psi is 1 for steps of full weight and 0 for those beyond.
    slope = design * (weights >= 1.0)[:, None]
    bread = np.linalg.pinv(slope.T @ design)
    leverage = np.einsum("ij,jk,ik->i", slope, bread, design)
    pull = weights * (times - design @ beta) / np.maximum(1.0 - leverage, 1e-9)
    meat = design * pull[:, None]
    covariance: FloatArray = bread @ (meat.T @ meat) @ bread
    return beta, covariance


def _scale(residual: FloatArray, times: FloatArray) -> float:
    """Robust standard deviation, no less than what rounding leaves of a perfect line."""
    spread = float(np.median(np.abs(residual - np.median(residual)))) / MAD_OF_NORMAL
    return max(spread, ROUNDING * float(times.max()))


def _deviation(residual: FloatArray) -> float:
    return float(np.sqrt((residual**2).sum() / max(1, len(residual) - 2)))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError("confidence", "a number strictly between 0 and 1", confidence)


def _quantile(confidence: float, freedom: float) -> float:
    return float(student.ppf(0.5 + confidence / 2, freedom))


def _coefficient(value: float, reach: float) -> Coefficient:
    return Coefficient(value, Interval(value - reach, value + reach))
