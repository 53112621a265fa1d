"""Upper bounds in case (A): local search over the replicas of an assignment, its steps fixed.

Moves of one request, swaps of two and ejections (a request takes a replica, one of those there goes
to any other) are tried until none helps. Slots and KV capacity hold throughout. Between two events
the search counts the largest of the replicas' sums of load, a little below the sum of peaks where
loads cross; what it returns is measured by the judge and never worse than what it was given.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance
from solvers.bounds.plan import event_steps

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LEAST_GAIN = 1e-9
"""Gains below this share of the sum of peaks are rounding noise."""


@dataclass(frozen=True)
class SearchLimits:
    """When a local search stops, if not at a local optimum.

    Parameters
    ----------
    most_sweeps
        Sweeps over all requests.
    time_limit_s
        Seconds, None for no limit.
    """

    most_sweeps: int = 30
    time_limit_s: float | None = None


def improve(
    instance: Instance,
    assignment: Assignment,
    *,
    rng: np.random.Generator,
    limits: SearchLimits = SearchLimits(),
    clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[int], None] | None = None,
) -> Assignment:
    """Lower sum_peak by moving requests between replicas.

    Parameters
    ----------
    instance, assignment
        A feasible assignment; its admission steps stay.
    rng
        Order in which requests are tried.
    limits, clock
        When to stop.
    on_progress
        Called with the number of requests tried since the last call.

    Returns
    -------
    Assignment
        Feasible, the same steps, with a sum of peaks at most that of ``assignment``.

    Raises
    ------
    InputError
        If the assignment is infeasible.
    """
    before = evaluate(instance, assignment)
    if not before.feasible:
        raise InputError("assignment", "a feasible assignment", before.violations[0])
    state = _State(instance, assignment)
    deadline = None if limits.time_limit_s is None else clock() + limits.time_limit_s
    for _ in range(limits.most_sweeps):
        improved = False
        for request in rng.permutation(len(assignment)).tolist():
            if deadline is not None and clock() >= deadline:
                return _better(instance, assignment, state.assignment())
            improved |= state.try_move(request) or state.try_ejections(request)
            if on_progress is not None:
                on_progress(1)
        if not improved:
            break
    return _better(instance, assignment, state.assignment())


def _better(instance: Instance, old: Assignment, new: Assignment) -> Assignment:
    before, after = evaluate(instance, old), evaluate(instance, new)
    if not after.feasible or before.sum_peak is None or after.sum_peak is None:
        return old
    return new if after.sum_peak <= before.sum_peak else old


class _State:
    """Sums of load by replica and segment, kept up to date while requests move."""

    def __init__(self, instance: Instance, assignment: Assignment) -> None:
        self._slots, self._capacity = instance.slots, instance.kv_capacity
        self._replicas = instance.replicas
        self._placements = assignment
        requests = {request.id: request for request in instance.requests}
        steps = {p.id: p.step for p in assignment}
        cuts = event_steps(instance, steps)
        at = {cut: j for j, cut in enumerate(cuts)}
        lengths = np.diff(np.array(cuts, dtype=np.float64))
        middles = (np.array(cuts[:-1], dtype=np.float64) + cuts[1:] - 1) / 2
        self._replica = [p.replica for p in assignment]
        self._span = [
            slice(at[p.step], at[p.step + requests[p.id].output_tokens]) for p in assignment
        ]
        self._work, self._top = [], []
        for p, span in zip(assignment, self._span, strict=True):
            age = middles[span] - p.step
            prompt = requests[p.id].prompt_tokens
            self._work.append((prompt + age) * lengths[span])
            self._top.append(prompt + age + (lengths[span] - 1) / 2)
        shape = (instance.replicas, len(cuts) - 1)
        self._sums, self._tops = np.zeros(shape), np.zeros(shape)
        self._active = np.zeros(shape, dtype=np.int64)
        self._on = [set[int]() for _ in range(instance.replicas)]
        for i, g in enumerate(self._replica):
            self._put(i, g, 1)
        self._least = LEAST_GAIN * float(self._sums.max(axis=0, initial=0.0).sum())

    def assignment(self) -> Assignment:
        """The present assignment."""
        return tuple(
            Placement(p.id, g, p.step) for p, g in zip(self._placements, self._replica, strict=True)
        )

    def try_move(self, request: int) -> bool:
        """Move a request to its best replica with room if that helps."""
        changes = np.where(self._room(request), self._changes(request), np.inf)
        best = int(np.argmin(changes))
        if changes[best] >= -self._least:
            return False
        self._move(request, best)
        return True

    def try_ejections(self, request: int) -> bool:
        """Move a request and, in exchange, one of its new neighbours, if both together help."""
        home, changes = self._replica[request], self._changes(request)
        for target in np.argsort(changes, kind="stable").tolist():
            if target == home:
                continue
            self._move(request, target)
            change, ejected, refuge = self._best_ejection(request, target)
            if change + changes[target] < -self._least:
                self._move(ejected, refuge)
                if self._fits(target):
                    return True
                self._move(ejected, target)
            self._move(request, home)
        return False

    def _best_ejection(self, request: int, target: int) -> tuple[float, int, int]:
        """Change, request and new replica of the best move away from ``target``."""
        span = self._span[request]
        best = (np.inf, request, target)
        for other in self._on[target]:
            theirs = self._span[other]
            if other == request or theirs.start >= span.stop or theirs.stop <= span.start:
                continue
            changes = np.where(self._room(other), self._changes(other), np.inf)
            changes[target] = np.inf
            refuge = int(np.argmin(changes))
            best = min(best, (float(changes[refuge]), other, refuge))
        return best

    def _changes(self, request: int) -> FloatArray:
        """Change of the objective if a request moved to each replica, 0 at home, shape (G,)."""
        span, work = self._span[request], self._work[request]
        sums = self._sums[:, span]
        without = sums.copy()
        without[self._replica[request]] -= work
        peaks = np.maximum(without.max(axis=0), without + work).sum(axis=1)
        changes: FloatArray = peaks - sums.max(axis=0).sum()
        return changes

    def _room(self, request: int) -> NDArray[np.bool_]:
        """Whether each replica could take a request; its own always can. Shape (G,)."""
        span = self._span[request]
        room: NDArray[np.bool_] = np.asarray((self._active[:, span] < self._slots).all(axis=1))
        if self._capacity is not None:
            tops = self._tops[:, span] + self._top[request]
            room &= np.asarray((tops <= self._capacity).all(axis=1))
        room[self._replica[request]] = True
        return room

    def _fits(self, replica: int) -> bool:
        full = self._active[replica].max(initial=0) > self._slots
        over = self._capacity is not None and self._tops[replica].max(initial=0) > self._capacity
        return not (full or over)

    def _move(self, request: int, replica: int) -> None:
        self._put(request, self._replica[request], -1)
        self._put(request, replica, 1)
        self._replica[request] = replica

    def _put(self, request: int, replica: int, sign: int) -> None:
        span = self._span[request]
        self._sums[replica, span] += sign * self._work[request]
        self._tops[replica, span] += sign * self._top[request]
        self._active[replica, span] += sign
        (self._on[replica].add if sign > 0 else self._on[replica].discard)(request)
