"""The stationary load of a saturated replica, and what G independent ones lose at the barrier.

A replica whose B slots are always full holds, seen at a random step, B requests picked with
probability proportional to their output length (a long request is met more often) at an age uniform
on 0..o_i - 1. A pick weighs s_i + age tokens, so every pair (request, age) is equally likely:

* weight w of a random pick:  P(w) = #{(i, a): s_i + a = w, 0 <= a < o_i} / sum_i o_i;
* load L = sum of B independent picks;  sigma_L^2 = B var(w);
* mean imbalance / G = E[max_g L_g - mean_g L_g] over G independent replicas.

Where prompt and output are independent, var(w) = var(prompt) + var(age), the age's law being the
length-biased one. On light tails L is nearly normal and E[max - mean] is close to
sigma_L * E[max of G standard normals].
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from brtheory.analysis.arguments import (
    IntegerArray,
    SampleArray,
    checked_count,
    checked_lengths,
)
from brtheory.analysis.extremes import expected_max_normal


@dataclass(frozen=True, eq=False)
class WeightLaw:
    """Law of the KV tokens of one length-biased request at uniform age.

    Its density is constant between the weights at which some request's range s_i .. s_i + o_i - 1
    begins or ends, so it takes O(n) memory however large the token counts are.

    Parameters
    ----------
    starts
        First weight of each segment, shape (m,), ascending, tokens.
    widths
        Number of weights in each segment, shape (m,), >= 1.
    densities
        Pairs (request, age) at every single weight of the segment, shape (m,), >= 1.

    Examples
    --------
    >>> law = WeightLaw.from_lengths([10, 11], [2, 1])  # the weights 10, 11 and 11
    >>> law.pairs, law.starts.tolist(), law.densities.tolist()
    (3, [10, 11], [1, 2])
    """

    starts: IntegerArray
    widths: IntegerArray
    densities: IntegerArray

    @classmethod
    def from_lengths(cls, prompt_tokens: ArrayLike, output_tokens: ArrayLike) -> Self:
        """Build the law from the rows (prompt, output) of a trace.

        Parameters
        ----------
        prompt_tokens, output_tokens
            Integers, shape (n,) with n >= 1, tokens, >= 1; entry i of both is request i.

        Raises
        ------
        InputError
            If the arrays are empty, of different length, not integer or out of range.
        """
        prompts, outputs = checked_lengths(prompt_tokens, output_tokens)
        edges, place = np.unique(np.concatenate((prompts, prompts + outputs)), return_inverse=True)
        begun = np.bincount(place[: len(prompts)], minlength=len(edges))
        ended = np.bincount(place[len(prompts) :], minlength=len(edges))
        densities = np.cumsum(begun - ended)[:-1]
        occupied = densities > 0
        return cls(edges[:-1][occupied], np.diff(edges)[occupied], densities[occupied])

    @cached_property
    def pairs(self) -> int:
        """Number of pairs (request, age), that is the sum of all output lengths."""
        return int(self._pairs_through[-1])

    @cached_property
    def mean(self) -> float:
        """Mean weight, tokens."""
        return float(self._shares @ self._middles)

    @cached_property
    def variance(self) -> float:
        """Variance of the weight, tokens squared."""
        # Inside a segment it is that of a discrete uniform law, (width^2 - 1)/12.
        within = (self.widths.astype(np.float64) ** 2 - 1.0) / 12.0
        return float(self._shares @ ((self._middles - self.mean) ** 2 + within))

    def draw(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> IntegerArray:
        """Draw independent weights of the given shape, tokens: one integer draw each."""
        pair = generator.integers(self.pairs, size=shape, dtype=np.int64)
        segment = np.searchsorted(self._pairs_through, pair, side="right")
        to_segment_end = self._pairs_through[segment] - 1 - pair
        weights: IntegerArray = (self.starts + self.widths - 1)[segment]
        return weights - to_segment_end // self.densities[segment]

    @cached_property
    def _pairs_through(self) -> IntegerArray:
        """Pairs in each segment and all before it, ascending."""
        return np.cumsum(self.densities * self.widths)

    @cached_property
    def _shares(self) -> SampleArray:
        """Probability of each segment."""
        return self.densities * self.widths / self.pairs

    @cached_property
    def _middles(self) -> SampleArray:
        """Mean weight inside each segment, tokens."""
        return self.starts + (self.widths - 1) / 2.0


@dataclass(frozen=True)
class Estimate:
    """A Monte Carlo mean and its standard error, both in the unit of the quantity."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class StationaryImbalance:
    """What G independent saturated replicas lose at the barrier, by Monte Carlo.

    Parameters
    ----------
    replicas, slots, trials
        G, B and the number of independent draws of all G loads.
    excess_tokens
        E[max - mean] of the G loads: mean imbalance / G, tokens.
    spread_tokens
        E[max - min] of the G loads, tokens.
    """

    replicas: int
    slots: int
    trials: int
    excess_tokens: Estimate
    spread_tokens: Estimate


def stationary_imbalance(
    law: WeightLaw,
    *,
    replicas: int,
    slots: int,
    trials: int,
    generator: np.random.Generator,
    chunk_draws: int = 2**20,
) -> StationaryImbalance:
    """Draw G independent stationary loads again and again and average their extremes.

    Parameters
    ----------
    law
        Law of one slot's weight.
    replicas, slots
        G >= 1 and B >= 1.
    trials
        Independent repetitions, >= 2.
    generator
        Source of randomness; the result does not depend on ``chunk_draws``.
    chunk_draws
        Weights held in memory at once (about 50 bytes each), >= 1; a trial of more than that many
        is drawn whole.

    Raises
    ------
    InputError
        If a count is not an integer or too small.
    """
    count = checked_count("replicas", replicas)
    places = checked_count("slots", slots)
    repeats = checked_count("trials", trials, least=2)
    chunk = max(1, checked_count("chunk_draws", chunk_draws) // (count * places))
    peaks, lows, totals = (np.empty(repeats, dtype=np.int64) for _ in range(3))
    for first in range(0, repeats, chunk):
        part = slice(first, min(first + chunk, repeats))
        shape = (part.stop - first, count, places)
        loads = law.draw(shape, generator=generator).sum(axis=2)
        peaks[part], lows[part] = loads.max(axis=1), loads.min(axis=1)
        totals[part] = loads.sum(axis=1)
    excess = (count * peaks - totals) / count
    return StationaryImbalance(count, places, repeats, _estimate(excess), _estimate(peaks - lows))


def load_sigma(law: WeightLaw, *, slots: int) -> float:
    """Standard deviation sigma_L of a saturated replica's load, tokens: sqrt(B var(w)), exact."""
    return math.sqrt(checked_count("slots", slots) * law.variance)


def light_tail_excess(law: WeightLaw, *, replicas: int, slots: int) -> float:
    """Approximate E[max - mean] of G stationary loads, tokens, as if they were normal.

    sigma_L * E[max of G standard normals]: good on light tails; on heavy ones too low at large G.

    Raises
    ------
    InputError
        If a count is not an integer >= 1.
    """
    return load_sigma(law, slots=slots) * expected_max_normal(replicas)


def _estimate(values: SampleArray | IntegerArray) -> Estimate:
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Estimate(float(np.mean(values)), error)
