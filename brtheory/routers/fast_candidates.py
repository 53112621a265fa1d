"""Candidates of a tick by position in the pool: the first few in an order, and a sorted pool."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.params import BalanceRouteParams

Fits = Callable[[int], bool]


def candidate_order(prompts: IntArray, params: BalanceRouteParams) -> Iterable[int]:
    """All positions in the order in which stage 2 looks at them."""
    if params.candidate_order == "oldest":
        return range(len(prompts))
    if params.candidate_order == "newest":
        return range(len(prompts) - 1, -1, -1)
    order: list[int] = np.argsort(-prompts, kind="stable").tolist()
    return order


class Candidates:
    """The first ``most`` positions of an order that are not taken.

    Parameters
    ----------
    order
        Positions, each once.
    most
        R_max >= 1.
    taken
        Positions already admitted when this is made.
    """

    def __init__(self, order: Iterable[int], most: int, *, taken: set[int]) -> None:
        self._rest = (position for position in order if position not in taken)
        self._most = most
        self._first: list[int] = []

    def first(self) -> Sequence[int]:
        """The candidates now; candidate j is bit j of a mask."""
        missing = self._most - len(self._first)
        self._first.extend(islice(self._rest, missing))
        return self._first

    def take(self, positions: Iterable[int]) -> None:
        """Remove admitted candidates."""
        for position in positions:
            self._first.remove(position)


class SortedPool:
    """The pool by prompt, equal prompts oldest first, with removal.

    Parameters
    ----------
    prompts
        Shape (P,), int64, by position.
    """

    def __init__(self, prompts: IntArray) -> None:
        order = np.argsort(prompts, kind="stable")
        self._position: list[int] = order.tolist()
        self._prompt: list[int] = prompts[order].tolist()
        # Rank 0 and the last rank are sentinels: _at_or_before[r] leads to the nearest rank left.
        self._at_or_before = list(range(len(prompts) + 2))
        self._at_or_after = list(range(len(prompts) + 2))

    def up_to(self, limit: int, fits: Fits | None) -> int | None:
        """Position of the largest prompt <= limit that fits, the oldest of equal ones."""
        rank = _root(self._at_or_before, bisect_right(self._prompt, limit))
        while rank > 0 and not self._fits(rank, fits):
            rank = _root(self._at_or_before, rank - 1)
        if rank == 0:
            return None
        first = bisect_left(self._prompt, self._prompt[rank - 1]) + 1
        return self._position[self._next(first, fits) - 1]

    def beyond(self, limit: int, fits: Fits | None) -> int | None:
        """Position of the smallest prompt > limit that fits, the oldest of equal ones."""
        rank = self._next(bisect_right(self._prompt, limit) + 1, fits)
        return None if rank > len(self._prompt) else self._position[rank - 1]

    def take(self, position: int, prompt: int) -> None:
        """Remove an admitted request."""
        rank = bisect_left(self._prompt, prompt)
        # Equal prompts are ranked by position, so the rank is found by bisection as well.
        end = bisect_right(self._prompt, prompt)
        rank = bisect_left(self._position, position, lo=rank, hi=end) + 1
        self._at_or_before[rank] = rank - 1
        self._at_or_after[rank] = rank + 1

    def _next(self, rank: int, fits: Fits | None) -> int:
        rank = _root(self._at_or_after, rank)
        while rank <= len(self._prompt) and not self._fits(rank, fits):
            rank = _root(self._at_or_after, rank + 1)
        return rank

    def _fits(self, rank: int, fits: Fits | None) -> bool:
        return fits is None or fits(self._position[rank - 1])


def _root(links: list[int], rank: int) -> int:
    """Follow links to their end, halving the path on the way."""
    while links[rank] != rank:
        links[rank] = links[links[rank]]
        rank = links[rank]
    return rank
