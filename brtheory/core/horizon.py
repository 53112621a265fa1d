"""Projected loads: Lhat_g(h), h = 0 .. H, from what each active request weighs and its prediction.

Lhat_g(h) = sum over the active requests of g present at h of (s + a + h). A request predicted to
leave at absolute step f is present at steps before f; one without a prediction (the anchor: the
gate, or a finish beyond the horizon) is present at every h. Between refreshes a predicted finish
stays fixed while an anchor does not count down; a request that outlives its prediction is an
anchor until the next refresh.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray

NEVER = np.iinfo(np.int64).max
"""Predicted finish of an anchor."""


def predicted_finish(contribution: float, *, step: int, horizon: int) -> int:
    """Absolute step at which a request with contribution c_hat is predicted to have left.

    Parameters
    ----------
    contribution
        c_hat in steps, counted from ``step``; c_hat >= H is the anchor.
    step
        The present absolute step.
    horizon
        H >= 0.

    Returns
    -------
    int
        ``NEVER`` for an anchor, else ``step + max(1, ceil(c_hat))``.
    """
    if contribution >= horizon:
        return int(NEVER)
    return step + max(1, math.ceil(contribution))


def steps_present(finish: IntArray, *, step: int, horizon: int) -> IntArray:
    """Number of the horizon's steps h = 0 .. H at which each request counts as present.

    Shape (n,), values 1 .. H + 1. Outlived predictions (finish <= step) count as anchors.
    """
    outlived = finish <= step
    left = np.where(outlived, horizon + 1, finish - step)
    return np.minimum(left, horizon + 1)


def project_loads(
    *, replica: NDArray[np.int64], tokens: IntArray, present: IntArray, replicas: int, horizon: int
) -> IntArray:
    """Projected loads of all replicas, built from scratch.

    Parameters
    ----------
    replica, tokens, present
        Per active request, shape (n,): where it runs, what it weighs now (s + a), and at how many
        steps of the horizon it is present (1 .. H + 1).
    replicas, horizon
        G and H.

    Returns
    -------
    IntArray
        Shape (G, H + 1): row g, column h holds Lhat_g(h).
    """
    weight = np.zeros((replicas, horizon + 2), dtype=np.int64)
    count = np.zeros_like(weight)
    np.add.at(weight, (replica, present), tokens)
    np.add.at(count, (replica, present), 1)
    # A request present at c steps counts at every h < c: sum over c > h from the right.
    still_weight = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1][:, 1:]
    still_count = np.cumsum(count[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return still_weight + still_count * np.arange(horizon + 1)


@dataclass(slots=True)
class _Active:
    """One active request: it weighs ``tokens_at_zero + step`` at absolute step ``step``."""

    replica: int
    tokens_at_zero: int
    finish: int


class HorizonState:
    """The projected loads of a running cluster, by admission, retirement and refresh.

    Parameters
    ----------
    replicas
        G >= 1.
    horizon
        H >= 0.
    """

    def __init__(self, *, replicas: int, horizon: int) -> None:
        self.replicas = replicas
        self.horizon = horizon
        self.step = 0
        self._active: dict[int, _Active] = {}

    def admit(self, request_id: int, replica: int, *, tokens: int, finish: int) -> None:
        """Add a request that weighs ``tokens`` now and is predicted to leave at step ``finish``."""
        self._active[request_id] = _Active(replica, tokens - self.step, finish)

    def retire(self, request_id: int) -> None:
        """Take a finished or cancelled request out."""
        del self._active[request_id]

    def refresh(self, request_id: int, *, finish: int) -> None:
        """Replace a request's predicted finish (absolute step, or ``NEVER``)."""
        self._active[request_id].finish = finish

    def advance(self, steps: int) -> None:
        """Move the present ``steps`` decode steps on."""
        self.step += steps

    def rows(self) -> IntArray:
        """Lhat_g(h) now, shape (G, H + 1)."""
        active = self._active.values()
        replica = np.array([a.replica for a in active], dtype=np.int64)
        tokens = np.array([a.tokens_at_zero for a in active], dtype=np.int64) + self.step
        finish = np.array([a.finish for a in active], dtype=np.int64)
        present = steps_present(finish, step=self.step, horizon=self.horizon)
        return project_loads(
            replica=replica,
            tokens=tokens,
            present=present,
            replicas=self.replicas,
            horizon=self.horizon,
        )
