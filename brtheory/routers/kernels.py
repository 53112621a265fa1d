"""The compiled tick of BR-0 and BR-H: the vectorised tick's ideas in plain loops.

F is concave in Delta: the weight of the margins below x exceeds the reward exactly where x is past
the peak. Of any sums only the largest up to the peak and the smallest past it can be best: prompts
are bisected, subsets looked at one by one, and only those between the two found so far are asked
on which side they lie. Up to the least margin nothing overflows, so F is known at once and the
envelope stays. All arithmetic is in int64, exact up to the token limit.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool, beyond, largest, oldest, remove, up_to
from brtheory.routers.fast_replica_kernels import (
    Loads,
    Out,
    close_top,
    focus,
    open_heap,
    raise_envelope,
    raise_row,
    room_on,
    settle_top,
)
from brtheory.routers.fast_subset_kernels import Scratch, add_up, members

OLDEST, NEWEST, LARGEST = range(3)
BEYOND_LIMIT = -1
"""Answer of a tick whose loads exceed the token limit; nothing is decided then."""
INT64_MAX = 2**63 - 1


class Rules(NamedTuple):
    """Parameters and weights of a scored router.

    Parameters
    ----------
    weights
        w_0 .. w_H, shape (H + 1,).
    reward, price
        A; the weight common to all h, -1 where they differ.
    greedy, most
        S_greedy and R_max.
    key, order
        Which replica comes first, which requests are candidates.
    longest
        Stage 1 takes the longest prompt.
    limit
        Largest load that is scored exactly.
    """

    weights: IntArray
    reward: int
    price: int
    greedy: int
    most: int
    key: int
    order: int
    longest: bool
    limit: int


@entry_kernel
def make_rules(weights: IntArray, options: IntArray) -> Rules:
    """Rules from the weights and the other fields in their order."""
    return Rules(
        weights,
        options[0],
        options[1],
        options[2],
        options[3],
        options[4],
        options[5],
        options[6] != 0,
        options[7],
    )


@kernel
def balance_tick(
    pool: Pool, waiting: int, loads: Loads, start: int, rules: Rules, scratch: Scratch, out: Out
) -> int:
    """Decide a tick; the pool loses what is admitted. Number of admissions, or BEYOND_LIMIT."""
    raise_envelope(loads, start)
    if _largest(loads.envelope) > rules.limit:
        return BEYOND_LIMIT
    free = _total(loads.cap)
    size = open_heap(loads, rules.key)
    count = 0
    while size > 0 and count < waiting:
        replica = loads.heap[0]
        lowest = focus(loads, start, replica)
        stage, size_of_set = 2, 0
        if free > rules.greedy:
            stage = 1
            size_of_set = _single(pool, loads, replica, rules, scratch, lowest)
        else:
            size_of_set = _set(pool, loads, replica, rules, scratch, lowest)
        if size_of_set == 0:
            free -= loads.cap[replica]
            size = close_top(loads, rules.key, size)
            continue
        delta = 0
        for j in range(size_of_set):
            delta += pool.prompts[scratch.chosen[j]]
        score = f_score(loads.margins, rules, lowest, delta)
        for j in range(size_of_set):
            out.position[count] = scratch.chosen[j]
            out.replica[count] = replica
            out.stage[count] = stage
            out.score[count] = score
            _occupy(pool, loads, replica, scratch.chosen[j])
            count += 1
        free -= size_of_set
        if delta > lowest:
            raise_row(loads, start, replica)
        size = settle_top(loads, rules.key, size)
    return count


@kernel
def f_score(margins: IntArray, rules: Rules, lowest: int, delta: int) -> int:
    """F of Delta tokens on the replica in focus; ``lowest`` is its least margin."""
    over = 0
    if delta <= lowest or rules.price == 0:
        return rules.reward * delta
    if rules.price > 0:
        for h in range(len(margins)):
            over += max(delta - margins[h], 0)
        return rules.reward * delta - rules.price * over
    for h in range(len(margins)):
        over += rules.weights[h] * max(delta - margins[h], 0)
    return rules.reward * delta - over


@kernel
def up_to_peak(margins: IntArray, rules: Rules, lowest: int, delta: int) -> bool:
    """Whether F does not fall on the last token before Delta; ``lowest`` is the least margin."""
    if delta <= lowest or rules.reward < rules.price:
        return delta <= lowest
    below = 0
    if rules.price >= 0:
        for h in range(len(margins)):
            below += margins[h] < delta
        return below * rules.price <= rules.reward
    for h in range(len(margins)):
        if margins[h] < delta:
            below += rules.weights[h]
    return below <= rules.reward


@kernel
def _largest(values: IntArray) -> int:
    """Largest of one or more values."""
    largest: int = values[0]
    for value in values:
        largest = max(largest, value)
    return largest


@kernel
def _total(values: IntArray) -> int:
    """Sum."""
    total: int = 0
    for value in values:
        total += value
    return total


@kernel
def _occupy(pool: Pool, loads: Loads, replica: int, position: int) -> None:
    loads.cap[replica] -= 1
    loads.added[replica] += pool.prompts[position]
    loads.present[replica] += pool.prompts[position]
    if len(loads.room) > 0:
        loads.room[replica] -= pool.reserved[position]
    remove(pool, position)


@kernel
def _single(
    pool: Pool, loads: Loads, replica: int, rules: Rules, scratch: Scratch, lowest: int
) -> int:
    """Stage 1: put the best single request into ``chosen``; 1, or 0 if none has room."""
    room, ranks = room_on(loads, replica), len(pool.ranked)
    if rules.longest:
        scratch.chosen[0] = up_to(pool, ranks, room)
        return 1 if scratch.chosen[0] >= 0 else 0
    low, high = 0, ranks
    while low < high:
        middle = (low + high) // 2
        if up_to_peak(loads.margins, rules, lowest, pool.ranked[middle]):
            low = middle + 1
        else:
            high = middle
    below, above = up_to(pool, low, room), beyond(pool, low, room)
    if below >= 0 and above >= 0:
        prompt, other = pool.prompts[below], pool.prompts[above]
        if _gains(loads.margins, rules, lowest, prompt, other):
            below = -1
    scratch.chosen[0] = above if below < 0 else below
    return 1 if scratch.chosen[0] >= 0 else 0


@kernel
def _set(
    pool: Pool, loads: Loads, replica: int, rules: Rules, scratch: Scratch, lowest: int
) -> int:
    """Stage 2: put the best set of candidates into ``chosen``, oldest first; its size."""
    candidates = _first_candidates(pool, rules, scratch.chosen)
    add_up(pool, candidates, scratch)
    masks, most = 1 << candidates, loads.cap[replica]
    best = _best_mask(loads, replica, rules, scratch, lowest, masks, most)
    if most > 1 and f_score(loads.margins, rules, lowest, scratch.sums[best]) <= 0:
        best = _best_mask(loads, replica, rules, scratch, lowest, masks, 1)
    return members(scratch, candidates, best)


@kernel
def _first_candidates(pool: Pool, rules: Rules, chosen: IntArray) -> int:
    if rules.order == LARGEST:
        return largest(pool, chosen, rules.most)
    end, count = len(pool.prompts), 0
    position = oldest(pool) if rules.order == OLDEST else pool.before[end]
    while position != end and count < rules.most:
        chosen[count] = position
        count += 1
        position = pool.after[position] if rules.order == OLDEST else pool.before[position]
    return count


@kernel
def _best_mask(
    loads: Loads,
    replica: int,
    rules: Rules,
    scratch: Scratch,
    lowest: int,
    masks: int,
    most: int,
) -> int:
    """Mask of at most ``most`` members with the largest (F, Delta), the first of equal ones.

    0 if there is room for none.
    """
    sums, limited, room = scratch.sums, len(loads.room) > 0, room_on(loads, replica)
    below, above, low, high = 0, 0, 0, INT64_MAX
    mask = 1
    while mask < masks:
        delta = sums[mask]
        if (
            low < delta < high
            and scratch.sizes[mask] <= most
            and not (limited and scratch.needs[mask] > room)
        ):
            if up_to_peak(loads.margins, rules, lowest, delta):
                below, low = mask, delta
            else:
                above, high = mask, delta
        mask += mask if most == 1 else 1
    if below == 0 or above == 0:
        return below + above
    return above if _gains(loads.margins, rules, lowest, low, high) else below


@kernel
def _gains(margins: IntArray, rules: Rules, lowest: int, low: int, high: int) -> bool:
    """Whether F of ``high``, past the peak, is at least that of ``low``, up to the peak."""
    score = f_score(margins, rules, lowest, low)
    # One margin at least is overflown: often enough to know.
    if rules.price > 0 and rules.reward * high - rules.price * (high - lowest) < score:
        return False
    return f_score(margins, rules, lowest, high) >= score
