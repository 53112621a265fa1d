"""The tick as a specification: what the best option is, said without the product's machinery.

Margins are computed afresh from the loads, options are listed and the one that no other beats is
taken. It is slow, has no ledger and shares no code with the routers; refinement layers run it and
the product on the same symbolic inputs and demand the same decisions.
"""

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, slots=True)
class Room:
    """KV tokens that requests reserve, and that replicas have free."""

    reserved: Sequence[Any]
    free: Sequence[Any]


def specified_tick(
    loads: Sequence[Any],
    slots: Sequence[int],
    sizes: Sequence[Any],
    *,
    rule: Rule,
    room: Room | None = None,
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
    room
        None where KV capacity is unlimited. Otherwise an option needs room for all its requests,
        and a replica without an option is not asked again.
    """
    now, free, waiting = list(loads), list(slots), list(range(len(sizes)))
    decided: list[Decision] = []
    while waiting and sum(free) > 0:
        stage = 1 if sum(free) > rule.greedy else 2
        g = _replica(now, free, margin_first=rule.margin_first)
        value = _scorer(now, g)
        sets = [(i,) for i in waiting] if stage == 1 else _subsets(waiting[: rule.window], free[g])
        own = [d[0] for d in decided if d[1] == g]
        options = [option for option in sets if _has_room((*own, *option), g, room)]
        if not options:
            free[g] = 0
            continue
        chosen = (
            _stage_1(options, sizes, value, longest=rule.longest)
            if stage == 1
            else _stage_2(options, sizes, value)
        )
        delta = sum(sizes[i] for i in chosen)
        decided += [(i, g, stage, value(delta)) for i in chosen]
        now[g], free[g] = now[g] + delta, free[g] - len(chosen)
        waiting = [i for i in waiting if i not in chosen]
    return decided


def _has_room(requests: Sequence[int], replica: int, room: Room | None) -> bool:
    """Whether all these reserve no more than the replica had free when the tick began."""
    return room is None or bool(sum(room.reserved[i] for i in requests) <= room.free[replica])


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
    options: Sequence[tuple[int, ...]],
    sizes: Sequence[Any],
    score: Callable[[Any], Any],
    *,
    longest: bool,
) -> tuple[int, ...]:
    if longest:
        return unbeaten(options, lambda option: (sizes[option[0]],))
    return unbeaten(options, lambda option: (score(sizes[option[0]]), sizes[option[0]]))


def _stage_2(
    options: Sequence[tuple[int, ...]], sizes: Sequence[Any], score: Callable[[Any], Any]
) -> tuple[int, ...]:
    def key(option: tuple[int, ...]) -> tuple[Any, Any]:
        delta = sum(sizes[i] for i in option)
        return score(delta), delta

    best = unbeaten(options, key)
    if key(best)[0] > 0:
        return best
    return unbeaten([option for option in options if len(option) == 1], key)


def _subsets(candidates: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Every set of at most so many, in the order of their masks."""
    sizes = range(1, min(most, len(candidates)) + 1)
    every = [option for size in sizes for option in combinations(candidates, size)]
    return sorted(every, key=lambda option: sum(1 << i for i in option))


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
