"""Projected loads in which nothing grows: Lhat_g(h) = sum of (s + a) over those present at h.

Of the growing projection L(h) = sum of (s + a + h), the h of each request present is left out:

    Lhat_g(h) = L_g(h) - h * n_g(h)

n_g(h), the number of requests present, is the difference of two growing projections of which one
weighs every request a token more. So every rule about who is present is ``HorizonState``'s.
"""

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import HorizonState


class StillHorizonState:
    """Projected loads without growth; calls and errors as ``HorizonState``.

    Parameters
    ----------
    replicas, horizon
        G >= 1 and H >= 0.
    """

    def __init__(self, *, replicas: int, horizon: int) -> None:
        self._growing = HorizonState(replicas=replicas, horizon=horizon)
        self._heavier = HorizonState(replicas=replicas, horizon=horizon)
        self._ahead = np.arange(horizon + 1, dtype=np.int64)

    @property
    def step(self) -> int:
        """The present absolute step."""
        return self._growing.step

    @property
    def columns(self) -> IntArray:
        """The rows, made anew: shape (G, H + 1)."""
        return self.rows()

    @property
    def start(self) -> int:
        """Column of ``columns`` that holds h = 0."""
        return 0

    def rows(self) -> IntArray:
        """Lhat_g(h) now, shape (G, H + 1)."""
        growing = self._growing.rows()
        present = self._heavier.rows() - growing
        return growing - present * self._ahead

    def admit(self, request_id: int, replica: int, *, tokens: int, finish: int) -> None:
        """Add a request that weighs ``tokens`` now and is predicted to leave at step ``finish``."""
        self._growing.admit(request_id, replica, tokens=tokens, finish=finish)
        self._heavier.admit(request_id, replica, tokens=tokens + 1, finish=finish)

    def retire(self, request_id: int) -> None:
        """Take a finished or cancelled request out."""
        self._growing.retire(request_id)
        self._heavier.retire(request_id)

    def refresh(self, request_id: int, *, finish: int) -> None:
        """Replace a request's predicted finish (absolute step, or ``NEVER``)."""
        self._growing.refresh(request_id, finish=finish)
        self._heavier.refresh(request_id, finish=finish)

    def advance(self, steps: int) -> None:
        """Move the present ``steps`` >= 0 decode steps on."""
        self._growing.advance(steps)
        self._heavier.advance(steps)


def make_horizon_state(
    *, replicas: int, horizon: int, growth: bool
) -> HorizonState | StillHorizonState:
    """An empty state, with or without growth.

    Parameters
    ----------
    replicas, horizon
        G >= 1 and H >= 0.
    growth
        Whether projected requests gain a token a step.
    """
    kind = HorizonState if growth else StillHorizonState
    return kind(replicas=replicas, horizon=horizon)
