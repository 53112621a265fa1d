"""``bf-io``: the balancing rule of the companion paper, as its authors published it as a program.

One tick, over rows Lhat_g(h), h = 0 .. H, of which the pool's C oldest requests are candidates:

Stage 1, while S_tot > S_greedy: the replica with the most free slots, then the least load, takes
the candidate with the largest F, ties to the older.

Stage 2, while S_tot > 0: the replica with the least load at h = H, then at h = 0, is filled. With
m its smallest margin and k counting down from its free slots, the sum of exactly k candidates is

    the largest reachable one <= m, else the smallest one above m;

the k with the largest F counts, the largest k whose sum stays within m ends the search. If that F
is not above 0, the single candidate with the largest F is taken instead.

F is the horizon score with alpha = 1, beta = 43 and gamma = 0.86, here in integers (``fscore``).
Two readings of the program: its floats are fixed-point integers; its blend of present and last
projected load, whose weight of the present is below 1e-4 after the first second, is the last
projected load with the present one to settle ties. KV room, which it does not know: only
candidates with room are offered, and sets without it are passed over.

Reference: the program published with Chen et al. (2026), arXiv:2601.17855.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from brtheory.core.admission import Admission
from brtheory.core.cluster import IntArray
from brtheory.core.fscore import ScoreWeights, check_token_limit, horizon_weights
from brtheory.core.tick import TickState, check_state
from brtheory.errors import InputError
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.routers.fast_arrays import Decisions, TickArrays, pack
from brtheory.routers.params import BalanceFutureParams

BLOCK = 32


class BalanceFuture:
    """The rule as a pooled router.

    Parameters
    ----------
    params
        See ``BalanceFutureParams``.
    """

    def __init__(self, params: BalanceFutureParams) -> None:
        self.params = params

    @property
    def horizon(self) -> int:
        """H of the parameters."""
        return self.params.horizon

    @property
    def projection(self) -> ProjectionRules:
        """How predictions become projected loads."""
        return self.params.projection

    def weights(self, replicas: int) -> ScoreWeights:
        """Fixed-point score weights; beta follows the number of live replicas where it is None."""
        beta = self.params.overflow_weight
        return horizon_weights(
            horizon=self.horizon,
            discount=self.params.discount,
            reward_weight=1.0,
            overflow_weight=replicas if beta is None else beta,
        )

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick.

        Raises
        ------
        InputError
            If the state does not fit (``check_state``), holds numbers beyond the exact limits, or
            replicas differ in speed, which the program knows nothing of.
        """
        check_state(state, horizon=self.horizon)
        if state.paces is not None:
            raise InputError("bf-io", "replicas that are alike in speed", "unequal ones")
        weights = self.weights(len(state.loads))
        check_token_limit(state.loads, [r.prompt_tokens for r in state.pool], weights)
        arrays = pack(state)
        if arrays is None:
            raise InputError("free_slots or reserved tokens", "numbers of sane size", "larger ones")
        return self.decide(arrays).admissions(state.pool)

    def decide(self, arrays: TickArrays) -> Decisions:
        """Decide one tick on arrays, as ``ArrayRouter``.

        Raises
        ------
        InputError
            If a load or the pool is beyond the exact token limit.
        """
        weights = self.weights(len(arrays.free_slots))
        rows = arrays.rows(self.horizon)
        if max(rows.max(), 0) > weights.token_limit or arrays.pool_beyond(weights.token_limit):
            check_token_limit(rows.tolist(), arrays.prompt_tokens.tolist(), weights)
        return _Tick(arrays, self.params, weights).decide()


class Score:
    """F of one replica over its horizon: two searches a sum.

    Parameters
    ----------
    margins
        m_{g,h} >= 0, shape (H + 1,).
    weights
        Of the same horizon.
    """

    def __init__(self, margins: IntArray, weights: ScoreWeights) -> None:
        order = np.argsort(margins)
        prices = np.array(weights.overflow, dtype=np.int64)[order]
        self._margins = margins[order]
        self._price = np.concatenate(([0], np.cumsum(prices)))
        self._paid = np.concatenate(([0], np.cumsum(prices * self._margins)))
        self._reward = weights.reward

    @property
    def smallest(self) -> int:
        """The smallest margin: what fits without raising the envelope anywhere."""
        return int(self._margins[0])

    def of(self, deltas: IntArray) -> IntArray:
        """F of sums of prompt tokens, same shape."""
        passed = np.searchsorted(self._margins, deltas)
        over: IntArray = deltas * self._price[passed] - self._paid[passed]
        return self._reward * deltas - over

    def of_one(self, delta: int) -> int:
        """F of one sum."""
        return int(self.of(np.array([delta], dtype=np.int64))[0])


def best_set(prompts: Sequence[int], *, most: int, score: Score) -> list[int]:
    """The set stage 2 prefers before it looks at the sign of F.

    Parameters
    ----------
    prompts
        Prompt tokens of the candidates, oldest first, at least one, each >= 1.
    most
        Free slots, >= 1.
    score
        Of the replica.

    Returns
    -------
    list of int
        Positions, ascending.
    """
    room = score.smallest
    ascending = sorted(range(len(prompts)), key=lambda i: (prompts[i], -i))
    reach: _Reach | None = None
    best: tuple[int, list[int]] | None = None
    for count in range(min(most, len(prompts)), 0, -1):
        chosen = ascending[:count]
        within = sum(prompts[i] for i in chosen) <= room
        if within:
            # Of exactly k requests, sums above the margin only matter where none is within it.
            reach = _Reach(prompts, count, room) if reach is None else reach
            chosen = reach.largest(count)
        value = score.of_one(sum(prompts[i] for i in chosen))
        if best is None or value > best[0]:
            best = value, chosen
            if within:
                break
    return [] if best is None else sorted(best[1])


class _Reach:
    """Sums within a limit that exactly j of the first i candidates reach, as bits of integers.

    Every ``BLOCK``-th state is kept and the others are made again on the way back: with all of
    them, a tick over a thousand long prompts would need gigabytes.
    """

    def __init__(self, prompts: Sequence[int], most: int, limit: int) -> None:
        self._prompts = prompts
        # The k largest reach the greatest sum there is: no bit beyond it can be set.
        limit = min(limit, sum(sorted(prompts)[-most:]))
        self._mask = (1 << (limit + 1)) - 1
        self._kept: list[tuple[int, ...]] = []
        sums: tuple[int, ...] = (1, *([0] * most))
        for position, prompt in enumerate(prompts):
            if position % BLOCK == 0:
                self._kept.append(sums)
            sums = self._with(sums, prompt)
        self._sums = sums

    def largest(self, count: int) -> list[int]:
        """Positions of ``count`` candidates with the largest sum, the newest where sets tie."""
        rest, chosen = self._sums[count].bit_length() - 1, []
        for position, before in self._backwards():
            prompt = self._prompts[position]
            if count and rest >= prompt and before[count - 1] >> (rest - prompt) & 1:
                chosen.append(position)
                rest, count = rest - prompt, count - 1
        return chosen

    def _with(self, sums: tuple[int, ...], prompt: int) -> tuple[int, ...]:
        longer = ((less << prompt) & self._mask for less in sums[:-1])
        return (1, *(a | b for a, b in zip(sums[1:], longer, strict=True)))

    def _backwards(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each candidate's position and the sums before it, the newest candidate first."""
        for block in range(len(self._kept) - 1, -1, -1):
            first, before = block * BLOCK, [self._kept[block]]
            for prompt in self._prompts[first : first + BLOCK - 1]:
                before.append(self._with(before[-1], prompt))
            size = min(BLOCK, len(self._prompts) - first)
            yield from ((first + i, before[i]) for i in range(size - 1, -1, -1))


class _Placed(NamedTuple):
    position: int
    replica: int
    stage: int
    score: int


class _Tick:
    """One tick in progress."""

    def __init__(
        self, arrays: TickArrays, params: BalanceFutureParams, weights: ScoreWeights
    ) -> None:
        self._rows = arrays.rows(weights.horizon).copy()
        self._envelope = self._rows.max(axis=0)
        self._cap = arrays.free_slots.copy()
        self._prompts = arrays.prompt_tokens
        self._reserved = arrays.reserved_tokens
        self._room = None if arrays.free_tokens is None else arrays.free_tokens.copy()
        self._waiting = np.ones(len(self._prompts), dtype=np.bool_)
        self._params, self._weights = params, weights

    def decide(self) -> Decisions:
        placed = [*self._stage_1(), *self._stage_2()]
        columns = list(zip(*placed, strict=True)) or [(), (), (), ()]
        return Decisions(*columns)

    def _stage_1(self) -> Iterator[_Placed]:
        while self._cap.sum() > self._params.greedy_threshold and self._waiting.any():
            replica = int(np.lexsort((self._rows[:, 0], -self._cap))[0])
            candidates = self._candidates(replica)
            if len(candidates):
                yield from self._admit([self._single(candidates, replica)], replica, stage=1)
            else:
                self._cap[replica] = 0

    def _stage_2(self) -> Iterator[_Placed]:
        while self._cap.any() and self._waiting.any():
            keys = (self._rows[:, 0], self._rows[:, -1], self._cap == 0)
            replica = int(np.lexsort(keys)[0])
            candidates = self._candidates(replica)
            if len(candidates):
                yield from self._admit(self._set(candidates, replica), replica, stage=2)
            else:
                self._cap[replica] = 0

    def _candidates(self, replica: int) -> IntArray:
        """The oldest of the waiting requests, those with KV room on the replica."""
        oldest: IntArray = np.flatnonzero(self._waiting)[: self._params.candidates]
        if self._room is not None and self._reserved is not None:
            oldest = oldest[self._reserved[oldest] <= self._room[replica]]
        return oldest

    def _score(self, replica: int) -> Score:
        return Score(self._envelope - self._rows[replica], self._weights)

    def _single(self, candidates: IntArray, replica: int) -> int:
        """The candidate with the largest F, ties to the older."""
        return int(candidates[self._score(replica).of(self._prompts[candidates]).argmax()])

    def _set(self, candidates: IntArray, replica: int) -> list[int]:
        """The best set with KV room, or the best single one where no set gains."""
        score = self._score(replica)
        prompts: list[int] = self._prompts[candidates].tolist()
        for most in range(int(self._cap[replica]), 0, -1):
            chosen: IntArray = candidates[best_set(prompts, most=most, score=score)]
            if self._fits(chosen, replica):
                if score.of_one(int(self._prompts[chosen].sum())) > 0:
                    return [int(position) for position in chosen]
                break
        return [self._single(candidates, replica)]

    def _fits(self, chosen: IntArray, replica: int) -> bool:
        if self._room is None or self._reserved is None:
            return True
        return bool(self._reserved[chosen].sum() <= self._room[replica])

    def _admit(self, positions: list[int], replica: int, *, stage: int) -> Iterator[_Placed]:
        delta = int(self._prompts[positions].sum())
        value = self._score(replica).of_one(delta)
        self._rows[replica] += delta
        np.maximum(self._envelope, self._rows[replica], out=self._envelope)
        self._cap[replica] -= len(positions)
        self._waiting[positions] = False
        if self._room is not None and self._reserved is not None:
            self._room[replica] -= self._reserved[positions].sum()
        for position in positions:
            yield _Placed(position, replica, stage, value)
