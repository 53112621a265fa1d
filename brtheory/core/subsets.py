"""Subsets of a short candidate list as bit masks: candidate j is bit j."""

from functools import cache


@cache
def subset_masks(candidates: int, largest: int) -> tuple[int, ...]:
    """All non-empty masks over ``candidates`` bits with at most ``largest`` bits, ascending."""
    return tuple(mask for mask in range(1, 1 << candidates) if mask.bit_count() <= largest)


@cache
def members(mask: int) -> tuple[int, ...]:
    """Candidate indices in ``mask``, ascending (oldest first)."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
