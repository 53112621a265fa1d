"""Many partitions of the active requests at once, as arrays: the states of the dynamic program.

A state puts each active request into one of at most G unlabelled groups. Lane l of a state holds
the group of the request in lane l, ``IDLE`` where the lane is free; each group carries

    intercept c_g = sum (s_i - t_i)     count n_g     so that L_g(k) = c_g + k*n_g

This is the readable reference in NumPy; ``partitions_compiled`` is the same compiled, and must
agree with it state by state.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IDLE = 255
"""Label of a free lane."""
MOST_GROUPS = 254

Labels = NDArray[np.uint8]
Ints = NDArray[np.int64]
Parents = NDArray[np.int32]


@dataclass
class States:
    """S states over ``lanes`` lanes and G groups.

    Parameters
    ----------
    labels
        Shape (S, lanes), uint8.
    intercepts, counts
        c_g and n_g, shape (S, G), int64.
    costs
        Sum of M over the steps run so far, shape (S,), int64.
    """

    labels: Labels
    intercepts: Ints
    counts: Ints
    costs: Ints

    def __len__(self) -> int:
        return len(self.costs)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.labels, self.intercepts, self.counts, self.costs))

    def take(self, rows: NDArray[np.int32] | NDArray[np.intp]) -> "States":
        """The states of these rows, in this order."""
        return States(self.labels[rows], self.intercepts[rows], self.counts[rows], self.costs[rows])


def empty_state(*, lanes: int, groups: int) -> States:
    """The one state with nothing active."""
    return States(
        labels=np.full((1, lanes), IDLE, dtype=np.uint8),
        intercepts=np.zeros((1, groups), dtype=np.int64),
        counts=np.zeros((1, groups), dtype=np.int64),
        costs=np.zeros(1, dtype=np.int64),
    )


class Kernel(Protocol):
    """The four moves of the dynamic program."""

    def admit(
        self, states: States, *, lane: int, intercept: int, slots: int
    ) -> tuple[States, Parents]:
        """Every way to put one request into a group with a slot; of empty groups only the first.

        Returns the children, by parent and then group, and the parent row of each. The states
        given are not to be used again: they may have become the children.
        """

    def retire(self, states: States, *, lane: int, intercept: int) -> None:
        """Take the request in a lane out of its group, in place."""

    def run(self, states: States, *, start: int, length: int) -> Ints:
        """Add the peaks of steps start .. start + length - 1 to the costs, in place.

        Returns the largest load of each state in these steps, shape (S,).
        """

    def merge(self, states: States) -> tuple[States, Parents]:
        """Renumber groups by first lane; of equal partitions keep the cheapest, the first on ties.

        Returns the kept states in the order in which their partitions first appear, and their
        rows.
        """


class NumpyKernel:
    """The reference."""

    def admit(
        self, states: States, *, lane: int, intercept: int, slots: int
    ) -> tuple[States, Parents]:
        """See ``Kernel.admit``."""
        empty = states.counts == 0
        first_empty = empty & (np.cumsum(empty, axis=1) == 1)
        open_groups = (states.counts < slots) & (~empty | first_empty)
        parents, groups = np.nonzero(open_groups)
        children = states.take(parents)
        rows = np.arange(len(parents))
        children.labels[:, lane] = groups
        children.intercepts[rows, groups] += intercept
        children.counts[rows, groups] += 1
        return children, parents.astype(np.int32)

    def retire(self, states: States, *, lane: int, intercept: int) -> None:
        """See ``Kernel.retire``."""
        rows = np.arange(len(states))
        groups = states.labels[:, lane]
        states.intercepts[rows, groups] -= intercept
        states.counts[rows, groups] -= 1
        states.labels[:, lane] = IDLE

    def run(self, states: States, *, start: int, length: int) -> Ints:
        """See ``Kernel.run``: follow the upper envelope of the lines, one piece a round."""
        loads, slopes = states.intercepts + start * states.counts, states.counts
        largest: Ints = (loads + (length - 1) * slopes).max(axis=1)
        done = np.zeros(len(states), dtype=np.int64)
        while (left := np.flatnonzero(done < length)).size:
            now, slope = loads[left] + done[left, None] * slopes[left], slopes[left]
            peak = now.max(axis=1)
            steepest = np.where(now == peak[:, None], slope, -1).max(axis=1)
            rise = slope - steepest[:, None]
            ahead = (peak[:, None] - now) // np.maximum(rise, 1) + 1
            piece = np.where(rise > 0, ahead, length).min(axis=1)
            piece = np.minimum(piece, length - done[left])
            states.costs[left] += piece * peak + steepest * (piece * (piece - 1) // 2)
            done[left] += piece
        return largest

    def merge(self, states: States) -> tuple[States, Parents]:
        """See ``Kernel.merge``."""
        _renumber(states)
        words = _packed(states.labels, groups=states.counts.shape[1])
        order = np.lexsort((np.arange(len(states)), states.costs, *words.T))
        ordered = words[order]
        fresh = np.ones(len(order), dtype=bool)
        fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        # In the order in which each partition first appears, whichever of its rows is kept.
        first_seen = np.minimum.reduceat(order, np.flatnonzero(fresh))
        rows = order[fresh][np.argsort(first_seen)].astype(np.int32)
        return states.take(rows), rows


def _renumber(states: States) -> None:
    """Number the groups of each state by their first lane, in place; empty groups come last."""
    count, groups = states.counts.shape
    lanes = states.labels.shape[1]
    first = np.full((count, groups), lanes, dtype=np.int64)
    for g in range(groups):
        member = states.labels == g
        first[:, g] = np.where(member.any(axis=1), member.argmax(axis=1), lanes)
    order = np.argsort(first, axis=1, kind="stable")
    rank = np.full((count, groups + 1), IDLE, dtype=np.uint8)
    np.put_along_axis(rank, order, np.arange(groups, dtype=np.uint8)[None, :], axis=1)
    column = np.minimum(states.labels, groups).astype(np.intp)  # free lanes to the last column
    states.labels = np.take_along_axis(rank, column, axis=1)
    states.intercepts = np.take_along_axis(states.intercepts, order, axis=1)
    states.counts = np.take_along_axis(states.counts, order, axis=1)


def _packed(labels: Labels, *, groups: int) -> NDArray[np.uint64]:
    """Labels as words, shape (S, number of words): equal exactly if the labels are."""
    bits = groups.bit_length()  # G labels and one for a free lane
    a_word = 64 // bits
    lanes = labels.shape[1]
    words = np.zeros((len(labels), -(-lanes // a_word)), dtype=np.uint64)
    for lane in range(lanes):
        label = np.minimum(labels[:, lane], groups).astype(np.uint64)
        words[:, lane // a_word] |= label << np.uint64(bits * (lane % a_word))
    return words
