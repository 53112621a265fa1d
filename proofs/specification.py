"""The tick as a specification: what the best option is, said without the product's machinery.

Margins are computed afresh from the loads, options are listed and the one that no other beats is
taken. It is slow, has no ledger and shares no code with the routers; refinement layers run it and
the product on the same symbolic inputs and demand the same decisions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

Decision = tuple[int, int, int, Any]
"""(request index, replica, stage, score of the decision's whole set)."""


Option = TypeVar("Option")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which variant of BR-0.

    Parameters
    ----------
    greedy
        S_greedy.
    window
        R_max.
    margin_first
        Whether the replica's key is (margin, slots) instead of (slots, margin).
    longest
        Whether stage 1 takes the longest prompt instead of the largest (F, prompt).
    """

    greedy: int
    window: int = 4
    margin_first: bool = False
    longest: bool = False


def specified_tick(
    loads: Sequence[Any], slots: Sequence[int], sizes: Sequence[Any], *, rule: Rule
) -> list[Decision]:
    """Decide one tick of BR-0.

    Parameters
    ----------
    loads, slots
        Present loads and free slots, one per replica.
    sizes
        Prompts, oldest first.
    rule
        The variant.
    """
    now, free, waiting = list(loads), list(slots), list(range(len(sizes)))
    decided: list[Decision] = []
    while waiting and sum(free) > 0:
        stage = 1 if sum(free) > rule.greedy else 2
        g = _replica(now, free, margin_first=rule.margin_first)
        value = _scorer(now, g)
        chosen = (
            _stage_1(waiting, sizes, value, longest=rule.longest)
            if stage == 1
            else (_stage_2(waiting[: rule.window], sizes, value, most=free[g]))
        )
        delta = sum(sizes[i] for i in chosen)
        decided += [(i, g, stage, value(delta)) for i in chosen]
        now[g], free[g] = now[g] + delta, free[g] - len(chosen)
        waiting = [i for i in waiting if i not in chosen]
    return decided


def _replica(loads: Sequence[Any], free: Sequence[int], *, margin_first: bool) -> int:
    top = max(loads)
    keys = {
        g: (top - loads[g], free[g]) if margin_first else (free[g], top - loads[g])
        for g in range(len(loads))
        if free[g] > 0
    }
    return unbeaten(list(keys), keys.__getitem__)


def _scorer(loads: Sequence[Any], replica: int) -> Callable[[Any], Any]:
    """F by its definition: the imbalance before minus the imbalance after."""
    before = len(loads) * max(loads) - sum(loads)

    def score(delta: Any) -> Any:
        after = [load + delta if g == replica else load for g, load in enumerate(loads)]
        return before - (len(after) * max(after) - sum(after))

    return score


def _stage_1(
    waiting: Sequence[int], sizes: Sequence[Any], score: Callable[[Any], Any], *, longest: bool
) -> tuple[int, ...]:
    if longest:
        return (unbeaten(waiting, lambda i: (sizes[i],)),)
    return (unbeaten(waiting, lambda i: (score(sizes[i]), sizes[i])),)


def _stage_2(
    candidates: Sequence[int], sizes: Sequence[Any], score: Callable[[Any], Any], *, most: int
) -> tuple[int, ...]:
    def key(option: tuple[int, ...]) -> tuple[Any, Any]:
        delta = sum(sizes[i] for i in option)
        return score(delta), delta

    options = sorted(_subsets(candidates, most), key=lambda q: sum(1 << i for i in q))
    best = unbeaten(options, key)
    if key(best)[0] > 0:
        return best
    return unbeaten([option for option in options if len(option) == 1], key)


def _subsets(candidates: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, min(most, len(candidates)) + 1):
        yield from combinations(candidates, size)


def unbeaten(options: Sequence[Option], key: Callable[[Option], tuple[Any, ...]]) -> Option:
    """The first option whose key no other option's key exceeds, lexicographically."""
    keys = [key(option) for option in options]
    for option, own in zip(options, keys, strict=True):
        if not any(_exceeds(other, own) for other in keys if other is not own):
            return option
    message = "no option to choose from"
    raise AssertionError(message)


def _exceeds(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    for a, b in zip(first, second, strict=True):
        if a > b:
            return True
        if a < b:
            return False
    return False
