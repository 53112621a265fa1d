"""Draws that depend on what they are for, never on when they are made.

Each draw is a hash of a seed and of what it decides (a prompt, a position), so that answers are the
same whatever the order in which concurrent requests happen to be served.
"""

from hashlib import blake2b

_MASK = (1 << 64) - 1


def mix(*parts: int) -> int:
    """Hash integers to 64 bits: splitmix64's finaliser, chained."""
    state = 0
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def unit(*parts: int) -> float:
    """Hash integers to a number in [0, 1) with 53 random bits."""
    return (mix(*parts) >> 11) / (1 << 53)


def digest(data: bytes) -> int:
    """Hash bytes to 64 bits."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
