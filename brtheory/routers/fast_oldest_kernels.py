"""Compiled ticks of the routers that look at the oldest requests: pooled FIFO and window.

The window router's memory is a ring of the last waits and prompts beside the waits in ascending
order; replacing one wait by another shifts only what lies between the two.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool, oldest, remove
from brtheory.routers.fast_replica_kernels import (
    INT64_MAX,
    LOAD_ONLY,
    SLOTS_FIRST,
    Loads,
    Out,
    open_heap,
    room_on,
    settle_top,
)
from brtheory.routers.fast_shortlist_kernels import (
    Offer,
    Shortlist,
    WindowRule,
    best_place,
    enlist,
    least_room,
    strike,
)

FloatArray = NDArray[np.float64]
LONGEST_WAIT_US = 2.0**46


class Memory(NamedTuple):
    """What the window router remembers of the last admitted requests.

    Parameters
    ----------
    waits, prompts
        Ring buffers, shape (memory,).
    ordered
        The remembered waits in ascending order, shape (memory,).
    state
        Requests remembered, next place in the ring, sum of the remembered prompts, sum of the
        remembered waits in microseconds.
    """

    waits: FloatArray
    prompts: IntArray
    ordered: FloatArray
    state: IntArray


@kernel
def fifo_tick(pool: Pool, waiting: int, loads: Loads, out: Out) -> int:
    """Decide a tick of the pooled FIFO; number of admissions."""
    size = open_heap(loads, SLOTS_FIRST)
    count = 0
    while size > 0 and count < waiting:
        position = oldest(pool)
        if len(loads.room) == 0:
            replica = loads.heap[0]
            _serve(pool, loads, replica, position, out, count)
            size = settle_top(loads, SLOTS_FIRST, size)
        else:
            # A replica without room for this request may have room for the next: no heap.
            replica = _first_with_room(loads, pool.reserved[position])
            if replica < 0:
                break
            _serve(pool, loads, replica, position, out, count)
        count += 1
    return count


@kernel
def window_tick(
    pool: Pool,
    waiting: int,
    loads: Loads,
    ready_s: FloatArray,
    now_s: float,
    rule: WindowRule,
    chosen: Shortlist,
    out: Out,
) -> int:
    """Decide a tick of the window router; number of admissions."""
    enlist(chosen, pool, ready_s, now_s, rule)
    needed = least_room(chosen, rule.room_share)
    for g in range(len(loads.cap)):
        _close_without(needed, loads, g)
    size = open_heap(loads, LOAD_ONLY)
    count, total, free, peak, lightest_full = 0, 0, 0, 0, INT64_MAX
    for g in range(len(loads.cap)):
        total += loads.present[g]
        free += loads.cap[g]
        peak = max(peak, loads.present[g])
        if loads.cap[g] == 0:
            lightest_full = min(lightest_full, loads.present[g])
    while size > 0 and count < waiting:
        replica = loads.heap[0]
        load = loads.present[replica]
        offer = Offer(
            room_on(loads, replica),
            (total - load) // max(len(loads.cap) - 1, 1) - load,
            peak - load,
            len(loads.room) > 0,
            lightest_full < load,
            rule.longest_first and waiting - count <= free,
        )
        place = best_place(chosen, rule.overflow_weight, offer)
        if place >= 0:
            position = chosen.positions[place]
            total += pool.prompts[position]
            free -= 1
            _serve(pool, loads, replica, position, out, count)
            strike(chosen, place, pool, ready_s, now_s, rule)
            count += 1
        else:
            free -= loads.cap[replica]
            loads.cap[replica] = 0
        free -= _close_without(needed, loads, replica)
        load = loads.present[replica]
        peak = max(peak, load)
        if loads.cap[replica] == 0:
            lightest_full = min(lightest_full, load)
        size = settle_top(loads, LOAD_ONLY, size)
    return count


@entry_kernel
def make_memory(memory: int) -> Memory:
    """An empty memory of ``memory`` requests."""
    return Memory(
        np.empty(memory, np.float64),
        np.empty(memory, np.int64),
        np.empty(memory, np.float64),
        np.zeros(4, np.int64),
    )


@kernel
def remember(memory: Memory, prompt: int, wait_s: float) -> None:
    """Add an admitted request, and forget the oldest one beyond the memory."""
    known, place = memory.state[0], memory.state[1]
    hole = known
    if known == len(memory.waits):
        memory.state[2] -= memory.prompts[place]
        memory.state[3] -= _microseconds(memory.waits[place])
        hole = _place_of(memory.ordered, known, memory.waits[place])
    else:
        memory.state[0] += 1
    memory.waits[place] = wait_s
    memory.prompts[place] = prompt
    memory.state[1] = (place + 1) % len(memory.waits)
    memory.state[2] += prompt
    memory.state[3] += _microseconds(wait_s)
    while hole > 0 and memory.ordered[hole - 1] > wait_s:
        memory.ordered[hole] = memory.ordered[hole - 1]
        hole -= 1
    while hole + 1 < memory.state[0] and memory.ordered[hole + 1] < wait_s:
        memory.ordered[hole] = memory.ordered[hole + 1]
        hole += 1
    memory.ordered[hole] = wait_s


@kernel
def median_wait(memory: Memory) -> float:
    """Lower median of the remembered waits, 0 where nothing is remembered."""
    known = memory.state[0]
    return float(memory.ordered[(known - 1) // 2]) if known > 0 else 0.0


@kernel
def mean_wait(memory: Memory) -> float:
    """Mean of the remembered waits in seconds, 0 where nothing is remembered."""
    known = memory.state[0]
    return float(memory.state[3]) / (1e6 * float(known)) if known > 0 else 0.0


@kernel
def _microseconds(wait_s: float) -> int:
    return int(min(max(wait_s * 1e6, -LONGEST_WAIT_US), LONGEST_WAIT_US))


@kernel
def mean_prompt(memory: Memory) -> float:
    """Mean of the remembered prompts, 0 where nothing is remembered."""
    known = memory.state[0]
    return float(memory.state[2]) / float(known) if known > 0 else 0.0


@kernel
def learned_weight(memory: Memory) -> float:
    """Mean prompt / mean wait, 0 until a positive mean wait is known."""
    mean = mean_wait(memory)
    return mean_prompt(memory) / mean if mean > 0.0 else 0.0


@kernel
def _close_without(needed: int, loads: Loads, replica: int) -> int:
    """Take the replica out of this tick where it has not so much KV free; the slots it had."""
    cap = int(loads.cap[replica])
    if len(loads.room) == 0 or loads.room[replica] >= needed:
        return 0
    loads.cap[replica] = 0
    return cap


@kernel
def _serve(pool: Pool, loads: Loads, replica: int, position: int, out: Out, count: int) -> None:
    out.position[count] = position
    out.replica[count] = replica
    loads.cap[replica] -= 1
    loads.present[replica] += pool.prompts[position]
    if len(loads.room) > 0:
        loads.room[replica] -= pool.reserved[position]
    remove(pool, position)


@kernel
def _first_with_room(loads: Loads, needed: int) -> int:
    """Largest (free slots, margin) among the replicas with a slot and KV room, -1 if none."""
    best, best_cap, best_load = -1, 0, 0
    for g in range(len(loads.cap)):
        cap, load = loads.cap[g], loads.present[g]
        better = best < 0 or cap > best_cap or (cap == best_cap and load < best_load)
        if cap > 0 and loads.room[g] >= needed and better:
            best, best_cap, best_load = g, cap, load
    return best


@kernel
def _place_of(ascending: FloatArray, known: int, value: float) -> int:
    """First place of a value that is there."""
    low, high = 0, known
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
