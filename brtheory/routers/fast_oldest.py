"""Vectorised ticks of the routers that look at the oldest requests: pooled FIFO and window."""

import heapq
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.fast_arrays import Decisions, TickArrays
from brtheory.routers.params import WindowParams
from brtheory.routers.window import (
    LARGEST_BONUS,
    Patience,
    check_window_limit,
    least_room,
    window_token_limit,
)

FloatArray = NDArray[np.float64]


def decide_fifo_numpy(arrays: TickArrays) -> Decisions:
    """Decide one tick of the pooled FIFO: oldest first, largest (free slots, margin)."""
    if arrays.reserved_tokens is not None and arrays.free_tokens is not None:
        return _fifo_with_room(arrays, arrays.reserved_tokens, arrays.free_tokens.copy())
    loads, caps = arrays.columns[:, arrays.start].tolist(), arrays.free_slots.tolist()
    heap = [(-cap, loads[g], g) for g, cap in enumerate(caps) if cap > 0]
    heapq.heapify(heap)
    replicas: list[int] = []
    for prompt in arrays.prompt_tokens[: sum(caps)].tolist():
        cap, load, replica = heap[0]
        replicas.append(replica)
        if cap < -1:
            heapq.heapreplace(heap, (cap + 1, load + prompt, replica))
        else:
            heapq.heappop(heap)
    return Decisions(range(len(replicas)), replicas)


def decide_window_numpy(arrays: TickArrays, params: WindowParams, patience: Patience) -> Decisions:
    """Decide one tick of the window router.

    Raises
    ------
    InputError
        If a load or the pool is beyond ``window_token_limit``, as the reference.
    """
    check_limit(arrays, params)
    return _WindowTick(arrays, params, patience).decide()


def check_limit(arrays: TickArrays, params: WindowParams) -> None:
    """Refuse what ``check_window_limit`` refuses, in its words.

    Raises
    ------
    InputError
        If a load or the sum of the pool's prompts exceeds ``window_token_limit``.
    """
    loads = arrays.rows(0)
    limit = window_token_limit(len(loads), params)
    if int(loads.max()) > limit or arrays.pool_beyond(limit):
        check_window_limit(loads.tolist(), arrays.prompt_tokens.tolist(), params)


class _WindowTick:
    """One tick in progress; the arrays hold the requests that can still be reached."""

    def __init__(self, arrays: TickArrays, params: WindowParams, patience: Patience) -> None:
        reserved, room = arrays.reserved_tokens, arrays.free_tokens
        self._room = None if room is None else room.tolist()
        self._least_room = 0
        self._cap: list[int] = arrays.free_slots.tolist()
        if reserved is not None and self._room is not None:
            self._least_room = least_room(reserved[: params.window].tolist(), params)
            pairs = zip(self._cap, self._room, strict=True)
            self._cap = [cap if free >= self._least_room else 0 for cap, free in pairs]
        self._free = sum(self._cap)
        reach = slice(0, min(len(arrays.prompt_tokens), self._free + params.window))
        self._reserved = None if reserved is None else reserved[reach]
        wait_s = _waits(arrays)[reach]
        self._params = params
        self._prompts = arrays.prompt_tokens[reach]
        self._bonus = wait_bonuses(
            wait_s, size_factors(self._prompts, patience, params) * patience.wait_weight
        )
        self._overdue = wait_s > patience.longest_wait_s
        self._young = wait_s < patience.hold_s
        self._loads: list[int] = arrays.columns[:, arrays.start].tolist()
        self._total = sum(self._loads)
        self._peak = max(self._loads)
        full = [load for load, cap in zip(self._loads, self._cap, strict=True) if cap == 0]
        self._lightest_full = min(full, default=sys.maxsize)
        self._waiting: IntArray = np.arange(len(self._prompts))
        self._beyond = len(arrays.prompt_tokens) - len(self._prompts)
        self._heap = [(self._loads[g], g) for g, cap in enumerate(self._cap) if cap > 0]
        heapq.heapify(self._heap)

    def decide(self) -> Decisions:
        """Serve the least-loaded open replica until slots or requests run out."""
        positions: list[int] = []
        replicas: list[int] = []
        while self._free > 0 and len(self._waiting):
            replica = self._heap[0][1]
            position = self._choose(self._fitting(replica), replica)
            if position is None:
                self._free -= self._cap[replica]
                self._leave(replica)
            else:
                self._admit(position, replica)
                positions.append(position)
                replicas.append(replica)
        return Decisions(positions, replicas)

    def _fitting(self, replica: int) -> IntArray:
        oldest = self._waiting[: self._params.window]
        if self._reserved is None or self._room is None:
            return oldest
        fitting: IntArray = oldest[self._reserved[oldest] <= self._room[replica]]
        return fitting

    def _choose(self, oldest: IntArray, replica: int) -> int | None:
        overdue = self._overdue[oldest]
        if overdue.any():
            return int(oldest[overdue.argmax()])
        load, prompts = self._loads[replica], self._prompts[oldest]
        overflow = np.maximum(prompts - (self._peak - load), 0)
        if self._lightest_full < load:
            offered = (overflow == 0) | ~self._young[oldest]
            oldest, prompts, overflow = oldest[offered], prompts[offered], overflow[offered]
        if not len(oldest):
            return None
        spare = len(self._waiting) + self._beyond <= self._free
        if spare and self._params.spare_order == "longest":
            return int(oldest[prompts.argmax()])
        room = (self._total - load) // max(len(self._loads) - 1, 1) - load
        cost = np.abs(prompts - room) + self._params.overflow_weight * overflow
        key = self._bonus[oldest] - cost
        ties = np.flatnonzero(key == key.max())
        return int(oldest[ties[prompts[ties].argmax()]])

    def _admit(self, position: int, replica: int) -> None:
        prompt = int(self._prompts[position])
        self._waiting = self._waiting[self._waiting != position]
        self._loads[replica] += prompt
        self._total += prompt
        self._peak = max(self._peak, self._loads[replica])
        self._cap[replica] -= 1
        self._free -= 1
        if self._reserved is not None and self._room is not None:
            self._room[replica] -= int(self._reserved[position])
            if self._room[replica] < self._least_room:
                self._free -= self._cap[replica]
                self._cap[replica] = 0
        if self._cap[replica] > 0:
            heapq.heapreplace(self._heap, (self._loads[replica], replica))
        else:
            self._leave(replica)

    def _leave(self, replica: int) -> None:
        """The replica on top has no slot to offer any more."""
        heapq.heappop(self._heap)
        self._lightest_full = min(self._lightest_full, self._loads[replica])


def size_factors(prompts: IntArray, patience: Patience, params: WindowParams) -> FloatArray:
    """``window.size_factor`` of each prompt, shape (P,)."""
    if params.size_weight == 0 or patience.mean_prompt == 0:
        return np.ones(len(prompts))
    beyond = prompts.astype(np.float64) / patience.mean_prompt - 1.0
    factors: FloatArray = 1.0 + params.size_weight * np.maximum(beyond, 0.0)
    return factors


def wait_bonuses(wait_s: FloatArray, weights: FloatArray) -> IntArray:
    """``window.wait_bonus`` of each wait, shape (P,), int64."""
    product = np.clip(weights * wait_s, -LARGEST_BONUS, LARGEST_BONUS)
    return np.floor(product).astype(np.int64)


def _waits(arrays: TickArrays) -> FloatArray:
    if arrays.ready_s is None:
        return np.zeros(len(arrays.prompt_tokens))
    return arrays.now_s - arrays.ready_s


def _fifo_with_room(arrays: TickArrays, reserved: IntArray, room: IntArray) -> Decisions:
    loads, cap = arrays.columns[:, arrays.start].copy(), arrays.free_slots.copy()
    replicas: list[int] = []
    for prompt, needed in zip(arrays.prompt_tokens.tolist(), reserved.tolist(), strict=True):
        open_replicas = np.flatnonzero((cap > 0) & (room >= needed))
        if not len(open_replicas):
            break
        replica = _first_replica(open_replicas.tolist(), cap, loads)
        cap[replica] -= 1
        room[replica] -= needed
        loads[replica] += prompt
        replicas.append(replica)
    return Decisions(range(len(replicas)), replicas)


def _first_replica(open_replicas: Sequence[int], cap: IntArray, loads: IntArray) -> int:
    """Largest (free slots, margin), ties to the lower index."""
    return min(open_replicas, key=lambda g: (-cap[g], loads[g]))
