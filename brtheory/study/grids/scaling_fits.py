"""Fits of imbalance per replica over G: a power of G, and a multiple of an expected maximum.

    log-log   ln y = c + p ln G        how fast it grows, as a power
    extremes  y = a * E_G              how large it is in units of E_G = E[max of G normals]

Both by least squares, one fit a seed with a Student interval over seeds; the root mean square of
the relative residuals of the means says which of them describes a router.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from brtheory.analysis.extremes import expected_max_normal
from brtheory.analysis.statistics import mean_with_interval
from brtheory.study.grid.document import Derived, GridDocument, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grids.scaling_names import METRIC, REPLICAS

LEAST_SIZES = 3


def derive_fits(document: GridDocument) -> list[Derived]:
    """Both fits of every router and of the law; none below three sizes."""
    return [
        derived
        for label in document.values(ROUTER)
        for derived in _fits(label, *_points(document, label))
    ]


def _points(document: GridDocument, label: Value) -> tuple[list[int], NDArray[np.float64]]:
    """Numbers of replicas and imbalance per replica, shape (sizes, seeds)."""
    found = {
        int(replicas): estimate.values
        for replicas in document.values(REPLICAS)
        if (estimate := document.estimate(METRIC, {REPLICAS: replicas, ROUTER: label})) is not None
        and min(estimate.values) > 0
    }
    return list(found), np.array(list(found.values()), dtype=np.float64)


def _fits(label: Value, sizes: Sequence[int], values: NDArray[np.float64]) -> list[Derived]:
    """Both fits, one a seed, and the residuals of the seeds' means; none below three sizes."""
    if len(sizes) < LEAST_SIZES:
        return []
    logs = np.log(np.array(sizes, dtype=np.float64))
    extremes = np.array([expected_max_normal(size) for size in sizes])
    slopes = np.polyfit(logs, np.log(values), 1)
    factors = extremes @ values / (extremes @ extremes)
    means = values.mean(axis=1)
    slope, intercept = np.polyfit(logs, np.log(means), 1)
    power = np.exp(intercept + slope * logs)
    fitted = extremes * (extremes @ means / (extremes @ extremes))
    least, most = sizes[0], sizes[-1]
    how = f"least squares over G = {least} .. {most}, one fit a seed, Student interval"
    residual = "root mean square of (fit - mean) / mean"
    labels: Mapping[str, Value] = {ROUTER: label}
    return [
        _measured("exponent", labels, slopes[0], unit="1", source=f"{how}: ln y = c + p ln G"),
        _derived("exponent_residual", labels, _residual(power, means), source=residual),
        _measured("extremes_factor", labels, factors, unit="tokens", source=f"{how}: y = a E_G"),
        _derived("extremes_residual", labels, _residual(fitted, means), source=residual),
    ]


def _residual(fitted: NDArray[np.float64], means: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((fitted / means - 1) ** 2)))


def _measured(
    name: str, labels: Mapping[str, Value], values: NDArray[np.float64], *, unit: str, source: str
) -> Derived:
    measured = mean_with_interval(values)
    assert measured is not None  # noqa: S101  # a study has at least one seed
    low, high = measured.ends
    return Derived(
        name=name,
        labels=dict(labels),
        value=measured.value,
        low=low,
        high=high,
        unit=unit,
        source=source,
    )


def _derived(name: str, labels: Mapping[str, Value], value: float, *, source: str) -> Derived:
    return Derived(name=name, labels=dict(labels), value=value, unit="share", source=source)
