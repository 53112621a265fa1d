"""The oldest requests of a pool side by side, for a compiled tick that weighs them again and again.

What a request's wait is worth does not change within a tick, so it is worked out once, when the
request enters the list, and each admission looks at integers that lie next to one another.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool, oldest

FloatArray = NDArray[np.float64]
LARGEST_BONUS = 2.0**62
SIZE, NEXT, OVERDUE = range(3)
YOUNG, PATIENT, LATE = range(3)


class Shortlist(NamedTuple):
    """The first K waiting requests, oldest first, shapes (K,) unless said otherwise.

    Parameters
    ----------
    positions, prompts, reserved
        Of each request; ``reserved`` is 0 where KV capacity is unlimited.
    bonuses
        floor(lambda_s*wait), tokens.
    ages
        YOUNG up to ``hold_s``, LATE beyond the age limit, else PATIENT.
    keys
        What the replica in turn makes of them.
    state
        Requests on the list, position of the next to enter, how many are LATE.
    """

    positions: IntArray
    prompts: IntArray
    reserved: IntArray
    bonuses: IntArray
    ages: IntArray
    keys: IntArray
    state: IntArray


class WindowRule(NamedTuple):
    """The window router's parameters for a tick, and what it has learned when the tick begins.

    Parameters
    ----------
    window, size_weight, overflow_weight, room_share
        As ``WindowParams``.
    longest_first
        Whether the longest prompt goes first while slots are to spare.
    hold_s, wait_weight, longest_wait_s, mean_prompt
        As ``window.Patience``.
    """

    window: int
    size_weight: float
    overflow_weight: int
    longest_first: bool
    hold_s: float
    wait_weight: float
    longest_wait_s: float
    mean_prompt: float
    room_share: float


class Offer(NamedTuple):
    """What the replica in turn offers: KV room, tokens missing to the target and to the peak.

    ``limited`` says that KV capacity is, ``holding`` that a lighter replica has no free slot,
    ``spare`` that the longest prompt goes first.
    """

    room: int
    gap: int
    margin: int
    limited: bool
    holding: bool
    spare: bool


@entry_kernel
def make_shortlist(window: int) -> Shortlist:
    """Room for ``window`` requests."""
    rows = np.empty((6, window), np.int64)
    return Shortlist(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], np.zeros(3, np.int64))


@kernel
def enlist(
    chosen: Shortlist, pool: Pool, ready_s: FloatArray, now_s: float, rule: WindowRule
) -> None:
    """Put the oldest requests of the pool on the list."""
    state = chosen.state
    state[SIZE], state[NEXT], state[OVERDUE] = 0, oldest(pool), 0
    while state[SIZE] < rule.window and state[NEXT] != len(pool.prompts):
        _enter(chosen, pool, ready_s, now_s, rule)


@kernel
def strike(
    chosen: Shortlist, place: int, pool: Pool, ready_s: FloatArray, now_s: float, rule: WindowRule
) -> None:
    """Take a request off the list; the next of the pool enters at the end."""
    state = chosen.state
    state[SIZE] -= 1
    state[OVERDUE] -= chosen.ages[place] == LATE
    for i in range(place, state[SIZE]):
        chosen.positions[i] = chosen.positions[i + 1]
        chosen.prompts[i] = chosen.prompts[i + 1]
        chosen.reserved[i] = chosen.reserved[i + 1]
        chosen.bonuses[i] = chosen.bonuses[i + 1]
        chosen.ages[i] = chosen.ages[i + 1]
    if state[NEXT] != len(pool.prompts):
        _enter(chosen, pool, ready_s, now_s, rule)


@kernel
def least_room(chosen: Shortlist, room_share: float) -> int:
    """KV tokens a replica must have free to be served, from the reservations on the list."""
    total, size = 0, chosen.state[SIZE]
    if size == 0 or room_share == 0.0:
        return 0
    for i in range(size):
        total += chosen.reserved[i]
    return int(np.floor(room_share * (float(total) / float(size))))


@kernel
def best_place(chosen: Shortlist, overflow_weight: int, offer: Offer) -> int:
    """Place on the list of the request the replica in turn takes, -1 if it takes none."""
    size, prompts, keys = chosen.state[SIZE], chosen.prompts, chosen.keys
    if chosen.state[OVERDUE] > 0:
        for i in range(size):
            if chosen.ages[i] == LATE and _has_room(chosen, i, offer):
                return i
    _weigh(chosen, overflow_weight, offer)
    restricted, best = offer.limited or offer.holding, -1
    for i in range(size):
        longer = best >= 0 and keys[i] == keys[best] and prompts[i] > prompts[best]
        better = best < 0 or keys[i] > keys[best] or longer
        if better and (not restricted or _is_offered(chosen, i, offer)):
            best = i
    return best


@kernel
def _enter(
    chosen: Shortlist, pool: Pool, ready_s: FloatArray, now_s: float, rule: WindowRule
) -> None:
    state, i = chosen.state, chosen.state[SIZE]
    position = state[NEXT]
    wait_s, prompt = now_s - ready_s[position], pool.prompts[position]
    late = wait_s > rule.longest_wait_s
    chosen.positions[i] = position
    chosen.prompts[i] = prompt
    chosen.reserved[i] = pool.reserved[position] if len(pool.reserved) > 0 else 0
    chosen.bonuses[i] = _bonus(prompt, wait_s, rule)
    chosen.ages[i] = LATE if late else (YOUNG if wait_s < rule.hold_s else PATIENT)
    state[SIZE] += 1
    state[NEXT] = pool.after[position]
    state[OVERDUE] += late


@kernel
def _bonus(prompt: int, wait_s: float, rule: WindowRule) -> int:
    weight = rule.wait_weight
    if rule.size_weight != 0.0 and rule.mean_prompt != 0.0:
        beyond = float(prompt) / rule.mean_prompt - 1.0
        weight *= 1.0 + rule.size_weight * max(beyond, 0.0)
    return int(np.floor(min(max(weight * wait_s, -LARGEST_BONUS), LARGEST_BONUS)))


@kernel
def _weigh(chosen: Shortlist, overflow_weight: int, offer: Offer) -> None:
    """Fill in the keys; no branch within the loop, so that several are made at once."""
    size, keys, prompts, bonuses = chosen.state[SIZE], chosen.keys, chosen.prompts, chosen.bonuses
    if offer.spare:
        for i in range(size):
            keys[i] = prompts[i]
        return
    gap, margin = offer.gap, offer.margin
    for i in range(size):
        overflow = max(0, prompts[i] - margin)
        keys[i] = bonuses[i] - abs(prompts[i] - gap) - overflow_weight * overflow


@kernel
def _has_room(chosen: Shortlist, place: int, offer: Offer) -> bool:
    return not offer.limited or chosen.reserved[place] <= offer.room


@kernel
def _is_offered(chosen: Shortlist, place: int, offer: Offer) -> bool:
    held = offer.holding and chosen.prompts[place] > offer.margin and chosen.ages[place] == YOUNG
    return not held and _has_room(chosen, place, offer)
