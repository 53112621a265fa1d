"""The horizon state in arrays, for compiled code: ``core.horizon.HorizonState`` change by change.

Active requests live in slots 0 .. n - 1. One without a prediction is an anchor; one predicted to
leave inside the window hangs in the list of its finish modulo H + 1, so that a step finds those
that outlive it at once; one predicted to leave later hangs in the list of its own at the end.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel

NEVER = 2**63 - 1
ABSENT, ANCHOR, INSIDE, BEYOND = range(4)
ADMIT, RETIRE, REFRESH, ADVANCE = range(4)


class Horizon(NamedTuple):
    """Projected loads of G replicas and the active requests behind them.

    Parameters
    ----------
    columns
        Shape (G, 2 * (H + 1)): the window starts at column ``clock[0]`` - ``clock[1]``.
    lasting_tokens, lasting_count
        Weight at absolute step 0 and number of the requests present past the window, shape (G,).
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
    columns = replicas * 2 * (horizon + 1)
    memory = np.zeros(columns + 2 * replicas + 6 * slots + horizon + 4, np.int64)
    view_of(memory, replicas, horizon, slots).heads[:] = -1
    return memory


@entry_kernel
def view_of(memory: IntArray, replicas: int, horizon: int, slots: int) -> Horizon:
    """The state that lies in ``memory``."""
    at = replicas * 2 * (horizon + 1)
    columns = memory[:at].reshape((replicas, 2 * (horizon + 1)))
    per_replica = memory[at : at + 2 * replicas]
    at += 2 * replicas
    per_slot = memory[at : at + 6 * slots]
    at += 6 * slots
    return Horizon(
        columns,
        per_replica[:replicas],
        per_replica[replicas:],
        per_slot[:slots],
        per_slot[slots : 2 * slots],
        per_slot[2 * slots : 3 * slots],
        per_slot[3 * slots : 4 * slots],
        per_slot[4 * slots : 5 * slots],
        per_slot[5 * slots :],
        memory[at : at + horizon + 2],
        memory[at + horizon + 2 :],
    )


@entry_kernel
def apply_changes(state: Horizon, changes: IntArray) -> None:
    """Apply changes in order, shape (k, 5): kind, slot or steps, replica, tokens now, finish."""
    for i in range(len(changes)):
        kind, slot = changes[i, 0], changes[i, 1]
        if kind == ADMIT:
            put_in(state, slot, changes[i, 2], changes[i, 3], changes[i, 4])
        elif kind == RETIRE:
            take_out(state, slot)
        elif kind == REFRESH:
            predict_again(state, slot, changes[i, 4])
        else:
            move_on(state, slot)


@entry_kernel
def update(
    memory: IntArray,
    replicas: int,
    horizon: int,
    slots: int,
    admitted: IntArray,
    retired: IntArray,
    steps: int,
) -> int:
    """Admit rows (slot, replica, tokens now, finish), retire slots, advance: one call a tick.

    Returns 0, or -1 - i if admission i finds its slot taken, or 1 + i if retirement i finds its
    slot empty; nothing after that is done.
    """
    return _update(view_of(memory, replicas, horizon, slots), admitted, retired, steps)


@kernel
def _update(state: Horizon, admitted: IntArray, retired: IntArray, steps: int) -> int:
    for i in range(len(admitted)):
        if state.place[admitted[i, 0]] != ABSENT:
            return -1 - i
        put_in(state, admitted[i, 0], admitted[i, 1], admitted[i, 2], admitted[i, 3])
    for i in range(len(retired)):
        if state.place[retired[i]] == ABSENT:
            return 1 + i
        take_out(state, retired[i])
    move_on(state, steps)
    return 0


@kernel
def put_in(state: Horizon, slot: int, replica: int, tokens: int, finish: int) -> None:
    """Add a request that weighs ``tokens`` now and is predicted to leave at ``finish``."""
    state.replica[slot] = replica
    state.tokens_at_zero[slot] = tokens - state.clock[0]
    state.finish[slot] = finish
    _put(state, slot)


@kernel
def take_out(state: Horizon, slot: int) -> None:
    """Take a finished or cancelled request out."""
    end = state.clock[0] + len(state.heads) - 1
    place = state.place[slot]
    if place == INSIDE:
        _spread(state, slot, state.clock[0], state.finish[slot], -1)
    else:
        _spread(state, slot, state.clock[0], end, -1)
        _last(state, slot, -1)
    if place != ANCHOR:
        _unlink(state, slot)
    state.place[slot] = ABSENT


@kernel
def predict_again(state: Horizon, slot: int, finish: int) -> None:
    """Replace a request's predicted finish."""
    if finish != state.finish[slot] or finish <= state.clock[0]:
        take_out(state, slot)
        state.finish[slot] = finish
        _put(state, slot)


@kernel
def move_on(state: Horizon, steps: int) -> None:
    """Move the present ``steps`` >= 0 decode steps on."""
    width = len(state.heads) - 1
    if steps >= width:
        _leap(state, steps)
        return
    for _ in range(steps):
        made = state.clock[0] + width
        state.clock[0] += 1
        if made + 1 - state.clock[1] > state.columns.shape[1]:
            _move_back(state)
        _enter(state)
        _make_column(state, made)
        _outlive(state, state.clock[0] % width)


@kernel
def _put(state: Horizon, slot: int) -> None:
    step, width = state.clock[0], len(state.heads) - 1
    finish = state.finish[slot]
    if step < finish < step + width:
        _spread(state, slot, step, finish, 1)
        state.place[slot] = INSIDE
        _link(state, slot, finish % width)
        return
    _spread(state, slot, step, step + width, 1)
    _last(state, slot, 1)
    state.place[slot] = ANCHOR
    if step < finish < NEVER:
        state.place[slot] = BEYOND
        _link(state, slot, width)


@kernel
def _spread(state: Horizon, slot: int, first: int, end: int, sign: int) -> None:
    """Add ``sign`` times the request's weight to the columns of steps ``first`` .. ``end`` - 1."""
    origin, weight = state.clock[1], state.tokens_at_zero[slot] + first
    row = state.columns[state.replica[slot], first - origin : max(first, end) - origin]
    for h in range(len(row)):
        row[h] += sign * (weight + h)


@kernel
def _last(state: Horizon, slot: int, sign: int) -> None:
    g = state.replica[slot]
    state.lasting_tokens[g] += sign * state.tokens_at_zero[slot]
    state.lasting_count[g] += sign


@kernel
def _link(state: Horizon, slot: int, list_index: int) -> None:
    head = state.heads[list_index]
    state.following[slot] = head
    state.preceding[slot] = -1 - list_index
    if head >= 0:
        state.preceding[head] = slot
    state.heads[list_index] = slot


@kernel
def _unlink(state: Horizon, slot: int) -> None:
    following, preceding = state.following[slot], state.preceding[slot]
    if following >= 0:
        state.preceding[following] = preceding
    # The first of a list keeps the list's index, as -1 - index, in place of a predecessor.
    if preceding >= 0:
        state.following[preceding] = following
    else:
        state.heads[-1 - preceding] = following


@kernel
def _move_back(state: Horizon) -> None:
    """Move the columns still in the window to the front of the buffer."""
    columns, shift = state.columns, state.clock[0] - state.clock[1]
    for g in range(columns.shape[0]):
        for h in range(len(state.heads) - 2):
            columns[g, h] = columns[g, h + shift]
    state.clock[1] = state.clock[0]


@kernel
def _make_column(state: Horizon, step: int) -> None:
    columns, column = state.columns, step - state.clock[1]
    tokens, count = state.lasting_tokens, state.lasting_count
    for g in range(len(tokens)):
        columns[g, column] = tokens[g] + count[g] * step


@kernel
def _enter(state: Horizon) -> None:
    """Requests past the window whose finish lies inside it now."""
    step, width = state.clock[0], len(state.heads) - 1
    slot = state.heads[width]
    while slot >= 0:
        following = state.following[slot]
        if state.finish[slot] < step + width:
            _unlink(state, slot)
            _last(state, slot, -1)
            state.place[slot] = INSIDE
            _link(state, slot, state.finish[slot] % width)
        slot = following


@kernel
def _outlive(state: Horizon, list_index: int) -> None:
    """Requests still here at their predicted finish are anchors from now on."""
    step, width = state.clock[0], len(state.heads) - 1
    slot = state.heads[list_index]
    state.heads[list_index] = -1
    while slot >= 0:
        state.place[slot] = ANCHOR
        state.finish[slot] = NEVER
        _spread(state, slot, step, step + width, 1)
        _last(state, slot, 1)
        slot = state.following[slot]


@kernel
def _leap(state: Horizon, steps: int) -> None:
    """Move on by at least the whole window: every column is made anew."""
    width = len(state.heads) - 1
    state.clock[0] += steps
    state.clock[1] = state.clock[0]
    for list_index in range(width):
        slot = state.heads[list_index]
        while slot >= 0:
            _last(state, slot, 1)
            state.place[slot] = ANCHOR
            state.finish[slot] = NEVER
            slot = state.following[slot]
        state.heads[list_index] = -1
    _enter(state)
    for step in range(state.clock[0], state.clock[0] + width):
        _make_column(state, step)
    for list_index in range(width):
        slot = state.heads[list_index]
        while slot >= 0:
            following = state.following[slot]
            if state.finish[slot] <= state.clock[0]:
                _unlink(state, slot)
                _put(state, slot)
            else:
                _spread(state, slot, state.clock[0], state.finish[slot], 1)
            slot = following
