"""The arrays of a compiled run, and the small structures on them: FIFOs, heaps, totals."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import entry_kernel, kernel

FloatArray = NDArray[np.float64]

STEPS, SUM_PEAK, SUM_LOAD, SUM_SPREAD, DECODED, COMPLETED = range(6)
CLOCK, ENERGY = range(2)
STEP, ARRIVED, NEXT_ARRIVAL, RUNNING, PREFILLING, TURNING, WAITING, WAITING_TOKENS, POINTER = range(
    9
)
BASE_STEPS, BASE_PEAK, HAS_START, HAS_END = range(9, 13)
COUNTERS = 13


class Requests(NamedTuple):
    """Lengths of the n requests; ``reserved`` is empty where KV capacity is unlimited."""

    prompts: IntArray
    outputs: IntArray
    reserved: IntArray


class Replicas(NamedTuple):
    """Per replica, shape (G,): loads, active requests, reserved tokens, and its own FIFO.

    ``columns`` is ``loads`` as a column, shape (G, 1); ``behind`` links the FIFOs, shape (n,).
    """

    loads: IntArray
    columns: IntArray
    active: IntArray
    reserved: IntArray
    queued: IntArray
    queued_tokens: IntArray
    head: IntArray
    tail: IntArray
    behind: IntArray


class Arrivals(NamedTuple):
    """When requests become ready, shapes (n,).

    Parameters
    ----------
    order
        Requests in the order in which they are ready (timed and step arrivals).
    ready_step
        Absolute ready step, for step arrivals.
    arrival_s, ready_s
        Known times, for timed arrivals.
    prefill_s
        Prefill delays, for the closed loop.
    """

    order: IntArray
    ready_step: IntArray
    arrival_s: FloatArray
    ready_s: FloatArray
    prefill_s: FloatArray


class Heaps(NamedTuple):
    """Binary heaps of (key, request): completions by step, turns by step, prefills by time.

    A turn is the step at which a prediction refresh first sees a request's end inside the horizon.
    """

    finish_step: IntArray
    finish_request: IntArray
    turn_step: IntArray
    turn_request: IntArray
    prefill_s: FloatArray
    prefill_request: IntArray


class Marks(NamedTuple):
    """Running totals and their copies: integers (6,), seconds and joules (2,).

    Parameters
    ----------
    sums, times
        Totals now.
    start_sums, start_times, end_sums, end_times
        Totals at both ends of the loaded window.
    base_clock
        The clock at the last idle jump, shape (1,).
    counters
        Shape (COUNTERS,): see the constants of this module.
    """

    sums: IntArray
    times: FloatArray
    start_sums: IntArray
    start_times: FloatArray
    end_sums: IntArray
    end_times: FloatArray
    base_clock: FloatArray
    counters: IntArray


class Record(NamedTuple):
    """What is kept of each request, shapes (n,), as ``RunRecord``."""

    replica: IntArray
    admitted_step: IntArray
    arrival_s: FloatArray
    ready_s: FloatArray
    admitted_s: FloatArray
    finished_s: FloatArray


@entry_kernel
def make_replicas(replicas: int, requests: int) -> Replicas:
    """An empty cluster."""
    loads = np.zeros(replicas, np.int64)
    return Replicas(
        loads,
        loads.reshape((replicas, 1)),
        np.zeros(replicas, np.int64),
        np.zeros(replicas, np.int64),
        np.zeros(replicas, np.int64),
        np.zeros(replicas, np.int64),
        np.full(replicas, -1),
        np.full(replicas, -1),
        np.empty(requests, np.int64),
    )


@entry_kernel
def make_heaps(running: int, turning: int, prefilling: int) -> Heaps:
    """Empty heaps of the given capacities."""
    return Heaps(
        np.empty(running, np.int64),
        np.empty(running, np.int64),
        np.empty(turning, np.int64),
        np.empty(turning, np.int64),
        np.empty(prefilling, np.float64),
        np.empty(prefilling, np.int64),
    )


@entry_kernel
def make_marks() -> Marks:
    """Totals of a run that has not begun."""
    return Marks(
        np.zeros(6, np.int64),
        np.zeros(2, np.float64),
        np.zeros(6, np.int64),
        np.zeros(2, np.float64),
        np.zeros(6, np.int64),
        np.zeros(2, np.float64),
        np.zeros(1, np.float64),
        np.zeros(COUNTERS, np.int64),
    )


@kernel
def push(keys: NDArray[Any], requests: IntArray, size: int, key: float, request: int) -> None:
    """Add to a heap of ``size`` entries, ordered by (key, request)."""
    node = size
    while node > 0:
        parent = (node - 1) // 2
        if keys[parent] < key or (keys[parent] == key and requests[parent] < request):
            break
        keys[node] = keys[parent]
        requests[node] = requests[parent]
        node = parent
    keys[node] = key
    requests[node] = request


@kernel
def pop(keys: NDArray[Any], requests: IntArray, size: int) -> int:
    """Take the first request out of a heap of ``size`` entries."""
    first = requests[0]
    last = size - 1
    key, request = keys[last], requests[last]
    node = 0
    while 2 * node + 1 < last:
        child = 2 * node + 1
        if child + 1 < last and (
            keys[child + 1] < keys[child]
            or (keys[child + 1] == keys[child] and requests[child + 1] < requests[child])
        ):
            child += 1
        if key < keys[child] or (key == keys[child] and request < requests[child]):
            break
        keys[node] = keys[child]
        requests[node] = requests[child]
        node = child
    keys[node] = key
    requests[node] = request
    return int(first)


@kernel
def enqueue(replicas: Replicas, requests: Requests, request: int, replica: int) -> None:
    """Put a request at the end of a replica's own FIFO."""
    replicas.behind[request] = -1
    if replicas.queued[replica] == 0:
        replicas.head[replica] = request
    else:
        replicas.behind[replicas.tail[replica]] = request
    replicas.tail[replica] = request
    replicas.queued[replica] += 1
    replicas.queued_tokens[replica] += requests.prompts[request]


@kernel
def dequeue(replicas: Replicas, requests: Requests, replica: int) -> None:
    """Take the oldest request out of a replica's own FIFO."""
    request = replicas.head[replica]
    replicas.head[replica] = replicas.behind[request]
    replicas.queued[replica] -= 1
    replicas.queued_tokens[replica] -= requests.prompts[request]
