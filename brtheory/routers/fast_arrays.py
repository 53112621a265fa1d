"""A tick's state and decisions as arrays: what the numpy and compiled ticks work on.

``pack`` makes them from a ``TickState``; simulator and proxy, which keep arrays anyway, hand them
over directly and spare the lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.admission import Admission
from brtheory.core.cluster import IntArray
from brtheory.core.fscore import LOAD_LIMIT
from brtheory.core.requests import Request
from brtheory.core.tick import TickState

SLOT_LIMIT = 2**40
RESERVE_LIMIT = 2**57
"""Slots and reserved tokens beyond these stay with the reference: their sums could overflow."""


@dataclass(frozen=True, slots=True)
class TickArrays:
    """What a pooled router sees in one tick, without Python objects; nothing here is changed.

    Parameters
    ----------
    columns
        Shape (G, C), int64, C-contiguous: row g holds Lhat_g(h) at columns ``start`` + h.
    free_slots
        Shape (G,), int64, >= 0.
    prompt_tokens
        Shape (P,), int64, >= 1: the pool, oldest first.
    total_prompt_tokens
        Their sum, where the caller keeps it; None to have it summed up.
    start
        Column of h = 0 (``HorizonState.columns`` and ``.start`` fit as they are).
    ready_s
        Shape (P,), float64; None where the router looks at no waits.
    now_s
        The clock.
    reserved_tokens, free_tokens
        Shapes (P,) and (G,), int64; both None where KV capacity is unlimited.
    """

    columns: IntArray
    free_slots: IntArray
    prompt_tokens: IntArray
    total_prompt_tokens: int | None = None
    start: int = 0
    ready_s: NDArray[np.float64] | None = None
    now_s: float = 0.0
    reserved_tokens: IntArray | None = None
    free_tokens: IntArray | None = None

    def pool_beyond(self, limit: int) -> bool:
        """Whether the pool's prompts may sum to more than ``limit``: the exact check decides.

        Without a given total the sum is one of floats, which cannot wrap around.
        """
        if self.total_prompt_tokens is not None:
            return self.total_prompt_tokens > limit
        return float(self.prompt_tokens.sum(dtype=np.float64)) > limit * (1 - 2**-20)

    def rows(self, horizon: int) -> IntArray:
        """Projected loads, shape (G, H + 1), a view."""
        return self.columns[:, self.start : self.start + horizon + 1]


# Not frozen: a small tick would spend a tenth of its time on the four guarded assignments.
@dataclass(slots=True)
class Decisions:
    """Admissions of one tick, in decision order; the sequences have one entry per admission.

    Parameters
    ----------
    positions
        Index of each admitted request in the pool.
    replicas
        Where it goes.
    stages, scores
        As in ``Admission``; None for routers without them.
    """

    positions: Sequence[int] | IntArray
    replicas: Sequence[int] | IntArray
    stages: Sequence[int] | IntArray | None = None
    scores: Sequence[int] | IntArray | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def lists(self) -> tuple[Sequence[int], Sequence[int]]:
        """Positions and replicas as Python integers."""
        return _listed(self.positions), _listed(self.replicas)

    def admissions(self, pool: Sequence[Request]) -> list[Admission]:
        """The decisions as admissions of the pool's requests."""
        return [
            Admission(pool[position].id, replica, stage, score)
            for position, replica, stage, score in zip(
                *self.lists(),
                self._or_none(self.stages),
                self._or_none(self.scores),
                strict=True,
            )
        ]

    def _or_none(self, values: Sequence[int] | IntArray | None) -> Sequence[int | None]:
        return [None] * len(self) if values is None else _listed(values)


def pack(state: TickState) -> TickArrays | None:
    """Arrays of a checked state, None where they cannot hold it: numbers too large, unequal speeds.

    The reference decides what is not packed.
    """
    pool, limited = list(state.pool), state.free_tokens is not None
    reserved = [request.reserved_tokens for request in pool] if limited else []
    room = [] if state.free_tokens is None else list(state.free_tokens)
    highest = max(max(row) for row in state.loads)
    if (
        state.paces is not None
        or max(state.free_slots) > SLOT_LIMIT
        or _largest(reserved + room) > RESERVE_LIMIT
        or max(highest, sum(request.prompt_tokens for request in pool)) > LOAD_LIMIT
    ):
        return None
    return TickArrays(
        columns=np.array(state.loads, dtype=np.int64),
        free_slots=np.array(state.free_slots, dtype=np.int64),
        prompt_tokens=np.array([request.prompt_tokens for request in pool], dtype=np.int64),
        ready_s=np.array([request.ready_s for request in pool], dtype=np.float64),
        now_s=state.now_s,
        reserved_tokens=np.array(reserved, dtype=np.int64) if limited else None,
        free_tokens=np.array(room, dtype=np.int64) if limited else None,
    )


def _listed(values: Sequence[int] | IntArray) -> Sequence[int]:
    """Python integers."""
    listed: Sequence[int] = values.tolist() if isinstance(values, np.ndarray) else values
    return listed


def _largest(values: Sequence[int]) -> int:
    return max((abs(value) for value in values), default=0)
