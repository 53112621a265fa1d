"""Subsets of a compiled tick's candidates, by ascending sum: candidate j is bit j of a mask.

The sums come out sorted by merging, one candidate at a time; equal sums are ordered by mask.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool
from brtheory.routers.fast_replica_kernels import Loads, room_on


class Scratch(NamedTuple):
    """Room for subsets: sums, masks and a merge of both, shape (2^R_max,); candidates (R_max,)."""

    sums: IntArray
    masks: IntArray
    other_sums: IntArray
    other_masks: IntArray
    chosen: IntArray


@entry_kernel
def scratch_for(most: int) -> Scratch:
    """Room for the subsets of ``most`` candidates."""
    return Scratch(
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(max(most, 1), np.int64),
    )


@kernel
def sorted_subsets(pool: Pool, candidates: int, scratch: Scratch) -> int:
    """Sums of all subsets in ascending order, equal ones by mask; their number, 2^candidates."""
    sums, masks = scratch.sums, scratch.masks
    others, other_masks = scratch.other_sums, scratch.other_masks
    sums[0] = 0
    masks[0] = 0
    count = 1
    for j in range(candidates):
        _merge(sums, masks, count, pool.prompts[scratch.chosen[j]], 1 << j, others, other_masks)
        count *= 2
        for i in range(count):
            sums[i] = others[i]
            masks[i] = other_masks[i]
    return count


@kernel
def allowed(
    pool: Pool, loads: Loads, replica: int, candidates: int, count: int, scratch: Scratch
) -> int:
    """Keep the non-empty subsets with a slot for each member and KV room; their number."""
    sums, masks, chosen = scratch.sums, scratch.masks, scratch.chosen
    limited, room, cap = len(loads.room) > 0, room_on(loads, replica), loads.cap[replica]
    kept = 0
    for i in range(count):
        mask = masks[i]
        if mask > 0 and _ones(mask) <= cap:
            needed = 0
            if limited:
                for j in range(candidates):
                    needed += pool.reserved[chosen[j]] if mask >> j & 1 else 0
            if not limited or needed <= room:
                sums[kept] = sums[i]
                masks[kept] = mask
                kept += 1
    return kept


@kernel
def keep_singles(count: int, scratch: Scratch) -> int:
    """Keep the subsets of one candidate; their number."""
    sums, masks = scratch.sums, scratch.masks
    kept = 0
    for i in range(count):
        mask = masks[i]
        if mask & (mask - 1) == 0:
            sums[kept] = sums[i]
            masks[kept] = mask
            kept += 1
    return kept


@kernel
def members(scratch: Scratch, candidates: int, mask: int) -> int:
    """Move the mask's candidates to the front of ``chosen``, by position; their number."""
    size = 0
    for j in range(candidates):
        if mask >> j & 1:
            position = scratch.chosen[j]
            i = size
            while i > 0 and scratch.chosen[i - 1] > position:
                scratch.chosen[i] = scratch.chosen[i - 1]
                i -= 1
            scratch.chosen[i] = position
            size += 1
    return size


@kernel
def _merge(
    sums: IntArray,
    masks: IntArray,
    count: int,
    prompt: int,
    bit: int,
    others: IntArray,
    other_masks: IntArray,
) -> None:
    """Merge the subsets with those that have one more candidate; equal sums by mask."""
    without, extended = 0, 0
    for i in range(2 * count):
        longer = sums[extended] + prompt
        # On equal sums the subset without the candidate has the smaller mask. The largest sum of
        # all has the candidate, so the extended ones are never used up before the last place.
        if without < count and sums[without] <= longer:
            others[i] = sums[without]
            other_masks[i] = masks[without]
            without += 1
        else:
            others[i] = longer
            other_masks[i] = masks[extended] | bit
            extended += 1


@kernel
def _ones(mask: int) -> int:
    ones = 0
    while mask > 0:
        mask &= mask - 1
        ones += 1
    return ones
