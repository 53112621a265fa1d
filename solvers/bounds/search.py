"""Upper bounds in case (A): local search over the replicas of an assignment, its steps fixed.

Simulated annealing, if asked for, comes first. Then moves of one request, swaps of two and
ejections (a request takes a replica, one of those there goes to any other) are tried until none
helps. Slots and KV capacity hold throughout. Between two events the search counts the largest of
the replicas' sums of load, a little below the sum of peaks where loads cross; what it returns is
measured by the judge and never worse than what it was given.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance
from solvers.bounds.annealing import anneal_sides, cut_sides, draw_proposals
from solvers.bounds.loads import FloatArray, Loads, assignment_of, loads_of

LEAST_GAIN = 1e-9
"""Gains below this share of the sum of peaks are rounding noise."""


Expired = Callable[[], bool]

BATCH = 20_000
"""Proposals between two looks at the clock."""
COLDEST = 0.03
"""Last temperature of annealing as a share of the first."""
MOST_SIDES = 4
"""Parts of time that are annealed side by side; more would be shorter than a request's life."""
ANNEALING_SHARE = 0.8
"""Share of a time limit after which annealing has cooled down; the rest is for the descent."""


@dataclass(frozen=True)
class SearchLimits:
    """When a local search stops, if not at a local optimum.

    Parameters
    ----------
    most_sweeps
        Sweeps over all requests.
    proposals_per_request
        Proposals of simulated annealing before the sweeps; 0 for none. Thousands are worth it where
        numba is installed.
    time_limit_s
        Seconds, None for no limit.
    workers
        Threads of annealing, of which at most ``MOST_SIDES`` are used. The result depends on how
        many, not on their timing.
    """

    most_sweeps: int = 30
    proposals_per_request: int = 0
    time_limit_s: float | None = None
    workers: int = 1


def improve(
    instance: Instance,
    assignment: Assignment,
    *,
    rng: np.random.Generator,
    limits: SearchLimits = SearchLimits(),
    clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[int, int], None] | None = None,
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
        Called with batches of proposals done and batches in all, by number or by time.

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
    started, limit = clock(), limits.time_limit_s
    ordered = tuple(sorted(assignment, key=lambda p: (p.step, p.id)))
    loads = loads_of(instance, ordered)

    def spent() -> float:
        """Share of the time that is gone."""
        return 0.0 if limit is None else (clock() - started) / limit if limit > 0 else 1.0

    room = _Room(instance.slots, instance.kv_capacity or math.inf)
    _anneal(loads, room, rng=rng, limits=limits, spent=spent, on_progress=on_progress)
    _descend(loads, room, rng=rng, limits=limits, expired=lambda: spent() >= 1)
    found = {p.id: p for p in assignment_of(loads, ordered)}
    return _better(instance, assignment, tuple(found[p.id] for p in assignment))


def _anneal(
    loads: Loads,
    room: "_Room",
    *,
    rng: np.random.Generator,
    limits: SearchLimits,
    spent: Callable[[], float],
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Cool geometrically from twice a typical weight over a typical segment.

    The temperature follows the proposals made or the time gone, whichever is ahead: a search that
    is cut short while hot is worth little.
    Requests are in order of admission, so that those a few places apart run side by side.
    """
    requests, replicas = len(loads.replica), len(loads.sums)
    batches = -(-limits.proposals_per_request * requests // BATCH)
    if not batches or replicas == 1:
        return
    weights = loads.at_zero + loads.lasts[loads.first]
    hot = 2 * float(weights.mean()) * float(loads.lengths.mean())
    sides = min(limits.workers, MOST_SIDES)
    with ThreadPoolExecutor(sides) as threads:
        number = 0
        while (progress := max(number / batches, spent() / ANNEALING_SHARE)) < 1:
            if on_progress is not None:
                on_progress(int(progress * batches), batches)
            chosen = cut_sides(loads, rng, sides=sides)
            proposals = [
                draw_proposals(
                    rng,
                    batch=BATCH,
                    requests=len(side.members),
                    replicas=replicas,
                    reach=max(1, int(loads.active.sum(axis=0).max())),
                    temperature=hot * COLDEST**progress,
                )
                for side in chosen
            ]
            anneal_sides(
                loads,
                chosen,
                proposals,
                slots=room.slots,
                capacity=room.capacity,
                threads=threads,
            )
            number += max(1, len(chosen))


def _descend(
    loads: Loads, room: "_Room", *, rng: np.random.Generator, limits: SearchLimits, expired: Expired
) -> None:
    descent = _Descent(loads, slots=room.slots, capacity=room.capacity)
    for _ in range(limits.most_sweeps):
        improved = False
        for request in rng.permutation(len(loads.replica)).tolist():
            if expired():
                return
            improved |= descent.try_move(request) or descent.try_ejections(request)
        if not improved:
            return


def _better(instance: Instance, old: Assignment, new: Assignment) -> Assignment:
    before, after = evaluate(instance, old), evaluate(instance, new)
    if not after.feasible or before.sum_peak is None or after.sum_peak is None:
        return old
    return new if after.sum_peak <= before.sum_peak else old


@dataclass(frozen=True)
class _Room:
    slots: int
    capacity: float


class _Descent:
    """Moves and ejections that lower the objective, on loads kept up to date."""

    def __init__(self, loads: Loads, *, slots: int, capacity: float) -> None:
        self._loads, self._slots, self._capacity = loads, slots, capacity
        self._least = LEAST_GAIN * float(loads.sums.max(axis=0, initial=0.0).sum())
        self._on = [set[int]() for _ in range(len(loads.sums))]
        for request, replica in enumerate(loads.replica.tolist()):
            self._on[replica].add(request)

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
        home, changes = int(self._loads.replica[request]), self._changes(request)
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
        span = self._loads.span(request)
        best = (np.inf, request, target)
        for other in sorted(self._on[target]):
            theirs = self._loads.span(other)
            if other == request or theirs.start >= span.stop or theirs.stop <= span.start:
                continue
            changes = np.where(self._room(other), self._changes(other), np.inf)
            changes[target] = np.inf
            refuge = int(np.argmin(changes))
            best = min(best, (float(changes[refuge]), other, refuge))
        return best

    def _changes(self, request: int) -> FloatArray:
        """Change of the objective if a request moved to each replica, 0 at home, shape (G,)."""
        loads = self._loads
        sums, work = loads.sums[:, loads.span(request)], loads.work(request)
        without = sums.copy()
        without[loads.replica[request]] -= work
        peaks = np.maximum(without.max(axis=0), without + work).sum(axis=1)
        changes: FloatArray = peaks - sums.max(axis=0).sum()
        return changes

    def _room(self, request: int) -> NDArray[np.bool_]:
        """Whether each replica could take a request; its own always can. Shape (G,)."""
        loads, span = self._loads, self._loads.span(request)
        tops = loads.tops[:, span] + loads.top(request)
        room: NDArray[np.bool_] = np.asarray(
            ((loads.active[:, span] < self._slots) & (tops <= self._capacity)).all(axis=1)
        )
        room[loads.replica[request]] = True
        return room

    def _fits(self, replica: int) -> bool:
        full = self._loads.active[replica].max(initial=0) > self._slots
        return not (full or self._loads.tops[replica].max(initial=0) > self._capacity)

    def _move(self, request: int, replica: int) -> None:
        self._on[int(self._loads.replica[request])].remove(request)
        self._on[replica].add(request)
        self._loads.move(request, replica)
