"""Margins and scores of the replica in turn, refreshed after every admission of a tick.

The loads are never copied: what a tick admits to a replica is one number on top of its whole
projected row. F = A*Delta - sum_h w_h*(Delta - m_h)_+ is concave in Delta; ``peak`` is its last
maximiser, the smallest margin m at which the weights of the margins up to m exceed A. Of any set
of sums only the largest up to the peak and the smallest beyond it can be best.
"""

from typing import Protocol

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.core.fscore import ScoreWeights

NO_PEAK = 2**63 - 1
"""F never falls: every sum is up to this."""


class Margins(Protocol):
    """What a tick asks about the replica it is focused on."""

    highest: int
    peak: int

    def present(self, replica: int) -> int:
        """L_g now, admissions of this tick included."""

    def focus(self, replica: int) -> None:
        """Turn to a replica: its margins and its peak."""

    def score(self, delta: int) -> int:
        """F of Delta prompt tokens on the replica in focus."""

    def admit(self, delta: int) -> None:
        """Add Delta to the replica in focus and raise the envelope where exceeded."""


def make_margins(rows: IntArray, weights: ScoreWeights) -> Margins:
    """Margins of projected loads of shape (G, H + 1)."""
    if weights.horizon == 0:
        return OneStepMargins(rows[:, 0], reward=weights.reward, price=weights.overflow[0])
    return HorizonMargins(rows, weights)


class OneStepMargins:
    """Margins at h = 0 alone, in Python integers: arrays of one entry do not pay.

    Parameters
    ----------
    loads
        L_g, shape (G,).
    reward, price
        A and w_0.
    """

    def __init__(self, loads: IntArray, *, reward: int, price: int) -> None:
        self._loads: list[int] = loads.tolist()
        self._reward, self._price = reward, price
        self.highest = max(self._loads)
        self.peak = NO_PEAK
        self._replica = 0
        self._margin = 0

    def present(self, replica: int) -> int:
        """L_g now."""
        return self._loads[replica]

    def focus(self, replica: int) -> None:
        """Turn to a replica."""
        self._replica = replica
        self._margin = self.highest - self._loads[replica]
        self.peak = self._margin if self._price > self._reward else NO_PEAK

    def score(self, delta: int) -> int:
        """F of Delta."""
        over = delta - self._margin
        return self._reward * delta - (self._price * over if over > 0 else 0)

    def admit(self, delta: int) -> None:
        """Add Delta."""
        self._loads[self._replica] += delta
        self.highest = max(self.highest, self._loads[self._replica])


class HorizonMargins:
    """Margins at h = 0 .. H, one numpy operation along the horizon at a time.

    Parameters
    ----------
    rows
        Lhat_g(h), shape (G, H + 1).
    weights
        Of horizon H >= 1.
    """

    def __init__(self, rows: IntArray, weights: ScoreWeights) -> None:
        self._rows = rows
        self._added: dict[int, int] = {}
        self._envelope: IntArray = rows.max(axis=0)
        self._reward = weights.reward
        self._weights = _weight_array(weights.overflow)
        uniform = min(weights.overflow) == max(weights.overflow)
        self._price = weights.overflow[0] if uniform else None
        self.highest = int(self._envelope.max())
        self.peak = NO_PEAK
        self._replica = 0
        self._margins: IntArray = self._envelope

    def present(self, replica: int) -> int:
        """L_g now."""
        return int(self._rows[replica, 0]) + self._added.get(replica, 0)

    def focus(self, replica: int) -> None:
        """Turn to a replica."""
        self._replica = replica
        self._margins = self._envelope - self._rows[replica]
        self._margins -= self._added.get(replica, 0)
        self.peak = self._peak()

    def score(self, delta: int) -> int:
        """F of Delta."""
        over = np.maximum(delta - self._margins, 0)
        return self._reward * delta - int(over @ self._weights)

    def admit(self, delta: int) -> None:
        """Add Delta."""
        replica = self._replica
        self._added[replica] = self._added.get(replica, 0) + delta
        np.maximum(self._envelope, self._rows[replica] + self._added[replica], out=self._envelope)

    def _peak(self) -> int:
        if self._price is None:
            order = np.argsort(self._margins)
            passed = np.cumsum(self._weights[order]) > self._reward
            first = int(passed.argmax())
            return int(self._margins[order[first]]) if passed[first] else NO_PEAK
        below = self._reward // self._price if self._price else len(self._margins)
        if below >= len(self._margins):
            return NO_PEAK
        return int(np.partition(self._margins, below)[below])


def _weight_array(overflow: tuple[int, ...]) -> IntArray:
    return np.array(overflow, dtype=np.int64)
