"""Training rows sampled along trajectories, and the time at which their labels may be used.

A row is what was known of a request at one age; its label, whether the request ended within H
steps, becomes known later: at its end, or once it has gone on for H steps. Ends are known sooner
than survivals, so using every row as soon as its label is known would favour ends. Rows are kept
in the order of time and used up to the first one whose label is open: all rows before a moment, or
none.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError
from brtheory.prediction.features import FEATURES
from brtheory.prediction.protocol import Running


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Labelled rows, oldest first.

    Parameters
    ----------
    features
        Shape (n, f), columns as ``FEATURES``.
    remaining
        Steps left at sampling, shape (n,), >= 1; H + 1 stands for anything beyond H.
    """

    features: NDArray[np.float64]
    remaining: IntArray

    def __len__(self) -> int:
        return len(self.remaining)

    def part(self, start: int, stop: int) -> "TrainingRows":
        """Rows ``start`` to ``stop`` - 1 in the order of time."""
        return TrainingRows(self.features[start:stop], self.remaining[start:stop])


@dataclass(slots=True)
class _Row:
    age: int
    features: NDArray[np.float64]
    remaining: int | None = None
    lost: bool = False


class RowLog:
    """The most recent rows and their labels, as they become known.

    Parameters
    ----------
    horizon
        H >= 1.
    most_rows
        Rows kept, >= 1; the oldest leave first.

    Raises
    ------
    InputError
        If a number is below 1.
    """

    def __init__(self, *, horizon: int, most_rows: int) -> None:
        for name, value in (("horizon", horizon), ("most_rows", most_rows)):
            if value < 1:
                raise InputError(name, "at least 1", value)
        self._horizon = horizon
        self._rows: deque[_Row] = deque(maxlen=most_rows)
        self._open: dict[int, list[_Row]] = {}
        self._sampled_age: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def sample(self, request_id: int, *, age: int, features: NDArray[np.float64]) -> None:
        """Add a row, unless one of this age or a greater one has been sampled before."""
        if age <= self._sampled_age.get(request_id, -1):
            return
        row = _Row(age, features)
        self._rows.append(row)
        self._open.setdefault(request_id, []).append(row)
        self._sampled_age[request_id] = age

    def finish(self, request_id: int, *, output_tokens: int) -> None:
        """Label the open rows of a request that ended."""
        for row in self._close(request_id):
            row.remaining = min(output_tokens - row.age, self._horizon + 1)

    def cut_short(self, request_id: int, *, output_tokens: int) -> None:
        """Label the open rows that had seen H steps when a request was cancelled; others are lost.

        An output of at least ``output_tokens`` is longer than all but the last of them.
        """
        for row in self._close(request_id):
            if output_tokens - row.age > self._horizon:
                row.remaining = self._horizon + 1
            else:
                row.lost = True

    def survive(self, running: Sequence[Running]) -> None:
        """Label the open rows of running requests that have gone on for H steps."""
        for request, age in running:
            rows = self._open.get(request.id, [])
            while rows and age - rows[0].age >= self._horizon:
                rows.pop(0).remaining = self._horizon + 1

    def labelled(self) -> TrainingRows:
        """Rows up to the first whose label is open; rows of cancelled requests are left out."""
        features, remaining = [], []
        for row in self._rows:
            if row.lost:
                continue
            if row.remaining is None:
                break
            features.append(row.features)
            remaining.append(row.remaining)
        shaped = np.array(features, dtype=np.float64).reshape(-1, len(FEATURES))
        return TrainingRows(shaped, np.array(remaining, dtype=np.int64))

    def _close(self, request_id: int) -> list[_Row]:
        self._sampled_age.pop(request_id, None)
        return self._open.pop(request_id, [])
