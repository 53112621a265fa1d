"""The horizon state in arrays, for compiled code: ``core.horizon.HorizonState`` change by change.

Active requests live in slots 0 .. n - 1. One without a prediction is an anchor; one predicted to
leave inside the window hangs in the list of its finish modulo H + 1, so that a step finds those
that outlive it at once; one predicted to leave later hangs in the list of its own at the end.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_horizon_memory_kernels import (
    ABSENT,
    ANCHOR,
    BEYOND,
    INSIDE,
    NEVER,
    Horizon,
    view_of,
)

ADMIT, RETIRE, REFRESH, ADVANCE = range(4)
LATER, AT_ONCE = range(2)


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
    for g in range(len(state.lasting_tokens)):
        state.tokens_before[g] = state.lasting_tokens[g]
        state.count_before[g] = state.lasting_count[g]
    answer = 0
    if _fetch(state, admitted, retired):
        answer = _exchange(state, admitted, retired)
    _add_what_lasts(state)
    if answer == 0:
        move_on(state, steps)
    return answer


@kernel
def _fetch(state: Horizon, admitted: IntArray, retired: IntArray) -> bool:
    """Read from every slot concerned: reads in a row wait for memory together, not in turn."""
    total = 0
    for i in range(len(admitted)):
        total += state.place[admitted[i, 0]]
    for i in range(len(retired)):
        total += state.place[retired[i]]
    # Always so, which the compiler cannot know: it may not leave the reads out.
    return total >= 0


@kernel
def _exchange(state: Horizon, admitted: IntArray, retired: IntArray) -> int:
    """Admit and retire; what is present in the whole window is left to ``_add_what_lasts``."""
    for i in range(len(admitted)):
        if state.place[admitted[i, 0]] != ABSENT:
            return -1 - i
        _settle(state, admitted[i, 0], admitted[i, 1], admitted[i, 2], admitted[i, 3])
        _put(state, admitted[i, 0], LATER)
    for i in range(len(retired)):
        if state.place[retired[i]] == ABSENT:
            return 1 + i
        _take(state, retired[i], LATER)
    return 0


@kernel
def _add_what_lasts(state: Horizon) -> None:
    """One pass over a row for all changes that concern the whole window of its replica."""
    step, width = state.clock[0], len(state.heads) - 1
    first = step - state.clock[1]
    for g in range(len(state.lasting_tokens)):
        count = state.lasting_count[g] - state.count_before[g]
        weight = state.lasting_tokens[g] - state.tokens_before[g] + count * step
        if count != 0 or weight != 0:
            row = state.columns[g, first : first + width]
            for h in range(width):
                row[h] += weight + count * h


@kernel
def put_in(state: Horizon, slot: int, replica: int, tokens: int, finish: int) -> None:
    """Add a request that weighs ``tokens`` now and is predicted to leave at ``finish``."""
    _settle(state, slot, replica, tokens, finish)
    _put(state, slot, AT_ONCE)


@kernel
def take_out(state: Horizon, slot: int) -> None:
    """Take a finished or cancelled request out."""
    _take(state, slot, AT_ONCE)


@kernel
def _settle(state: Horizon, slot: int, replica: int, tokens: int, finish: int) -> None:
    state.replica[slot] = replica
    state.tokens_at_zero[slot] = tokens - state.clock[0]
    state.finish[slot] = finish


@kernel
def _take(state: Horizon, slot: int, when: int) -> None:
    end = state.clock[0] + len(state.heads) - 1
    place = state.place[slot]
    if place == INSIDE:
        _spread(state, slot, state.clock[0], state.finish[slot], -1)
    else:
        if when == AT_ONCE:
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
        _put(state, slot, AT_ONCE)


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
def _put(state: Horizon, slot: int, when: int) -> None:
    step, width = state.clock[0], len(state.heads) - 1
    finish = state.finish[slot]
    if step < finish < step + width:
        _spread(state, slot, step, finish, 1)
        state.place[slot] = INSIDE
        _link(state, slot, finish % width)
        return
    if when == AT_ONCE:
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
                _put(state, slot, AT_ONCE)
            else:
                _spread(state, slot, state.clock[0], state.finish[slot], 1)
            slot = following
