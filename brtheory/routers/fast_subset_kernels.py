"""Subsets of a compiled tick's candidates by mask: candidate j is bit j."""

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool


class Scratch(NamedTuple):
    """Room for the subsets of at most R_max candidates.

    Parameters
    ----------
    sums, needs, sizes
        By mask, shape (2^R_max,): prompt tokens, reserved tokens, number of members.
    chosen
        The candidates, then the members of the chosen set, shape (R_max,).
    """

    sums: IntArray
    needs: IntArray
    sizes: IntArray
    chosen: IntArray


@entry_kernel
def scratch_for(most: int) -> Scratch:
    """Room for the subsets of ``most`` candidates."""
    by_mask = np.zeros((3, 1 << most), np.int64)
    sizes = by_mask[2]
    for j in range(most):
        for mask in range(1 << j):
            sizes[(1 << j) + mask] = sizes[mask] + 1
    return Scratch(by_mask[0], by_mask[1], sizes, np.empty(max(most, 1), np.int64))


@kernel
def add_up(pool: Pool, candidates: int, scratch: Scratch) -> None:
    """Sums of all subsets of the candidates; the empty one's are 0 from the start."""
    sums, needs, limited = scratch.sums, scratch.needs, len(pool.reserved) > 0
    for j in range(candidates):
        position = scratch.chosen[j]
        for mask in range(1 << j):
            sums[(1 << j) + mask] = sums[mask] + pool.prompts[position]
        if limited:
            for mask in range(1 << j):
                needs[(1 << j) + mask] = needs[mask] + pool.reserved[position]


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
