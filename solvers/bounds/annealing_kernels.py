"""The loop of simulated annealing over moves and swaps, compiled where numba is installed.

A proposal takes request i from replica g to h and, if it has a partner j, brings j back. Of a
segment only the largest sum counts, so the three replicas with the largest sums are kept for each
segment: one of them is the largest beside g and h, and no proposal looks at all G. Slots and KV
capacity are looked at for the few proposals that would be accepted.
"""

# ruff: noqa: PLR0917  # compiled functions take positional arguments only

from typing import NamedTuple

from brtheory.routers.backend import entry_kernel, kernel
from solvers.bounds.loads import FloatArray, IntArray


class State(NamedTuple):
    """What accepted proposals change.

    Parameters
    ----------
    sums
        Sum of the load over the segment's steps, shape (segments, G).
    leaders
        Replicas with the three largest sums, shape (segments, 3); -1 where there are fewer.
    tops, active
        As in ``Loads``, shape (G, segments).
    replica
        Replica of each request, shape (n,).
    """

    sums: FloatArray
    leaders: IntArray
    tops: FloatArray
    active: IntArray
    replica: IntArray


class Spans(NamedTuple):
    """What stays: see ``Loads`` for each field."""

    lengths: FloatArray
    middles: FloatArray
    lasts: FloatArray
    first: IntArray
    last: IntArray
    at_zero: FloatArray


@entry_kernel
def try_proposals(
    state: State,
    spans: Spans,
    movers: IntArray,
    partners: IntArray,
    targets: IntArray,
    patience: FloatArray,
    slots: float,
    capacity: float,
    low: int,
    high: int,
) -> int:
    """Try proposals within the segments [low, high) one by one; return how many were accepted."""
    for k in range(low, high):
        rank(state, k)
    accepted = 0
    for n in range(len(movers)):
        i, j = movers[n], partners[n]
        g = state.replica[i]
        h = targets[n] if j < 0 else state.replica[j]
        start, end = spans.first[i], spans.last[i]
        if j >= 0:
            if spans.first[j] >= end or start >= spans.last[j]:
                continue
            start, end = min(start, spans.first[j]), max(end, spans.last[j])
        if (
            g != h
            and rise(state, spans, i, j, h, start, end) <= patience[n]
            and fits(state, spans, i, j, h, start, end, slots, capacity)
        ):
            exchange(state, spans, i, j, h, start, end)
            accepted += 1
    return accepted


@kernel
def rise(state: State, spans: Spans, i: int, j: int, h: int, start: int, end: int) -> float:
    """Change of the objective if a proposal were accepted."""
    g = state.replica[i]
    total = 0.0
    for k in range(start, end):
        work = (weight(spans, i, k, spans.middles) - weight(spans, j, k, spans.middles)) * (
            spans.lengths[k]
        )
        top = max(state.sums[k, g] - work, state.sums[k, h] + work)
        other = state.leaders[k, 0]
        if other in (g, h):
            other = state.leaders[k, 1]
            if other in (g, h):
                other = state.leaders[k, 2]
        if other >= 0:
            top = max(top, state.sums[k, other])
        total += top - state.sums[k, state.leaders[k, 0]]
    return total


@kernel
def fits(
    state: State,
    spans: Spans,
    i: int,
    j: int,
    h: int,
    start: int,
    end: int,
    slots: float,
    capacity: float,
) -> bool:
    """Whether slots and KV capacity allow a proposal."""
    g = state.replica[i]
    for k in range(start, end):
        count = present(spans, i, k) - present(spans, j, k)
        top = weight(spans, i, k, spans.lasts) - weight(spans, j, k, spans.lasts)
        if state.active[h, k] + count > slots or state.active[g, k] - count > slots:
            return False
        if state.tops[h, k] + top > capacity or state.tops[g, k] - top > capacity:
            return False
    return True


@kernel
def exchange(state: State, spans: Spans, i: int, j: int, h: int, start: int, end: int) -> None:
    """Accept a proposal."""
    g = state.replica[i]
    state.replica[i] = h
    if j >= 0:
        state.replica[j] = g
    for k in range(start, end):
        count = present(spans, i, k) - present(spans, j, k)
        top = weight(spans, i, k, spans.lasts) - weight(spans, j, k, spans.lasts)
        work = (weight(spans, i, k, spans.middles) - weight(spans, j, k, spans.middles)) * (
            spans.lengths[k]
        )
        state.sums[k, g] -= work
        state.sums[k, h] += work
        state.tops[g, k] -= top
        state.tops[h, k] += top
        state.active[g, k] -= count
        state.active[h, k] += count
        rank(state, k)


@kernel
def present(spans: Spans, request: int, k: int) -> int:
    """1 if a request is active on a segment, else 0; 0 for nobody."""
    return 1 if request >= 0 and spans.first[request] <= k < spans.last[request] else 0


@kernel
def weight(spans: Spans, request: int, k: int, steps: FloatArray) -> float:
    """Weight of a request at a segment's middle or last step, 0 where it is not active."""
    if request < 0 or not spans.first[request] <= k < spans.last[request]:
        return 0.0
    at_step: float = spans.at_zero[request] + steps[k]
    return at_step


@kernel
def rank(state: State, k: int) -> None:
    """Find the three largest sums of a segment again, ties to the lower index."""
    first = second = third = -1
    for q in range(state.sums.shape[1]):
        load = state.sums[k, q]
        if first < 0 or load > state.sums[k, first]:
            first, second, third = q, first, second
        elif second < 0 or load > state.sums[k, second]:
            second, third = q, second
        elif third < 0 or load > state.sums[k, third]:
            third = q
    state.leaders[k, 0], state.leaders[k, 1], state.leaders[k, 2] = first, second, third
