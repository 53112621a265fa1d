"""Laws of token counts, given by their inverse distribution functions and solved from facts.

* `quantile_law`: through published percentiles. Between two of them, ln x grows from one to the
  other as f**k, f in [0, 1] the share of the way in probability; the one exponent k is solved so
  that the mean is the published one. k = 1 is plain log-linear interpolation.
* `truncated_normal_law`: a normal kept above 0; its location is solved for the mean.
* `maximum_entropy_law`: the least informative law with a given mean and range (a truncated
  exponential, rising where the mean lies above the middle).
* `spiked_law`: uniform with a uniform spike inside; the spike's share is solved for the mean.

A law maps probabilities (shape (n,), in (0, 1)) to real token counts; `tokens_of` rounds them.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from brtheory.errors import InputError
from brtheory.traces.published import PublishedTokens

Law: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_GRID = (np.arange(1 << 16) + 0.5) / (1 << 16)


def tokens_of(law: Law, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the law's token counts at these probabilities, rounded, at least 1."""
    return np.maximum(1, np.rint(law(probabilities))).astype(np.int64)


def quantile_law(facts: PublishedTokens) -> Law:
    """Return the law through published percentiles with the published mean.

    Below the first percentile the law starts at 1 token. It ends at the published maximum; where
    none is published, the last stretch goes on at its slope, so that no number is invented.

    Raises
    ------
    InputError
        If no law of this family through the percentiles has the mean.
    """
    share = np.array([0.0, *(percent / 100 for percent in facts.percentiles), 1.0])
    inner = np.log([1.0, *facts.percentiles.values()])
    slope = (inner[-1] - inner[-2]) / (share[-2] - share[-3])
    end = inner[-1] + slope * (1 - share[-2]) if facts.maximum is None else np.log(facts.maximum)
    log_tokens = np.append(inner, end)

    def law(probabilities: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
        place = np.clip(np.searchsorted(share, probabilities, side="right"), 1, len(share) - 1)
        way = (probabilities - share[place - 1]) / (share[place] - share[place - 1])
        rise = log_tokens[place] - log_tokens[place - 1]
        tokens: NDArray[np.float64] = np.exp(log_tokens[place - 1] + rise * way**exponent)
        return tokens

    def excess(log_exponent: float) -> float:
        return float(law(_GRID, np.exp(log_exponent)).mean() - facts.mean)

    exponent = float(np.exp(_solve(excess, -5.0, 5.0, what=f"mean {facts.mean}")))
    return lambda probabilities: law(probabilities, exponent)


def truncated_normal_law(*, mean: float, sd: float) -> Law:
    """Return a normal of spread ``sd`` before truncation at 0 whose mean after it is ``mean``.

    With location m and c = m/sd, the mean after truncation is m + sd * phi(c) / Phi(c).
    """

    def excess(location: float) -> float:
        cut = location / sd
        density = np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
        return float(location + sd * density / ndtr(cut) - mean)

    location = _solve(excess, mean - 5 * sd, mean, what=f"mean {mean}")
    kept = ndtr(location / sd)
    # Phi^-1(1 - kept*(1 - u)) from the upper side, where kept*(1 - u) keeps its digits.
    return lambda probabilities: location - sd * ndtri(kept * (1 - probabilities))


def maximum_entropy_law(*, mean: float, maximum: int) -> Law:
    """Return the law on 1..``maximum`` with this mean and the largest entropy."""
    low, width = 0.5, float(maximum)

    def excess(tilt: float) -> float:
        return float(low + width * (1 / -np.expm1(-tilt) - 1 / tilt) - mean)

    middle = low + width / 2
    tilts = (1e-6, 500.0) if mean > middle else (-500.0, -1e-6)
    tilt = _solve(excess, *tilts, what=f"mean {mean}")
    return lambda probabilities: low + width * np.log1p(probabilities * np.expm1(tilt)) / tilt


def spiked_law(*, mean: float, low: int, high: int, spike: tuple[int, int]) -> Law:
    """Return a mixture of uniforms on ``low..high`` and ``spike`` (inside) with this mean."""
    spike_mean, wide_mean = sum(spike) / 2, (low + high) / 2
    share = (wide_mean - mean) / (wide_mean - spike_mean)
    if not 0 <= share <= 1:
        raise InputError("mean", f"between {spike_mean} and {wide_mean}", mean)
    edges = np.array([low, spike[0], spike[1] + 1, high + 1]) - 0.5
    wide = (edges - edges[0]) / (edges[-1] - edges[0])
    inside = np.array([0.0, 0.0, 1.0, 1.0])
    cumulated = share * inside + (1 - share) * wide
    return lambda probabilities: np.interp(probabilities, cumulated, edges)


def _solve(excess: Callable[[float], float], low: float, high: float, *, what: str) -> float:
    if excess(low) * excess(high) > 0:
        raise InputError("calibration", f"facts that allow a {what}", "a contradiction")
    return float(brentq(excess, low, high))
