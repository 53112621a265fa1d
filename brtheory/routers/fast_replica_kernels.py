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
        those included.
    heap
        Indices of open replicas, the next one first.
    major, minor
        What the heap compares, by its nodes and so side by side.
    envelope, margins
        M_h, and m_{g,h} of the replica in turn, shape (H + 1,).
    """

    columns: IntArray
    cap: IntArray
    room: IntArray
    added: IntArray
    present: IntArray
    heap: IntArray
    major: IntArray
    minor: IntArray
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
    # Few allocations: each costs as much as an admission to a small cluster.
    own = np.empty((6, len(free_slots)), np.int64)
    margins = np.empty((2, width), np.int64)
    for g in range(len(free_slots)):
        own[0, g] = free_slots[g]
        own[1, g] = 0
        own[2, g] = columns[g, start]
    return Loads(
        columns, own[0], room.copy(), own[1], own[2], own[3], own[4], own[5], margins[0], margins[1]
    )


@entry_kernel
def make_out(entries: int) -> Out:
    """Room for ``entries`` decisions."""
    return as_out(np.empty((4, entries), np.int64))


@entry_kernel
def as_out(rows: IntArray) -> Out:
    """Decisions as the rows of one array."""
    return Out(rows[0], rows[1], rows[2], rows[3])


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
            _set_key(loads, key, size)
            size += 1
    for node in range(size // 2 - 1, -1, -1):
        _sift(loads, size, node)
    return size


@kernel
def settle_top(loads: Loads, key: int, size: int) -> int:
    """Put the replica just served where it belongs now; the size left."""
    if loads.cap[loads.heap[0]] == 0:
        size -= 1
        loads.heap[0] = loads.heap[size]
    _set_key(loads, key, 0)
    _sift(loads, size, 0)
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
def _set_key(loads: Loads, key: int, node: int) -> None:
    """The larger (cap, margin) or (margin, cap) is the smaller (major, minor)."""
    cap, load = loads.cap[loads.heap[node]], loads.present[loads.heap[node]]
    loads.major[node] = -cap if key == SLOTS_FIRST else load
    loads.minor[node] = load if key == SLOTS_FIRST else (-cap if key == MARGIN_FIRST else 0)


@kernel
def _sift(loads: Loads, size: int, node: int) -> None:
    """Move a node's entry down to its place, ties to the lower replica."""
    heap, major, minor = loads.heap, loads.major, loads.minor
    if node >= size:
        return
    g, first, second = heap[node], major[node], minor[node]
    child = 2 * node + 1
    while child < size:
        # Which child precedes is a coin toss: added up, not branched on.
        other = min(child + 1, size - 1)
        a, b = major[other] - major[child], minor[other] - minor[child]
        child += (a < 0) | ((a == 0) & ((b < 0) | ((b == 0) & (heap[other] < heap[child]))))
        a, b = major[child] - first, minor[child] - second
        if not ((a < 0) | ((a == 0) & ((b < 0) | ((b == 0) & (heap[child] < g))))):
            break
        heap[node], major[node], minor[node] = heap[child], major[child], minor[child]
        node = child
        child = 2 * node + 1
    heap[node], major[node], minor[node] = g, first, second
