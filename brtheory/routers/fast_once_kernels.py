"""One compiled tick from a state in arrays: build the pool, decide, hand back the decisions."""

# ruff: noqa: PLR0917, FBT001, FBT003  # compiled functions take positional arguments only

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel
from brtheory.routers.fast_oldest_kernels import fifo_tick, window_tick
from brtheory.routers.fast_pool_kernels import fill, make_pool
from brtheory.routers.fast_replica_kernels import as_out, make_loads
from brtheory.routers.fast_shortlist_kernels import WindowRule, make_shortlist
from brtheory.routers.fast_subset_kernels import scratch_for
from brtheory.routers.kernels import LARGEST, NEWEST, balance_tick, make_rules

FloatArray = NDArray[np.float64]
POOL_BEYOND_LIMIT = -2
"""The pool's prompts may sum to more than the limit: the caller looks closer."""


@entry_kernel
def balance_once(
    columns: IntArray,
    start: int,
    free_slots: IntArray,
    prompts: IntArray,
    reserved: IntArray,
    room: IntArray,
    weights: IntArray,
    options: IntArray,
    pool_limit: int,
) -> tuple[int, IntArray]:
    """Decide a tick of BR-0 or BR-H.

    ``options`` are the fields of ``Rules`` after the weights, in their order; ``reserved`` and
    ``room`` are empty where KV capacity is unlimited. Returns the number of admissions, or a
    negative answer, and their positions, replicas, stages and scores as rows.
    """
    rules = make_rules(weights, options)
    waiting, free = len(prompts), free_slots.sum()
    if waiting > 0 and prompts.max() > pool_limit // waiting:
        return POOL_BEYOND_LIMIT, np.empty((4, 1), np.int64)[:, :0]
    sort = free > rules.greedy or rules.order == LARGEST
    pool = make_pool(prompts, reserved, sort)
    # Without a sorted view nothing past the free slots and the candidates can be reached.
    reach = waiting if sort else min(waiting, free + rules.most)
    fill(pool, waiting - reach if rules.order == NEWEST else 0, reach)
    loads = make_loads(columns, start, free_slots, room, len(weights))
    rows = np.empty((4, min(waiting, free)), np.int64)
    count = balance_tick(pool, reach, loads, start, rules, scratch_for(rules.most), as_out(rows))
    return count, rows[:, : max(count, 0)]


@entry_kernel
def fifo_once(
    columns: IntArray,
    start: int,
    free_slots: IntArray,
    prompts: IntArray,
    reserved: IntArray,
    room: IntArray,
) -> tuple[int, IntArray]:
    """Decide a tick of the pooled FIFO; as ``balance_once``, positions and replicas count."""
    pool = make_pool(prompts, reserved, False)
    reach = min(len(prompts), free_slots.sum())
    fill(pool, 0, reach)
    loads = make_loads(columns, start, free_slots, room, 1)
    rows = np.empty((4, reach), np.int64)
    count = fifo_tick(pool, reach, loads, as_out(rows))
    return count, rows[:, :count]


@entry_kernel
def window_once(
    columns: IntArray,
    start: int,
    free_slots: IntArray,
    prompts: IntArray,
    reserved: IntArray,
    room: IntArray,
    ready_s: FloatArray,
    now_s: float,
    window: int,
    size_weight: float,
    overflow_weight: int,
    longest_first: bool,
    hold_s: float,
    wait_weight: float,
    longest_wait_s: float,
    mean_prompt: float,
    room_share: float,
) -> tuple[int, IntArray]:
    """Decide a tick of the window router; as ``fifo_once``."""
    pool = make_pool(prompts, reserved, False)
    free = free_slots.sum()
    reach = min(len(prompts), free + window)
    fill(pool, 0, reach)
    loads = make_loads(columns, start, free_slots, room, 1)
    rows = np.empty((4, min(reach, free)), np.int64)
    chosen = make_shortlist(min(window, len(prompts)))
    rule = WindowRule(
        window,
        size_weight,
        overflow_weight,
        longest_first,
        hold_s,
        wait_weight,
        longest_wait_s,
        mean_prompt,
        room_share,
    )
    count = window_tick(pool, reach, loads, ready_s, now_s, rule, chosen, as_out(rows))
    return count, rows[:, :count]
