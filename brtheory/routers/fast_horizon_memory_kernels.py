"""Where the compiled horizon state keeps its numbers: one block of memory and the arrays in it."""

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel

NEVER = 2**63 - 1
ABSENT, ANCHOR, INSIDE, BEYOND = range(4)
LINE = 8
"""Integers in a line of cache."""


class Horizon(NamedTuple):
    """Projected loads of G replicas and the active requests behind them.

    Parameters
    ----------
    columns
        Shape (G, C), C > H + 1: the window starts at column ``clock[0]`` - ``clock[1]``.
    lasting_tokens, lasting_count
        Weight at absolute step 0 and number of the requests present past the window, shape (G,).
    tokens_before, count_before
        The same before an update, shape (G,): scratch.
    replica, tokens_at_zero, finish, place
        Per slot, shape (n,): where it runs; it weighs ``tokens_at_zero`` + t at step t; its
        predicted finish; ABSENT, ANCHOR, INSIDE or BEYOND.
    following, preceding
        Links of the lists, shape (n,), -1 at the ends.
    heads
        First slot of each list, shape (H + 2,), -1 where empty.
    clock
        The present absolute step, and the one of column 0.
    """

    columns: IntArray
    lasting_tokens: IntArray
    lasting_count: IntArray
    tokens_before: IntArray
    count_before: IntArray
    replica: IntArray
    tokens_at_zero: IntArray
    finish: IntArray
    place: IntArray
    following: IntArray
    preceding: IntArray
    heads: IntArray
    clock: IntArray


@entry_kernel
def make_horizon(replicas: int, horizon: int, slots: int) -> Horizon:
    """An empty state for at most ``slots`` requests at once."""
    return view_of(make_memory(replicas, horizon, slots), replicas, horizon, slots)


@entry_kernel
def make_memory(replicas: int, horizon: int, slots: int) -> IntArray:
    """The memory of an empty state: one array, because each one passed costs a tick's time."""
    size = 6 * slots + replicas * (_row_width(horizon) + 4) + horizon + 4
    memory = np.zeros(size + LINE, np.int64)
    first = (-memory.ctypes.data % (8 * LINE)) // 8
    memory = memory[first : first + size]
    view_of(memory, replicas, horizon, slots).heads[:] = -1
    return memory


@entry_kernel
def view_of(memory: IntArray, replicas: int, horizon: int, slots: int) -> Horizon:
    """The state that lies in ``memory``."""
    # What an admission or an ending touches lies side by side, strided: requests end in no order,
    # and each costs one line of cache. The links of the lists, which concern few, come after it.
    own, links = 4 * slots, 6 * slots
    at = links
    width = _row_width(horizon)
    columns = memory[at : at + replicas * width].reshape((replicas, width))
    at += replicas * width
    per_replica = memory[at : at + 4 * replicas]
    at += 4 * replicas
    return Horizon(
        columns,
        per_replica[:replicas],
        per_replica[replicas : 2 * replicas],
        per_replica[2 * replicas : 3 * replicas],
        per_replica[3 * replicas :],
        memory[0:own:4],
        memory[1:own:4],
        memory[2:own:4],
        memory[3:own:4],
        memory[own:links:2],
        memory[own + 1 : links : 2],
        memory[at : at + horizon + 2],
        memory[at + horizon + 2 :],
    )


@entry_kernel
def _row_width(horizon: int) -> int:
    """Whole lines with 24 columns or more to spare: rows near each other are read faster."""
    return (horizon + 1 + 24 + LINE) // LINE * LINE
