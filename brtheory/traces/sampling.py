"""Stratified samples: correlated pairs of probabilities, and arrival times of a renewal process.

Stratified means that n draws fall one into each of the n equal slices of (0, 1), in random order:
each marginal is matched far better than by independent draws, so that a workload has the
statistics it is calibrated to and not a noisy version of them.

A Gaussian copula gives dependence: ranks of correlated normals. The normals' correlation r is
solved so that the tokens have the wanted Pearson correlation, by Mehler's expansion
cov(f(X), g(Y)) = sum over j >= 1 of r**j * a_j * b_j, with a_j = E f(X) h_j(X) and h_j the
orthonormal Hermite polynomials.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtri

from brtheory.errors import InputError
from brtheory.traces.laws import Law

_GRID = (np.arange(1 << 14) + 0.5) / (1 << 14)
_DEGREES = 30
_STRONGEST = 0.999


def stratified(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return ``count`` probabilities, one in each slice of (0, 1), in random order."""
    return (random.permutation(count) + _inside(count, random)) / count


def stratified_pair(
    count: int, correlation: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two stratified columns whose normal scores have this correlation (Gaussian copula)."""
    first, noise = random.standard_normal((2, count))
    second = correlation * first + np.sqrt(1 - correlation**2) * noise
    ranks = (column.argsort().argsort() for column in (first, second))
    left, right = ((rank + _inside(count, random)) / count for rank in ranks)
    return left, right


def latent_correlation(first: Law, second: Law, *, correlation: float) -> float:
    """Return the normals' correlation under which two laws have this Pearson correlation.

    Raises
    ------
    InputError
        If the laws' shapes do not allow it.
    """
    left, right = _hermite_coefficients(first), _hermite_coefficients(second)
    degrees = np.arange(1, _DEGREES + 1)

    def excess(latent: float) -> float:
        return float((latent**degrees * left * right).sum() - correlation)

    if excess(-_STRONGEST) * excess(_STRONGEST) > 0:
        raise InputError("correlation", "one the two laws can have", correlation)
    return float(brentq(excess, -_STRONGEST, _STRONGEST))


def arrival_times(
    count: int, *, rate: float, cv: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return arrival times of a gamma renewal process, the first at 0.

    Parameters
    ----------
    count
        Number of arrivals.
    rate
        Arrivals per second.
    cv
        Coefficient of variation of the gaps; 1 is a Poisson process, more is bursts.
    random
        Source of randomness.

    Returns
    -------
    NDArray[np.float64]
        Shape (count,), seconds, nondecreasing.
    """
    shape = cv**-2
    gaps = gammaincinv(shape, stratified(count - 1, random)) / (rate * shape)
    return np.concatenate([[0.0], np.cumsum(gaps)])


def _inside(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return positions inside a slice, never on its edge: a law need not be finite at 0 or 1."""
    return random.uniform(1e-9, 1 - 1e-9, count)


def _hermite_coefficients(law: Law) -> NDArray[np.float64]:
    """Return E f(X) h_j(X), j = 1.., of the law as a function f of a normal X, f standardised."""
    values = law(_GRID)
    values = (values - values.mean()) / values.std()
    normal = ndtri(_GRID)
    before, polynomial = np.zeros_like(normal), np.ones_like(normal)
    coefficients = np.empty(_DEGREES)
    for degree in range(1, _DEGREES + 1):
        # h_j = (x h_{j-1} - sqrt(j-1) h_{j-2}) / sqrt(j)
        following = (normal * polynomial - np.sqrt(degree - 1) * before) / np.sqrt(degree)
        before, polynomial = polynomial, following
        coefficients[degree - 1] = (values * polynomial).mean()
    return coefficients
