"""The compiled tick of BR-0 and BR-H: the vectorised tick's ideas in plain loops.

F is concave in Delta: the weight of the margins below x exceeds the reward exactly where x is past
the peak. Over prompts or subset sums in ascending order the peak is found by bisection, and only
the last sum before it and the first one past it are scored. The subsets' sums come out sorted by
merging, one candidate at a time. All arithmetic is in int64, exact up to the token limit.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel
from brtheory.routers.fast_pool_kernels import Pool, beyond, largest, oldest, remove, up_to

SLOTS_FIRST, MARGIN_FIRST, LOAD_ONLY = range(3)
OLDEST, NEWEST, LARGEST = range(3)
INT64_MAX = 2**63 - 1
BEYOND_LIMIT = -1
"""Answer of a tick whose loads exceed the token limit; nothing is decided then."""


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


class Loads(NamedTuple):
    """Replicas during a tick, shapes (G,) unless said otherwise.

    Parameters
    ----------
    columns
        Projected loads, shape (G, C); only read.
    cap, room, added, present
        Free slots; free KV tokens (empty where unlimited); tokens admitted in this tick; L_g now,
        those included, side by side where the heap can reach them quickly.
    heap
        Indices of open replicas, the next one first.
    envelope, margins
        M_h, and m_{g,h} of the replica in turn, shape (H + 1,).
    """

    columns: IntArray
    cap: IntArray
    room: IntArray
    added: IntArray
    present: IntArray
    heap: IntArray
    envelope: IntArray
    margins: IntArray


class Scratch(NamedTuple):
    """Room for subsets: sums, masks and a merge of both, shape (2^R_max,); candidates (R_max,)."""

    sums: IntArray
    masks: IntArray
    other_sums: IntArray
    other_masks: IntArray
    chosen: IntArray


class Out(NamedTuple):
    """Decisions in order; the arrays hold min(P, S_tot) entries at least."""

    position: IntArray
    replica: IntArray
    stage: IntArray
    score: IntArray


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
    if loads.envelope.max() > rules.limit:
        return BEYOND_LIMIT
    free = loads.cap.sum()
    size = open_heap(loads, rules.key)
    count = 0
    while size > 0 and count < waiting:
        replica = loads.heap[0]
        lowest = focus(loads, start, replica)
        stage, score, members = 2, 0, 0
        if free > rules.greedy:
            stage = 1
            members = _single(pool, loads, replica, rules, scratch, lowest)
        else:
            members = _set(pool, loads, replica, rules, scratch, lowest)
        if members == 0:
            free -= loads.cap[replica]
            size = close_top(loads, rules.key, size)
            continue
        delta = 0
        for j in range(members):
            delta += pool.prompts[scratch.chosen[j]]
        score = f_score(loads.margins, rules, delta)
        for j in range(members):
            out.position[count] = scratch.chosen[j]
            out.replica[count] = replica
            out.stage[count] = stage
            out.score[count] = score
            _occupy(pool, loads, replica, scratch.chosen[j])
            count += 1
        free -= members
        _raise(loads, start, replica)
        size = settle_top(loads, rules.key, size)
    return count


@entry_kernel
def make_loads(
    columns: IntArray, start: int, free_slots: IntArray, room: IntArray, width: int
) -> Loads:
    """A tick's own view of the replicas; ``columns`` stays the caller's."""
    replicas = len(free_slots)
    return Loads(
        columns,
        free_slots.copy(),
        room.copy(),
        np.zeros(replicas, np.int64),
        columns[:, start].copy(),
        np.empty(replicas, np.int64),
        np.empty(width, np.int64),
        np.empty(width, np.int64),
    )


@entry_kernel
def make_out(entries: int) -> Out:
    """Room for ``entries`` decisions."""
    return Out(
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
    )


@kernel
def raise_envelope(loads: Loads, start: int) -> None:
    """M_h = max_g Lhat_g(h), from scratch."""
    envelope, columns, width = loads.envelope, loads.columns, len(loads.envelope)
    envelope[:] = 0
    for g in range(len(loads.cap)):
        row = columns[g, start : start + width]
        for h in range(width):
            envelope[h] = max(envelope[h], row[h])


@kernel
def focus(loads: Loads, start: int, replica: int) -> int:
    """Compute the margins of a replica; the least of them."""
    width = len(loads.envelope)
    margins, envelope, columns = loads.margins, loads.envelope, loads.columns
    added, lowest = loads.added[replica], INT64_MAX
    # A view of the row from column 0 on: an index that may be negative would not be vectorised.
    row = columns[replica, start : start + width]
    for h in range(width):
        margins[h] = envelope[h] - row[h] - added
    for h in range(width):
        lowest = min(lowest, margins[h])
    return lowest


@kernel
def f_score(margins: IntArray, rules: Rules, delta: int) -> int:
    """F of Delta tokens on the replica in focus."""
    over = 0
    if rules.price == 0:
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
    if 0 <= rules.reward < rules.price:
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
def open_heap(loads: Loads, key: int) -> int:
    """Collect the replicas with a free slot, the first one on top; their number."""
    size = 0
    for g in range(len(loads.cap)):
        if loads.cap[g] > 0:
            loads.heap[size] = g
            size += 1
    for node in range(size // 2 - 1, -1, -1):
        _sift(loads, key, size, node)
    return size


@kernel
def settle_top(loads: Loads, key: int, size: int) -> int:
    """Put the replica just served where it belongs now; the size left."""
    if loads.cap[loads.heap[0]] == 0:
        size -= 1
        loads.heap[0] = loads.heap[size]
    _sift(loads, key, size, 0)
    return size


@kernel
def close_top(loads: Loads, key: int, size: int) -> int:
    """Take the replica on top out of this tick; the size left."""
    loads.cap[loads.heap[0]] = 0
    return settle_top(loads, key, size)


@kernel
def room_on(loads: Loads, replica: int) -> int:
    """Free KV tokens of a replica, 0 where nobody looks at them."""
    return loads.room[replica] if len(loads.room) > 0 else 0


@kernel
def _sift(loads: Loads, key: int, size: int, node: int) -> None:
    heap, present, cap = loads.heap, loads.present, loads.cap
    if node >= size:
        return
    moving = heap[node]
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and _precedes(present, cap, key, heap[child + 1], heap[child]):
            child += 1
        if not _precedes(present, cap, key, heap[child], moving):
            break
        heap[node] = heap[child]
        node = child
    heap[node] = moving


@kernel
def _precedes(present: IntArray, cap: IntArray, key: int, a: int, b: int) -> bool:
    """Whether replica a has the larger (cap, margin) or (margin, cap), ties to the lower index."""
    if key == SLOTS_FIRST and cap[a] != cap[b]:
        return bool(cap[a] > cap[b])
    if present[a] != present[b]:
        return bool(present[a] < present[b])
    if key == MARGIN_FIRST and cap[a] != cap[b]:
        return bool(cap[a] > cap[b])
    return a < b


@kernel
def _occupy(pool: Pool, loads: Loads, replica: int, position: int) -> None:
    loads.cap[replica] -= 1
    loads.added[replica] += pool.prompts[position]
    loads.present[replica] += pool.prompts[position]
    if len(loads.room) > 0:
        loads.room[replica] -= pool.reserved[position]
    remove(pool, position)


@kernel
def _raise(loads: Loads, start: int, replica: int) -> None:
    width = len(loads.envelope)
    envelope, added = loads.envelope, loads.added[replica]
    row = loads.columns[replica, start : start + width]
    for h in range(width):
        envelope[h] = max(envelope[h], row[h] + added)


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
        score = f_score(loads.margins, rules, pool.prompts[above])
        if score >= f_score(loads.margins, rules, pool.prompts[below]):
            below = -1
    scratch.chosen[0] = above if below < 0 else below
    return 1 if scratch.chosen[0] >= 0 else 0


@kernel
def _set(
    pool: Pool, loads: Loads, replica: int, rules: Rules, scratch: Scratch, lowest: int
) -> int:
    """Stage 2: put the best set of candidates into ``chosen``, oldest first; its size."""
    candidates = _first_candidates(pool, rules, scratch.chosen)
    count = _sorted_subsets(pool, candidates, scratch)
    count = _allowed(pool, loads, replica, candidates, count, scratch)
    if count == 0:
        return 0
    best = _best(loads.margins, rules, lowest, scratch.sums, count)
    if f_score(loads.margins, rules, scratch.sums[best]) <= 0:
        count = _keep_singles(count, scratch)
        best = _best(loads.margins, rules, lowest, scratch.sums, count)
    return _members(scratch, candidates, scratch.masks[best])


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
def _sorted_subsets(pool: Pool, candidates: int, scratch: Scratch) -> int:
    """Sums of all subsets in ascending order, equal ones by mask; their number, 2^candidates."""
    sums, masks = scratch.sums, scratch.masks
    others, other_masks = scratch.other_sums, scratch.other_masks
    sums[0] = 0
    masks[0] = 0
    count = 1
    for j in range(candidates):
        _merge(sums, masks, count, pool.prompts[scratch.chosen[j]], 1 << j, others, other_masks)
        count *= 2
        for i in range(count):
            sums[i] = others[i]
            masks[i] = other_masks[i]
    return count


@kernel
def _merge(
    sums: IntArray,
    masks: IntArray,
    count: int,
    prompt: int,
    bit: int,
    others: IntArray,
    other_masks: IntArray,
) -> None:
    """Merge the subsets with those that have one more candidate; equal sums by mask."""
    without, extended = 0, 0
    for i in range(2 * count):
        longer = sums[extended] + prompt
        # On equal sums the subset without the candidate has the smaller mask. The largest sum of
        # all has the candidate, so the extended ones are never used up before the last place.
        if without < count and sums[without] <= longer:
            others[i] = sums[without]
            other_masks[i] = masks[without]
            without += 1
        else:
            others[i] = longer
            other_masks[i] = masks[extended] | bit
            extended += 1


@kernel
def _allowed(
    pool: Pool, loads: Loads, replica: int, candidates: int, count: int, scratch: Scratch
) -> int:
    """Keep the non-empty subsets with a slot for each member and KV room; their number."""
    sums, masks, chosen = scratch.sums, scratch.masks, scratch.chosen
    limited, room, cap = len(loads.room) > 0, room_on(loads, replica), loads.cap[replica]
    kept = 0
    for i in range(count):
        mask = masks[i]
        if mask > 0 and _ones(mask) <= cap:
            needed = 0
            if limited:
                for j in range(candidates):
                    needed += pool.reserved[chosen[j]] if mask >> j & 1 else 0
            if not limited or needed <= room:
                sums[kept] = sums[i]
                masks[kept] = mask
                kept += 1
    return kept


@kernel
def _ones(mask: int) -> int:
    ones = 0
    while mask > 0:
        mask &= mask - 1
        ones += 1
    return ones


@kernel
def _keep_singles(count: int, scratch: Scratch) -> int:
    sums, masks = scratch.sums, scratch.masks
    kept = 0
    for i in range(count):
        mask = masks[i]
        if mask & (mask - 1) == 0:
            sums[kept] = sums[i]
            masks[kept] = mask
            kept += 1
    return kept


@kernel
def _best(margins: IntArray, rules: Rules, lowest: int, sums: IntArray, count: int) -> int:
    """Index of the largest (F, Delta) in ascending sums, the first of equal sums."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if up_to_peak(margins, rules, lowest, sums[middle]):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    below = low - 1
    while below > 0 and sums[below - 1] == sums[below]:
        below -= 1
    if low < count and f_score(margins, rules, sums[low]) >= f_score(margins, rules, sums[below]):
        return low
    return below


@kernel
def _members(scratch: Scratch, candidates: int, mask: int) -> int:
    """Move the mask's candidates to the front of ``chosen``, by position; their number."""
    size = 0
    for j in range(candidates):
        if mask >> j & 1:
            position = scratch.chosen[j]
            i = size
            while i > 0 and scratch.chosen[i - 1] > position:
                scratch.chosen[i] = scratch.chosen[i - 1]
                i -= 1
            scratch.chosen[i] = position
            size += 1
    return size


@entry_kernel
def scratch_for(most: int) -> Scratch:
    """Room for the subsets of ``most`` candidates."""
    return Scratch(
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(1 << most, np.int64),
        np.empty(max(most, 1), np.int64),
    )
