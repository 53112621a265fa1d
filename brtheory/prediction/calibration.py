"""How good predictions were: discrimination, calibration and error, once the truth is known.

* AUC: P(p of a request that ended within H > p of one that did not) + half the ties;
* Brier score: mean (p - y)^2; log loss: mean -ln of the probability given to what happened, with p
  kept off 0 and 1 by ``SMALLEST``;
* calibration curve: mean p against the share of y = 1, by equal bins of p;
* MAE: mean |mu - r| over the positives (r <= H) for which the predictor gave a mean;
* contribution MAE: mean |c_hat - min(r, H)| over all, what the projection is off by.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError
from brtheory.prediction.contribution import GATE

SMALLEST = 1e-6
BINS = 10

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Predictions with p in [low, high), the last bin closed.

    Parameters
    ----------
    low, high
        Ends of the bin.
    count
        Predictions in it, >= 1.
    mean_predicted
        Their mean p.
    observed
        Share of them that ended within H.
    """

    low: float
    high: float
    count: int
    mean_predicted: float
    observed: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Quality of predictions; a figure the data cannot give is None.

    Parameters
    ----------
    predictions, positives
        How many were scored, and how many of those ended within H.
    auc
        None unless both outcomes occur.
    brier, log_loss
        None without predictions.
    positives_without_mean
        Positives for which no mean was given; they are left out of ``mae_steps``.
    mae_steps
        None where no positive has a mean.
    contribution_mae_steps
        None without predictions.
    calibration_error
        Mean over predictions of |mean p - observed| of their bin; None without predictions.
    curve
        Bins that are not empty, by ascending p.
    """

    predictions: int
    positives: int
    auc: float | None
    brier: float | None
    log_loss: float | None
    positives_without_mean: int
    mae_steps: float | None
    contribution_mae_steps: float | None
    calibration_error: float | None
    curve: tuple[CalibrationBin, ...]


def score(
    p_finish: FloatArray, mean_remaining: FloatArray, *, remaining: IntArray, horizon: int
) -> Scores:
    """Score predictions against the truth.

    Parameters
    ----------
    p_finish
        Shape (n,), in [0, 1].
    mean_remaining
        Shape (n,), steps, NaN where none was given.
    remaining
        The true r, shape (n,), >= 1.
    horizon
        H >= 1.

    Raises
    ------
    InputError
        If the shapes differ or a probability is outside [0, 1].
    """
    if not len(p_finish) == len(mean_remaining) == len(remaining):
        raise InputError("mean_remaining", f"{len(p_finish)} values", len(mean_remaining))
    if not ((p_finish >= 0) & (p_finish <= 1)).all():
        raise InputError("p_finish", "probabilities in [0, 1]", "others")
    ended = remaining <= horizon
    with_mean = ended & ~np.isnan(mean_remaining)
    curve = calibration_curve(p_finish, ended)
    off = sum(b.count * abs(b.mean_predicted - b.observed) for b in curve)
    contributions = _contributions(p_finish, mean_remaining, horizon=horizon)
    return Scores(
        predictions=len(p_finish),
        positives=int(ended.sum()),
        auc=area_under_curve(p_finish, ended),
        brier=_mean((p_finish - ended) ** 2),
        log_loss=_mean(-np.log(np.clip(np.where(ended, p_finish, 1 - p_finish), SMALLEST, None))),
        positives_without_mean=int(ended.sum() - with_mean.sum()),
        mae_steps=_mean(np.abs(mean_remaining - remaining)[with_mean]),
        contribution_mae_steps=_mean(np.abs(contributions - np.minimum(remaining, horizon))),
        calibration_error=off / len(p_finish) if len(p_finish) else None,
        curve=curve,
    )


def area_under_curve(p_finish: FloatArray, ended: NDArray[np.bool_]) -> float | None:
    """AUC from ranks (Mann-Whitney); None unless both outcomes occur.

    Examples
    --------
    >>> area_under_curve(np.array([0.2, 0.7, 0.7]), np.array([False, True, False]))
    0.75
    """
    positives = int(ended.sum())
    negatives = len(ended) - positives
    if positives == 0 or negatives == 0:
        return None
    ranks = float(rankdata(p_finish)[ended].sum())
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def calibration_curve(
    p_finish: FloatArray, ended: NDArray[np.bool_], *, bins: int = BINS
) -> tuple[CalibrationBin, ...]:
    """Mean predicted against observed share, over ``bins`` equal bins of [0, 1].

    Raises
    ------
    InputError
        If ``bins`` is below 1.
    """
    if bins < 1:
        raise InputError("bins", "at least 1", bins)
    index = np.minimum((p_finish * bins).astype(np.int64), bins - 1)
    curve = []
    for b in np.unique(index).tolist():
        inside = index == b
        curve.append(
            CalibrationBin(
                low=b / bins,
                high=(b + 1) / bins,
                count=int(inside.sum()),
                mean_predicted=float(p_finish[inside].mean()),
                observed=float(ended[inside].mean()),
            )
        )
    return tuple(curve)


def _contributions(p_finish: FloatArray, mean: FloatArray, *, horizon: int) -> FloatArray:
    """c_hat of each prediction, as ``brtheory.prediction.contribution`` has it."""
    anchor = (p_finish < GATE) | np.isnan(mean)
    blend = (1 - p_finish) * horizon + p_finish * np.where(anchor, 0.0, mean)
    return np.where(anchor, float(horizon), blend)


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None
