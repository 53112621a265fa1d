"""The window router's tick as a specification: who may go, and whose key no other beats.

What the router has learned is computed afresh from the whole list of admitted requests, costs and
targets from the loads, and no ledger is kept. It shares no code with the router but its parameters.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from brtheory.routers.params import WindowParams
from proofs.specification import unbeaten

Past = Sequence[tuple[int, float]]
"""Prompt and wait in seconds of admitted requests, oldest first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request of the pool: its prompt, its wait in seconds, the KV tokens it reserves."""

    size: Any
    wait_s: float
    reserved: Any = 0


@dataclass(frozen=True, slots=True)
class Learned:
    """What follows from the requests admitted before a tick, and the parameters."""

    past: Past
    params: WindowParams

    @property
    def mean_wait_s(self) -> float:
        """0 where nothing was admitted yet; likewise below."""
        return sum(wait for _, wait in self.past) / len(self.past) if self.past else 0.0

    @property
    def mean_size(self) -> float:
        """Mean prompt."""
        return sum(size for size, _ in self.past) / len(self.past) if self.past else 0.0

    @property
    def age_limit_s(self) -> float:
        """Beyond it a request goes first; infinite where there is no limit."""
        if self.params.age_limit is None:
            return math.inf
        median = median_low([wait for _, wait in self.past]) if self.past else 0.0
        limit = max(self.params.age_limit * median, self.params.age_floor_s)
        return limit if limit > 0 else math.inf

    @property
    def hold_s(self) -> float:
        """Younger requests may be held."""
        hold_s = self.params.hold_s
        return hold_s if 2 * self.mean_wait_s <= hold_s else 0.0

    def worth(self, request: Waiting) -> int:
        """Whole tokens that a request's wait is worth."""
        mean_wait_s = self.mean_wait_s
        weight = self.params.wait_weight
        if weight is None:
            rate = self.mean_size / mean_wait_s if mean_wait_s > 0 else 0.0
            weight = self.params.wait_scale * rate
        if self.params.size_weight > 0 and self.mean_size > 0:
            beyond = max(request.size / self.mean_size - 1, 0.0)
            weight *= 1 + self.params.size_weight * beyond
        return math.floor(weight * request.wait_s)


def specified_window_tick(
    loads: Sequence[Any],
    slots: Sequence[int],
    pool: Sequence[Waiting],
    *,
    learned: Learned,
    room: Sequence[Any] | None = None,
) -> list[tuple[int, int]]:
    """Decide one tick of the window router: pairs (request index, replica).

    Parameters
    ----------
    loads, slots
        Present loads and free slots, one per replica.
    pool
        Waiting requests, oldest first.
    learned
        Requests admitted before this tick, and the router's parameters.
    room
        Free KV tokens, one per replica; None where capacity is unlimited.
    """
    now, free, left = list(loads), list(slots), list(range(len(pool)))
    space = None if room is None else list(room)
    least = _least_room(pool, learned.params)
    decided: list[tuple[int, int]] = []
    while True:
        free = [n if space is None or space[g] >= least else 0 for g, n in enumerate(free)]
        if not left or sum(free) == 0:
            return decided
        g = unbeaten([g for g in range(len(now)) if free[g] > 0], lambda g: (-now[g],))
        oldest = [pool[i] for i in left[: learned.params.window]]
        offered = [each for each in oldest if space is None or each.reserved <= space[g]]
        spare = len(left) <= sum(free)
        chosen = _choice(offered, now, free, replica=g, spare=spare, learned=learned)
        if chosen is None:
            free[g] = 0
            continue
        index = next(i for i in left if pool[i] is chosen)
        decided.append((index, g))
        left.remove(index)
        now[g], free[g] = now[g] + chosen.size, free[g] - 1
        if space is not None:
            space[g] = space[g] - chosen.reserved


def _least_room(pool: Sequence[Waiting], params: WindowParams) -> int:
    """KV tokens without which a replica is not served."""
    oldest = [each.reserved for each in pool[: params.window]]
    return math.floor(params.room_share * (sum(oldest) / len(oldest))) if oldest else 0


def _choice(
    offered: Sequence[Waiting],
    loads: Sequence[Any],
    free: Sequence[int],
    *,
    replica: int,
    spare: bool,
    learned: Learned,
) -> Waiting | None:
    """The request that goes to this replica, None if none may."""
    overdue = [each for each in offered if each.wait_s > learned.age_limit_s]
    if overdue:
        return overdue[0]
    hold_s = learned.hold_s
    allowed = [
        each
        for each in offered
        if each.wait_s >= hold_s or not _raises(each, loads, free, replica=replica)
    ]
    if not allowed:
        return None
    if spare and learned.params.spare_order == "longest":
        return unbeaten(allowed, lambda each: (each.size,))
    cost = _cost(loads, replica, learned.params)
    return unbeaten(allowed, lambda each: (learned.worth(each) - cost(each.size), each.size))


def _raises(request: Waiting, loads: Sequence[Any], free: Sequence[int], *, replica: int) -> bool:
    """Above the fullest load here, while a lighter replica has no slot to offer."""
    lighter = any(free[j] == 0 and loads[j] < loads[replica] for j in range(len(loads)))
    return lighter and bool(loads[replica] + request.size > max(loads))


def _cost(loads: Sequence[Any], replica: int, params: WindowParams) -> Callable[[Any], Any]:
    """Distance of the load after admission to the others' mean, and a price above the fullest."""
    others = [load for g, load in enumerate(loads) if g != replica]
    target = sum(others) // max(len(others), 1)
    top = max(loads)

    def cost(size: Any) -> Any:
        after = loads[replica] + size
        beyond = after - top if after > top else 0
        return abs(after - target) + params.overflow_weight * beyond

    return cost
