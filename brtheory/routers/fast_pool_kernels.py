"""The pool in arrays, for compiled code: a linked FIFO, and the same requests sorted by prompt.

A request is a position 0 .. n - 1; of equal prompts the lower position is the older. The FIFO is a
doubly linked list closed by the sentinel n. The sorted view is a static order of all positions by
(prompt, position) with a bit per rank that says whether the request is waiting, under a binary
tree of "any below": insertion, removal and the nearest waiting rank take O(log n).
"""

# ruff: noqa: FBT001  # compiled functions take positional arguments only

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel

ByteArray = NDArray[np.uint8]
RADIX_BITS = 11


class Pool(NamedTuple):
    """A pool of n possible requests, shapes (n,) unless said otherwise.

    Parameters
    ----------
    prompts, reserved
        Tokens by position; ``reserved`` is empty where KV capacity is unlimited.
    after, before
        Links of the FIFO, shape (n + 1,).
    order, ranked, rank
        Position by rank, prompt by rank, rank by position; empty where nothing asks for them.
    alive
        The tree, uint8, shape (2 * leaves,), leaves a power of two >= n; or empty.
    """

    prompts: IntArray
    reserved: IntArray
    after: IntArray
    before: IntArray
    order: IntArray
    ranked: IntArray
    rank: IntArray
    alive: ByteArray


@kernel
def append(pool: Pool, position: int) -> None:
    """Put a request at the end of the FIFO."""
    end = len(pool.prompts)
    last = pool.before[end]
    pool.after[last] = position
    pool.before[position] = last
    pool.after[position] = end
    pool.before[end] = position
    if len(pool.alive) > 0:
        _mark(pool.alive, pool.rank[position])


@kernel
def fill(pool: Pool, first: int, count: int) -> None:
    """Put the requests from position ``first`` on into an empty pool, oldest first."""
    end, alive = len(pool.prompts), pool.alive
    last = end
    for position in range(first, first + count):
        pool.after[last] = position
        pool.before[position] = last
        last = position
    pool.after[last] = end
    pool.before[end] = last
    if len(alive) > 0:
        leaves = len(alive) // 2
        for position in range(first, first + count):
            alive[leaves + pool.rank[position]] = 1
        for node in range(leaves - 1, 0, -1):
            alive[node] = alive[2 * node] | alive[2 * node + 1]


@kernel
def remove(pool: Pool, position: int) -> None:
    """Take a request out."""
    before, after = pool.before[position], pool.after[position]
    pool.after[before] = after
    pool.before[after] = before
    if len(pool.alive) > 0:
        _unmark(pool.alive, pool.rank[position])


@kernel
def oldest(pool: Pool) -> int:
    """Position of the oldest request, n if the pool is empty."""
    return int(pool.after[len(pool.prompts)])


@kernel
def up_to(pool: Pool, ranks: int, room: int) -> int:
    """Position of the largest prompt among the first ``ranks`` with room, the oldest of equals.

    ``room`` is the free KV tokens, looked at where capacity is limited; -1 if there is none.
    """
    found = _at_or_before(pool.alive, ranks - 1)
    while found >= 0 and not _has_room(pool, pool.order[found], room):
        found = _at_or_before(pool.alive, found - 1)
    if found <= 0 or pool.ranked[found - 1] != pool.ranked[found]:
        return pool.order[found] if found >= 0 else -1
    first = count_below(pool.ranked, pool.ranked[found])
    return beyond(pool, first, room)


@kernel
def beyond(pool: Pool, ranks: int, room: int) -> int:
    """Position of the smallest prompt past the first ``ranks`` with room, the oldest of equals."""
    found = _at_or_after(pool.alive, ranks)
    while found >= 0 and not _has_room(pool, pool.order[found], room):
        found = _at_or_after(pool.alive, found + 1)
    return pool.order[found] if found >= 0 else -1


@kernel
def largest(pool: Pool, chosen: IntArray, most: int) -> int:
    """Fill ``chosen`` with the ``most`` longest prompts, equal ones oldest first; their number."""
    count, top = 0, len(pool.order)
    while count < most:
        last = _at_or_before(pool.alive, top - 1)
        if last < 0:
            break
        top = count_below(pool.ranked, pool.ranked[last])
        found = _at_or_after(pool.alive, top)
        while 0 <= found <= last and count < most:
            chosen[count] = pool.order[found]
            count += 1
            found = _at_or_after(pool.alive, found + 1)
    return count


@kernel
def count_below(ascending: IntArray, value: int) -> int:
    """Number of entries < value."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@entry_kernel
def stable_order(values: IntArray) -> IntArray:
    """Positions by (value, position) for values >= 0: a radix sort, linear in their number."""
    n = len(values)
    order, spare = np.arange(n), np.empty(n, np.int64)
    count = np.empty(1 << RADIX_BITS, np.int64)
    highest = values.max() if n > 0 else 0
    shift = 0
    while shift < 63 and highest >> shift > 0:
        count[:] = 0
        for i in range(n):
            count[(values[i] >> shift) & ((1 << RADIX_BITS) - 1)] += 1
        total = 0
        for digit in range(1 << RADIX_BITS):
            total, count[digit] = total + count[digit], total
        for i in range(n):
            digit = (values[order[i]] >> shift) & ((1 << RADIX_BITS) - 1)
            spare[count[digit]] = order[i]
            count[digit] += 1
        order, spare = spare, order
        shift += RADIX_BITS
    return order


@entry_kernel
def make_pool(prompts: IntArray, reserved: IntArray, sort: bool) -> Pool:
    """An empty pool of n possible requests, with or without the sorted view."""
    n = len(prompts)
    after, before = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    after[n] = n
    before[n] = n
    if not sort:
        none = np.empty(0, np.int64)
        return Pool(prompts, reserved, after, before, none, none, none, np.empty(0, np.uint8))
    leaves = 1
    while leaves < n:
        leaves *= 2
    order, rank = stable_order(prompts), np.empty(n, np.int64)
    for r in range(n):
        rank[order[r]] = r
    alive = np.zeros(2 * leaves, np.uint8)
    return Pool(prompts, reserved, after, before, order, prompts[order], rank, alive)


@kernel
def _has_room(pool: Pool, position: int, room: int) -> bool:
    return len(pool.reserved) == 0 or pool.reserved[position] <= room


@kernel
def _mark(alive: ByteArray, rank: int) -> None:
    node = len(alive) // 2 + rank
    while node > 0 and alive[node] == 0:
        alive[node] = 1
        node //= 2


@kernel
def _unmark(alive: ByteArray, rank: int) -> None:
    node = len(alive) // 2 + rank
    alive[node] = 0
    while node > 1 and alive[node ^ 1] == 0:
        node //= 2
        alive[node] = 0


@kernel
def _at_or_before(alive: ByteArray, rank: int) -> int:
    """The last waiting rank <= rank, -1 if there is none."""
    leaves = len(alive) // 2
    if rank < 0:
        return -1
    node = leaves + rank
    if alive[node] != 0:
        return rank
    while node > 1:
        if node & 1 == 1 and alive[node - 1] != 0:
            node -= 1
            while node < leaves:
                node = 2 * node + 1 if alive[2 * node + 1] != 0 else 2 * node
            return node - leaves
        node //= 2
    return -1


@kernel
def _at_or_after(alive: ByteArray, rank: int) -> int:
    """The first waiting rank >= rank, -1 if there is none."""
    leaves = len(alive) // 2
    if rank >= leaves:
        return -1
    node = leaves + rank
    if alive[node] != 0:
        return rank
    while node > 1:
        if node & 1 == 0 and alive[node + 1] != 0:
            node += 1
            while node < leaves:
                node = 2 * node if alive[2 * node] != 0 else 2 * node + 1
            return node - leaves
        node //= 2
    return -1
