"""The vectorised tick of BR-0 and BR-H: numpy along the horizon, decisions equal the reference.

A choice costs two scores however many candidates there are (``fast_margins``). Replicas come from
a heap: the envelope is common to all margins, so an admission only lowers the key of the replica
it goes to.
"""

import heapq
from collections.abc import Sequence

from brtheory.core.fscore import ScoreWeights, check_token_limit
from brtheory.core.subsets import members, subset_masks
from brtheory.routers.fast_arrays import Decisions, TickArrays
from brtheory.routers.fast_candidates import Candidates, Fits, SortedPool, candidate_order
from brtheory.routers.fast_margins import make_margins
from brtheory.routers.params import BalanceRouteParams


def decide_numpy(
    arrays: TickArrays, params: BalanceRouteParams, weights: ScoreWeights
) -> Decisions:
    """Decide one tick of BR-0 or BR-H.

    Parameters
    ----------
    arrays
        The state; its rows have ``weights.horizon`` + 1 entries.
    params, weights
        As the reference's.

    Raises
    ------
    InputError
        If a load or the pool is beyond ``weights.token_limit``, as the reference.
    """
    return _Tick(arrays, params, weights).decide()


def check_limit(arrays: TickArrays, weights: ScoreWeights, *, highest: int) -> None:
    """Refuse what ``check_token_limit`` refuses, in its words.

    Parameters
    ----------
    arrays, weights
        As ``decide_numpy``.
    highest
        The largest projected load.

    Raises
    ------
    InputError
        If a load or the sum of the pool's prompts exceeds ``weights.token_limit``.
    """
    limit = weights.token_limit
    if highest > limit or arrays.pool_beyond(limit):
        rows = arrays.rows(weights.horizon)
        check_token_limit(rows.tolist(), arrays.prompt_tokens.tolist(), weights)


class _Tick:
    """One tick in progress."""

    def __init__(
        self, arrays: TickArrays, params: BalanceRouteParams, weights: ScoreWeights
    ) -> None:
        self._margins = make_margins(arrays.rows(weights.horizon), weights)
        check_limit(arrays, weights, highest=self._margins.highest)
        self._params = params
        self._arrays = arrays
        self._prompts = arrays.prompt_tokens
        self._cap: list[int] = arrays.free_slots.tolist()
        self._free = sum(self._cap)
        self._reserved = arrays.reserved_tokens
        self._room = None if arrays.free_tokens is None else arrays.free_tokens.tolist()
        self._taken: set[int] = set()
        self._heap = [self._entry(g) for g, cap in enumerate(self._cap) if cap > 0]
        heapq.heapify(self._heap)
        self._positions: list[int] = []
        self._replicas: list[int] = []
        self._stages: list[int] = []
        self._scores: list[int] = []

    def decide(self) -> Decisions:
        """Run both stages."""
        self._stage_1()
        self._stage_2()
        return Decisions(self._positions, self._replicas, self._stages, self._scores)

    def _stage_1(self) -> None:
        threshold = self._params.greedy_threshold
        greedy = len(self._cap) if threshold is None else threshold
        if self._free <= greedy or not self._waiting():
            return
        pool = SortedPool(self._prompts)
        while self._free > greedy and self._waiting():
            replica = self._heap[0][2]
            self._margins.focus(replica)
            position = self._best_single(pool, self._fits_on(replica))
            if position is None:
                self._close(replica)
            else:
                prompt = int(self._prompts[position])
                pool.take(position, prompt)
                self._admit((position,), replica, prompt, stage=1)

    def _stage_2(self) -> None:
        if self._free == 0 or not self._waiting():
            return
        order = candidate_order(self._prompts, self._params)
        candidates = Candidates(order, self._params.max_subset, taken=self._taken)
        while self._free > 0 and self._waiting():
            replica = self._heap[0][2]
            self._margins.focus(replica)
            first = candidates.first()
            sums = _subset_sums([int(self._prompts[p]) for p in first])
            mask = self._best_subset(first, sums, replica)
            if mask:
                chosen = sorted(first[j] for j in members(mask))
                candidates.take(chosen)
                self._admit(chosen, replica, sums[mask], stage=2)
            else:
                self._close(replica)

    def _waiting(self) -> int:
        return len(self._prompts) - len(self._taken)

    def _fits_on(self, replica: int) -> Fits | None:
        if self._room is None or self._reserved is None:
            return None
        room, reserved = self._room[replica], self._reserved
        return lambda position: bool(reserved[position] <= room)

    def _best_single(self, pool: SortedPool, fits: Fits | None) -> int | None:
        """Largest (F, prompt), or the longest prompt; ties to the older; None if none fits."""
        peak = self._margins.peak
        if self._params.stage1 == "longest":
            return pool.up_to(int(self._prompts.max()), fits)
        below, above = pool.up_to(peak, fits), pool.beyond(peak, fits)
        if below is None or above is None:
            return above if below is None else below
        score = self._margins.score
        gains = score(int(self._prompts[above])) >= score(int(self._prompts[below]))
        return above if gains else below

    def _best_subset(self, first: Sequence[int], sums: Sequence[int], replica: int) -> int:
        """Mask of the largest (F, Delta); of the singles if none gains; 0 if none has room."""
        masks: Sequence[int] = subset_masks(len(first), min(self._cap[replica], len(first)))
        if self._room is not None and self._reserved is not None:
            reserved = _subset_sums([int(self._reserved[p]) for p in first])
            room = self._room[replica]
            masks = [mask for mask in masks if reserved[mask] <= room]
        if not masks:
            return 0
        best = self._best_mask(masks, sums)
        if self._margins.score(sums[best]) > 0:
            return best
        return self._best_mask([mask for mask in masks if mask & (mask - 1) == 0], sums)

    def _best_mask(self, masks: Sequence[int], sums: Sequence[int]) -> int:
        peak, below, above = self._margins.peak, 0, 0
        for mask in masks:
            delta = sums[mask]
            if delta <= peak:
                below = mask if delta > sums[below] else below
            elif not above or delta < sums[above]:
                above = mask
        if not below or not above:
            return below or above
        score = self._margins.score
        return above if score(sums[above]) >= score(sums[below]) else below

    def _admit(self, positions: Sequence[int], replica: int, delta: int, *, stage: int) -> None:
        score = self._margins.score(delta)
        self._margins.admit(delta)
        self._cap[replica] -= len(positions)
        self._free -= len(positions)
        if self._room is not None and self._reserved is not None:
            self._room[replica] -= sum(int(self._reserved[p]) for p in positions)
        self._replace_top(replica)
        self._taken.update(positions)
        for position in positions:
            self._positions.append(position)
            self._replicas.append(replica)
            self._stages.append(stage)
            self._scores.append(score)

    def _close(self, replica: int) -> None:
        """Take the replica out of this tick."""
        self._free -= self._cap[replica]
        self._cap[replica] = 0
        heapq.heappop(self._heap)

    def _replace_top(self, replica: int) -> None:
        if self._cap[replica] > 0:
            heapq.heapreplace(self._heap, self._entry(replica))
        else:
            heapq.heappop(self._heap)

    def _entry(self, replica: int) -> tuple[int, int, int]:
        """Heap key: the largest (cap, margin) or (margin, cap), ties to the lower index."""
        load, cap = self._margins.present(replica), self._cap[replica]
        if self._params.key_order == "slots-first":
            return -cap, load, replica
        return load, -cap, replica


def _subset_sums(values: Sequence[int]) -> list[int]:
    """Sums by mask, entry 0 the empty one."""
    sums = [0]
    for value in values:
        sums += [value + total for total in sums]
    return sums
