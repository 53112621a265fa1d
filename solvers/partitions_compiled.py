"""The moves of the dynamic program compiled with numba: the reference's results, row by row."""

import numba
import numpy as np
from numpy.typing import NDArray

from solvers.partitions import IDLE, Ints, Labels, Parents, States

_FNV_OFFSET = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)


class CompiledKernel:
    """See ``solvers.partitions.Kernel``; equal to ``NumpyKernel``."""

    def admit(
        self, states: States, *, lane: int, intercept: int, slots: int
    ) -> tuple[States, Parents]:
        """See ``Kernel.admit``."""
        total, one_each = _count_children(states.counts, slots)
        if one_each:
            _place_only((states.labels, states.intercepts, states.counts), lane, intercept, slots)
            return states, np.arange(total, dtype=np.int32)
        lanes, groups = states.labels.shape[1], states.counts.shape[1]
        children = States(
            np.empty((total, lanes), np.uint8),
            np.empty((total, groups), np.int64),
            np.empty((total, groups), np.int64),
            np.empty(total, np.int64),
        )
        parents = np.empty(total, np.int32)
        _fill_children(
            (states.labels, states.intercepts, states.counts, states.costs),
            (children.labels, children.intercepts, children.counts, children.costs, parents),
            lane,
            intercept,
            slots,
        )
        return children, parents

    def retire(self, states: States, *, lane: int, intercept: int) -> None:
        """See ``Kernel.retire``."""
        _retire(states.labels, states.intercepts, states.counts, lane, intercept)

    def run(self, states: States, *, start: int, length: int) -> Ints:
        """See ``Kernel.run``."""
        largest = np.empty(len(states), np.int64)
        _run((states.intercepts, states.counts, states.costs), largest, start, length)
        return largest

    def merge(self, states: States) -> tuple[States, Parents]:
        """See ``Kernel.merge``."""
        _renumber(states.labels, states.intercepts, states.counts)
        rows = _merge(states.labels, states.costs)
        return states.take(rows), rows


@numba.njit(cache=True)
def _is_open(counts: Ints, row: int, group: int, slots: int) -> bool:
    """A group with a slot; of the empty ones only the first."""
    if counts[row, group] > 0:
        return bool(counts[row, group] < slots)
    for before in range(group):  # noqa: SIM110  # numba compiles no generator expression
        if counts[row, before] == 0:
            return False
    return True


@numba.njit(cache=True)
def _count_children(counts: Ints, slots: int) -> tuple[int, bool]:
    """How many children there are, and whether every state has exactly one."""
    total, one_each = 0, True
    for row in range(counts.shape[0]):
        before = total
        for group in range(counts.shape[1]):
            if _is_open(counts, row, group, slots):
                total += 1
        one_each = one_each and total == before + 1
    return total, one_each


@numba.njit(cache=True)
def _place_only(states: tuple[Labels, Ints, Ints], lane: int, intercept: int, slots: int) -> None:
    """Place the request in the only open group of each state, without a copy."""
    labels, intercepts, counts = states
    for row in range(counts.shape[0]):
        for group in range(counts.shape[1]):
            if _is_open(counts, row, group, slots):
                labels[row, lane] = group
                intercepts[row, group] += intercept
                counts[row, group] += 1
                break


@numba.njit(cache=True)
def _fill_children(
    old: tuple[Labels, Ints, Ints, Ints],
    new: tuple[Labels, Ints, Ints, Ints, Parents],
    lane: int,
    intercept: int,
    slots: int,
) -> None:
    labels, intercepts, counts, costs = old
    new_labels, new_intercepts, new_counts, new_costs, parents = new
    child = 0
    for row in range(counts.shape[0]):
        for group in range(counts.shape[1]):
            if _is_open(counts, row, group, slots):
                new_labels[child] = labels[row]
                new_intercepts[child] = intercepts[row]
                new_counts[child] = counts[row]
                new_costs[child] = costs[row]
                new_labels[child, lane] = group
                new_intercepts[child, group] += intercept
                new_counts[child, group] += 1
                parents[child] = row
                child += 1


@numba.njit(cache=True)
def _retire(labels: Labels, intercepts: Ints, counts: Ints, lane: int, intercept: int) -> None:
    for row in range(labels.shape[0]):
        group = labels[row, lane]
        intercepts[row, group] -= intercept
        counts[row, group] -= 1
        labels[row, lane] = IDLE


@numba.njit(cache=True)
def _run(states: tuple[Ints, Ints, Ints], largest: Ints, start: int, length: int) -> None:
    intercepts, counts, costs = states
    groups = counts.shape[1]
    for row in range(counts.shape[0]):
        step, end, top = start, start + length, 0
        while step < end:
            peak, slope = -1, 0
            for g in range(groups):
                load = intercepts[row, g] + step * counts[row, g]
                if load > peak or (load == peak and counts[row, g] > slope):
                    peak, slope = load, counts[row, g]
            piece = end - step
            for g in range(groups):
                rise = counts[row, g] - slope
                if rise > 0:
                    ahead = peak - (intercepts[row, g] + step * counts[row, g])
                    piece = min(piece, ahead // rise + 1)
            costs[row] += piece * peak + slope * (piece * (piece - 1) // 2)
            top = peak + slope * (piece - 1)
            step += piece
        largest[row] = top


@numba.njit(cache=True)
def _renumber(labels: Labels, intercepts: Ints, counts: Ints) -> None:
    groups = counts.shape[1]
    rank = np.empty(groups, np.int64)
    spare_intercepts = np.empty(groups, np.int64)
    spare_counts = np.empty(groups, np.int64)
    for row in range(labels.shape[0]):
        rank[:] = -1
        used = 0
        for lane in range(labels.shape[1]):
            group = labels[row, lane]
            if group != IDLE:
                if rank[group] < 0:
                    rank[group] = used
                    used += 1
                labels[row, lane] = rank[group]
        for g in range(groups):
            if rank[g] < 0:
                rank[g] = used
                used += 1
            spare_intercepts[rank[g]] = intercepts[row, g]
            spare_counts[rank[g]] = counts[row, g]
        intercepts[row] = spare_intercepts
        counts[row] = spare_counts


@numba.njit(cache=True)
def _hash(labels: Labels, row: int) -> np.uint64:
    value = _FNV_OFFSET
    for lane in range(labels.shape[1]):
        value = (value ^ np.uint64(labels[row, lane])) * _FNV_PRIME
    return value ^ (value >> np.uint64(32))


@numba.njit(cache=True)
def _equal(labels: Labels, row: int, other: int) -> bool:
    for lane in range(labels.shape[1]):  # noqa: SIM110  # numba compiles no generator expression
        if labels[row, lane] != labels[other, lane]:
            return False
    return True


@numba.njit(cache=True)
def _merge(labels: Labels, costs: Ints) -> NDArray[np.int32]:
    """Cheapest row of each partition, by an open hash table of positions in the answer."""
    size = 16
    while size < 2 * labels.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int32)
    kept = np.empty(labels.shape[0], np.int32)
    count = 0
    for row in range(labels.shape[0]):
        place = np.int64(_hash(labels, row) & np.uint64(size - 1))
        while True:
            position = table[place]
            if position < 0:
                table[place] = count
                kept[count] = row
                count += 1
                break
            if _equal(labels, row, kept[position]):
                if costs[row] < costs[kept[position]]:
                    kept[position] = row
                break
            place = (place + 1) & (size - 1)
    return kept[:count].copy()
