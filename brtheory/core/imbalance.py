"""Imbalance of one step: I = G*M - sum_g L_g, with M the peak load (Eq. 1 of the paper).

All functions accept any ordered number type, so that proofs run the very same code on symbols.
"""

from collections.abc import Sequence


def peak(loads: Sequence[int]) -> int:
    """M = max_g L_g, in KV tokens; ``loads`` has one entry per replica, G >= 1."""
    return max(loads)


def margins(loads: Sequence[int]) -> list[int]:
    """m_g = M - L_g >= 0 for every replica, in KV tokens."""
    top = peak(loads)
    return [top - load for load in loads]


def imbalance(loads: Sequence[int]) -> int:
    """I = G*M - sum_g L_g = sum_g m_g >= 0, in KV tokens: what the step wastes at the barrier."""
    return len(loads) * peak(loads) - sum(loads)


def spread(loads: Sequence[int]) -> int:
    """max_g L_g - min_g L_g, which some readers of the paper call the average imbalance."""
    return peak(loads) - min(loads)
