"""The routers' decisions by their definitions: slow, stateless where they are, sharing no code.

Written from the model's page, not from the routers: margins are computed afresh for every option,
all options are listed, and the largest key wins with ties to the first.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeVar

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams, HorizonParams, WindowParams

Set = tuple[Request, ...]
Option = TypeVar("Option")


@dataclass
class Books:
    """What a tick may change: rows of projected loads, slots, room and the requests left."""

    rows: list[list[int]]
    slots: list[int]
    room: list[float]
    pool: list[Request]

    @staticmethod
    def of(state: TickState) -> "Books":
        room = state.free_tokens
        return Books(
            [list(row) for row in state.loads],
            list(state.free_slots),
            [math.inf] * len(state.loads) if room is None else list(room),
            list(state.pool),
        )

    def fits(self, chosen: Set, g: int) -> bool:
        return sum(r.reserved_tokens for r in chosen) <= self.room[g]

    def take(self, chosen: Set, g: int) -> None:
        self.rows[g] = [load + _tokens(chosen) for load in self.rows[g]]
        self.slots[g] -= len(chosen)
        self.room[g] -= sum(r.reserved_tokens for r in chosen)
        self.pool = [r for r in self.pool if r not in chosen]

    def margins(self, g: int) -> list[int]:
        return [
            max(row[h] for row in self.rows) - self.rows[g][h] for h in range(len(self.rows[g]))
        ]

    def open(self) -> list[int]:
        return [g for g, free in enumerate(self.slots) if free > 0]


def slow_balance_route(
    state: TickState, params: BalanceRouteParams
) -> list[tuple[int, int, int, int]]:
    """One tick of BR-0 or BR-H as (id, replica, stage, score); G is the number of rows."""
    books, decided = Books.of(state), []
    count = len(books.rows)
    greedy = count if params.greedy_threshold is None else params.greedy_threshold
    while books.pool and sum(books.slots) > 0:
        stage = 1 if sum(books.slots) > greedy else 2
        g = _first_best(books.open(), lambda g: _replica_key(books, g, params))
        score = _scorer(params, books.margins(g), count)
        options = list(_options(books, params, g, stage=stage))
        if not options:
            books.slots[g] = 0
            continue
        if stage == 1 and params.stage1 == "longest":
            best = _first_best(options, _tokens)
        else:
            best = _best_by_score(options, score)
        value = score(_tokens(best))
        decided += [(r.id, g, stage, value) for r in books.pool if r in best]
        books.take(best, g)
    return decided


@dataclass
class SlowWindow:
    """The window router, which remembers what it admitted."""

    params: WindowParams
    admitted: list[tuple[int, float]] = field(default_factory=list)

    def tick(self, state: TickState) -> list[tuple[int, int]]:
        """One tick as (id, replica)."""
        books, decided, learned = Books.of(state), [], []
        rate, limit, mean = self._rate(), self._limit(), self._mean()
        hold_s = self.params.hold_s if 2 * self._mean_wait() <= self.params.hold_s else 0.0
        while books.pool and sum(books.slots) > 0:
            g = _first_best(books.open(), lambda g: -books.rows[g][0])
            options = [r for r in books.pool[: self.params.window] if books.fits((r,), g)]
            late = [r for r in options if state.now_s - r.ready_s > limit]
            young = {r.id for r in options if state.now_s - r.ready_s < hold_s}
            options = late[:1] or [
                r for r in options if r.id not in young or not self._to_wait(r, g, books)
            ]
            if not options:
                books.slots[g] = 0
                continue
            others = [row[0] for i, row in enumerate(books.rows) if i != g]
            top = max(row[0] for row in books.rows)
            target = sum(others) // max(len(others), 1)
            load = books.rows[g][0]

            def key(r: Request, load: int = load, top: int = top, target: int = target) -> Any:
                after = load + r.prompt_tokens
                bonus = math.floor(rate * self._factor(r, mean) * (state.now_s - r.ready_s))
                cost = abs(after - target) + self.params.overflow_weight * max(0, after - top)
                return bonus - cost, r.prompt_tokens

            spare = len(books.pool) <= sum(books.slots) and self.params.spare_order == "longest"
            chosen = _first_best(options, (lambda r: r.prompt_tokens) if spare else key)
            decided.append((chosen.id, g))
            learned.append((chosen.prompt_tokens, state.now_s - chosen.ready_s))
            books.take((chosen,), g)
        self.admitted = [*self.admitted, *learned][-self.params.memory :]
        return decided

    def _to_wait(self, r: Request, g: int, books: Books) -> bool:
        load, top = books.rows[g][0], max(row[0] for row in books.rows)
        lighter = any(
            row[0] < load and free == 0 for row, free in zip(books.rows, books.slots, strict=True)
        )
        return lighter and load + r.prompt_tokens > top

    def _factor(self, r: Request, mean: float) -> float:
        if not self.admitted:
            return 1.0
        return 1.0 + self.params.size_weight * max(r.prompt_tokens / mean - 1.0, 0.0)

    def _mean(self) -> float:
        prompts = [prompt for prompt, _ in self.admitted]
        return sum(prompts) / len(prompts) if prompts else 0.0

    def _median(self) -> float:
        waits = sorted(wait for _, wait in self.admitted)
        return waits[(len(waits) - 1) // 2] if waits else 0.0

    def _mean_wait(self) -> float:
        waits = [wait for _, wait in self.admitted]
        return sum(int(1e6 * wait) for wait in waits) / (1e6 * len(waits)) if waits else 0.0

    def _rate(self) -> float:
        mean = self._mean_wait()
        return self.params.wait_scale * (self._mean() / mean) if mean > 0 else 0.0

    def _limit(self) -> float:
        if self.params.age_limit is None:
            return math.inf
        limit = max(self.params.age_limit * self._median(), self.params.age_floor_s)
        return limit if limit > 0 else math.inf


@dataclass
class SlowLeastTokens:
    """Least tokens; ties go round."""

    after: int = 0

    def place(self, tokens: Sequence[int]) -> int:
        """Take the first replica with fewest tokens, counted cyclically from the last choice."""
        count = len(tokens)
        order = [(self.after + i) % count for i in range(count)]
        replica = next(g for g in order if tokens[g] == min(tokens))
        self.after = (replica + 1) % count
        return replica


def _tokens(chosen: Set) -> int:
    return sum(r.prompt_tokens for r in chosen)


def _replica_key(books: Books, g: int, params: BalanceRouteParams) -> tuple[int, int]:
    key = (books.slots[g], books.margins(g)[0])
    return key if params.key_order == "slots-first" else key[::-1]


def _scorer(params: BalanceRouteParams, margins: Sequence[int], count: int) -> Callable[[int], int]:
    """F of Delta tokens; the fixed point of BR-H as the model's page defines it."""
    reward, prices = 1, [count]
    if isinstance(params, HorizonParams):
        steps = [max(1, round(1024 * params.discount**h)) for h in range(params.horizon + 1)]
        beta = count if params.overflow_weight is None else params.overflow_weight
        reward = round(64 * params.reward_weight) * sum(steps)
        prices = [round(64 * beta) * d for d in steps]
    return lambda delta: (
        reward * delta
        - sum(price * max(delta - margin, 0) for price, margin in zip(prices, margins, strict=True))
    )


def _options(books: Books, params: BalanceRouteParams, g: int, *, stage: int) -> Iterator[Set]:
    """What may be admitted: single requests, or subsets in the order of their bit masks."""
    if stage == 1:
        yield from ((r,) for r in books.pool if books.fits((r,), g))
        return
    candidates = {
        "oldest": books.pool,
        "newest": books.pool[::-1],
        "largest": sorted(books.pool, key=lambda r: -r.prompt_tokens),
    }[params.candidate_order][: params.max_subset]
    indices = range(len(candidates))
    sets = [q for size in indices for q in combinations(indices, size + 1)]
    for q in sorted(sets, key=lambda q: sum(1 << j for j in q)):
        chosen = tuple(candidates[j] for j in q)
        if len(chosen) <= books.slots[g] and books.fits(chosen, g):
            yield chosen


def _best_by_score(options: Sequence[Set], score: Callable[[int], int]) -> Set:
    """Largest (F, Delta), or the best single request where no set gains."""

    def key(chosen: Set) -> tuple[int, int]:
        return score(_tokens(chosen)), _tokens(chosen)

    best = _first_best(options, key)
    if key(best)[0] > 0:
        return best
    return _first_best([q for q in options if len(q) == 1], key)


def _first_best(options: Sequence[Option], key: Callable[[Option], Any]) -> Option:
    best = options[0]
    for option in options[1:]:
        if key(option) > key(best):
            best = option
    return best
