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
    LOAD_ONLY,
    SLOTS_FIRST,
    Loads,
    Out,
    close_top,
    open_heap,
    room_on,
    settle_top,
)

FloatArray = NDArray[np.float64]
LARGEST_BONUS = 2.0**62


class Memory(NamedTuple):
    """What the window router remembers of the last admitted requests.

    Parameters
    ----------
    waits, prompts
        Ring buffers, shape (memory,).
    ordered
        The remembered waits in ascending order, shape (memory,).
    state
        Requests remembered, next place in the ring, sum of the remembered prompts.
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
    wait_weight: float,
    longest_wait_s: float,
    window: int,
    out: Out,
) -> int:
    """Decide a tick of the window router; number of admissions."""
    size = open_heap(loads, LOAD_ONLY)
    count, total = 0, 0
    for g in range(len(loads.cap)):
        total += loads.present[g]
    while size > 0 and count < waiting:
        replica = loads.heap[0]
        load = loads.present[replica]
        gap = (total - load) // max(len(loads.cap) - 1, 1) - load
        position = _best_in_window(
            pool, room_on(loads, replica), gap, ready_s, now_s, wait_weight, longest_wait_s, window
        )
        if position < 0:
            size = close_top(loads, LOAD_ONLY, size)
            continue
        total += pool.prompts[position]
        _serve(pool, loads, replica, position, out, count)
        size = settle_top(loads, LOAD_ONLY, size)
        count += 1
    return count


@entry_kernel
def make_memory(memory: int) -> Memory:
    """An empty memory of ``memory`` requests."""
    return Memory(
        np.empty(memory, np.float64),
        np.empty(memory, np.int64),
        np.empty(memory, np.float64),
        np.zeros(3, np.int64),
    )


@kernel
def remember(memory: Memory, prompt: int, wait_s: float) -> None:
    """Add an admitted request, and forget the oldest one beyond the memory."""
    known, place = memory.state[0], memory.state[1]
    hole = known
    if known == len(memory.waits):
        memory.state[2] -= memory.prompts[place]
        hole = _place_of(memory.ordered, known, memory.waits[place])
    else:
        memory.state[0] += 1
    memory.waits[place] = wait_s
    memory.prompts[place] = prompt
    memory.state[1] = (place + 1) % len(memory.waits)
    memory.state[2] += prompt
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
def learned_weight(memory: Memory) -> float:
    """Mean prompt / median wait, 0 until a positive median wait is known."""
    median = median_wait(memory)
    if median <= 0.0:
        return 0.0
    mean_prompt = float(memory.state[2]) / float(memory.state[0])
    return mean_prompt / median


@kernel
def _best_in_window(
    pool: Pool,
    room: int,
    gap: int,
    ready_s: FloatArray,
    now_s: float,
    wait_weight: float,
    longest_wait_s: float,
    window: int,
) -> int:
    end, position, best, best_key = len(pool.prompts), oldest(pool), -1, 0
    for _ in range(window):
        if position == end:
            break
        if len(pool.reserved) == 0 or pool.reserved[position] <= room:
            wait_s, prompt = now_s - ready_s[position], pool.prompts[position]
            if wait_s > longest_wait_s:
                return position
            bonus = np.floor(min(max(wait_weight * wait_s, -LARGEST_BONUS), LARGEST_BONUS))
            key = int(bonus) - abs(prompt - gap)
            if best < 0 or key > best_key or (key == best_key and prompt > pool.prompts[best]):
                best, best_key = position, key
        position = pool.after[position]
    return best


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
