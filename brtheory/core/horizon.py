"""Projected loads: Lhat_g(h), h = 0 .. H, from what each active request weighs and its prediction.

Lhat_g(h) = sum over the active requests of g present at h of (s + a + h). A request predicted to
leave at absolute step f is present at steps before f; one without a prediction (the anchor: the
gate, or a finish beyond the horizon) is present at every h. Between refreshes a predicted finish
stays fixed while an anchor does not count down; a request that outlives its prediction is an
anchor until the next refresh.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError

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
    """One active request: it weighs ``tokens_at_zero + t`` at absolute step t, until ``finish``."""

    replica: int
    tokens_at_zero: int
    finish: int
    lasting: bool = False


class RebuiltHorizonState:
    """Projected loads rebuilt from scratch at every question: the reference.

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


class HorizonState:
    """The projected loads of a running cluster, kept up by every change instead of rebuilt.

    A request present at absolute step t weighs ``tokens_at_zero + t`` there whatever the present
    is, so a column, once made, only changes with admissions, retirements and refreshes: moving on
    by a step drops the oldest column and makes one new one from the requests present past the
    window. Columns lie side by side in a buffer of twice the window's width; when the window
    reaches its end, it moves back to the start, once in H + 1 steps.

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
        self.columns: IntArray = np.zeros((replicas, 2 * (horizon + 1)), dtype=np.int64)
        self._origin = 0
        self._lasting_tokens: IntArray = np.zeros(replicas, dtype=np.int64)
        self._lasting_count: IntArray = np.zeros(replicas, dtype=np.int64)
        self._active: dict[int, _Active] = {}
        self._inside: list[tuple[int, int]] = []
        self._beyond: list[tuple[int, int]] = []

    @property
    def start(self) -> int:
        """Column of ``columns`` that holds h = 0; the following H hold h = 1 .. H."""
        return self.step - self._origin

    def rows(self) -> IntArray:
        """Lhat_g(h) now, shape (G, H + 1): a read-only view, valid until the next change."""
        view = self.columns[:, self.start : self.start + self.horizon + 1]
        view.flags.writeable = False
        return view

    def admit(self, request_id: int, replica: int, *, tokens: int, finish: int) -> None:
        """Add a request that weighs ``tokens`` now and is predicted to leave at step ``finish``.

        Raises
        ------
        InputError
            If a request with this id is active already.
        """
        if request_id in self._active:
            raise InputError("horizon state", "ids used once", f"id {request_id} twice")
        request = _Active(replica, tokens - self.step, self._to_come(finish))
        self._active[request_id] = request
        self._put(request_id, request)

    def retire(self, request_id: int) -> None:
        """Take a finished or cancelled request out.

        Raises
        ------
        InputError
            If no such request is active.
        """
        self._take(self._find(request_id))
        del self._active[request_id]

    def refresh(self, request_id: int, *, finish: int) -> None:
        """Replace a request's predicted finish (absolute step, or ``NEVER``).

        Raises
        ------
        InputError
            If no such request is active.
        """
        request, finish = self._find(request_id), self._to_come(finish)
        if finish != request.finish:
            self._take(request)
            request.finish = finish
            self._put(request_id, request)

    def advance(self, steps: int) -> None:
        """Move the present ``steps`` >= 0 decode steps on.

        Raises
        ------
        InputError
            If ``steps`` is negative.
        """
        if steps < 0:
            raise InputError("steps", "an integer >= 0", steps)
        if steps == 0:
            return
        kept_until = self._end
        self.step += steps
        entering = self._entering()
        self._slide(kept_until)
        for request in entering:
            first = max(self.step, kept_until)
            self._add(request, first, min(request.finish, self._end), sign=1)
        self._outlive()

    @property
    def _end(self) -> int:
        """First absolute step past the window."""
        return self.step + self.horizon + 1

    def _to_come(self, finish: int) -> int:
        """An outlived prediction is no prediction."""
        return int(NEVER) if finish <= self.step else finish

    def _find(self, request_id: int) -> _Active:
        if request_id not in self._active:
            raise InputError("horizon state", "the id of an active request", request_id)
        return self._active[request_id]

    def _put(self, request_id: int, request: _Active) -> None:
        self._add(request, self.step, min(request.finish, self._end), sign=1)
        if request.finish >= self._end:
            self._last(request, sign=1)
        if request.finish != NEVER:
            side = self._beyond if request.lasting else self._inside
            heapq.heappush(side, (request.finish, request_id))

    def _take(self, request: _Active) -> None:
        self._add(request, self.step, min(request.finish, self._end), sign=-1)
        if request.lasting:
            self._last(request, sign=-1)

    def _add(self, request: _Active, first: int, end: int, *, sign: int) -> None:
        """Add ``sign`` times the request's weight to columns of steps ``first`` .. ``end`` - 1."""
        if end > first:
            weight = request.tokens_at_zero
            row = self.columns[request.replica, first - self._origin : end - self._origin]
            row += np.arange(sign * (weight + first), sign * (weight + end), sign)

    def _last(self, request: _Active, *, sign: int) -> None:
        self._lasting_tokens[request.replica] += sign * request.tokens_at_zero
        self._lasting_count[request.replica] += sign
        request.lasting = sign > 0

    def _entering(self) -> list[_Active]:
        """Requests predicted to leave inside the window that was past it before the move."""
        entering = []
        while self._beyond and self._beyond[0][0] < self._end:
            finish, request_id = heapq.heappop(self._beyond)
            request = self._active.get(request_id)
            # Entries of requests retired or refreshed since are stale.
            if request is not None and request.lasting and request.finish == finish:
                self._last(request, sign=-1)
                heapq.heappush(self._inside, (finish, request_id))
                entering.append(request)
        return entering

    def _slide(self, kept_until: int) -> None:
        """Make the columns of the steps from ``kept_until`` on, from the lasting requests."""
        if self._end - self._origin > self.columns.shape[1]:
            kept = self.columns[:, self.step - self._origin : kept_until - self._origin].copy()
            self._origin = self.step
            self.columns[:, : kept.shape[1]] = kept
        first = max(self.step, kept_until)
        made = self.columns[:, first - self._origin : self._end - self._origin]
        np.multiply(self._lasting_count[:, None], np.arange(first, self._end), out=made)
        made += self._lasting_tokens[:, None]

    def _outlive(self) -> None:
        """Requests still here at their predicted finish are anchors from now on."""
        while self._inside and self._inside[0][0] <= self.step:
            finish, request_id = heapq.heappop(self._inside)
            request = self._active.get(request_id)
            if request is not None and request.finish == finish:
                request.finish = int(NEVER)
                self._put(request_id, request)
