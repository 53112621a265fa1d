"""Replicas during a compiled tick: their loads, margins and the heap that says who is next.

A tick never copies the projected loads: what it admits to a replica is one number on top of its
whole row. The heap compares present loads and free slots only, because the envelope is common to
all margins, so that an admission lowers one key and no other.
"""

from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel

SLOTS_FIRST, MARGIN_FIRST, LOAD_ONLY = range(3)
INT64_MAX = 2**63 - 1


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


class Out(NamedTuple):
    """Decisions in order; the arrays hold min(P, S_tot) entries at least."""

    position: IntArray
    replica: IntArray
    stage: IntArray
    score: IntArray


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
def raise_row(loads: Loads, start: int, replica: int) -> None:
    """Raise the envelope where the replica's row now exceeds it."""
    width = len(loads.envelope)
    envelope, added = loads.envelope, loads.added[replica]
    row = loads.columns[replica, start : start + width]
    for h in range(width):
        envelope[h] = max(envelope[h], row[h] + added)


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
