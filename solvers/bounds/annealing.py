"""The loop of simulated annealing over moves and swaps, compiled where numba is installed.

One function, two ways to run it: with numba (extra ``fast``) it makes about 300,000 proposals a
second at production scale, without it the same Python text makes the same decisions slowly. All
randomness comes in as arrays, so both ways give the same assignment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from solvers.bounds.loads import FloatArray, IntArray, Loads

NOBODY = -1
"""Partner of a proposal that moves one request alone."""


@dataclass(frozen=True)
class Proposals:
    """A batch of random proposals, all of shape (batch,).

    Parameters
    ----------
    request, partner
        The request to move, and the one that comes back for it or ``NOBODY``.
    target
        Replica to move to where there is no partner.
    patience
        Largest rise of the objective that is accepted, in token-steps.
    """

    request: IntArray
    partner: IntArray
    target: IntArray
    patience: FloatArray


def draw_proposals(
    rng: np.random.Generator,
    *,
    batch: int,
    requests: int,
    replicas: int,
    reach: int,
    temperature: float,
) -> Proposals:
    """Draw proposals: two fifths moves, the others swaps with a request at most ``reach`` away."""
    request = rng.integers(requests, size=batch)
    partner = request + rng.integers(-reach, reach + 1, size=batch)
    outside = (partner < 0) | (partner >= requests) | (partner == request)
    partner[outside | (rng.random(batch) < 0.4)] = NOBODY
    # Metropolis: accept a rise d if uniform < exp(-d/T), that is d < -T*ln(uniform).
    patience = -temperature * np.log1p(-rng.random(batch))
    return Proposals(request, partner, rng.integers(replicas, size=batch), patience)


def anneal(loads: Loads, proposals: Proposals, *, slots: int, capacity: float) -> int:
    """Try the proposals one after the other; return how many were accepted.

    Parameters
    ----------
    loads
        Changed in place by every accepted proposal.
    proposals
        The batch.
    slots, capacity
        Limits that every accepted proposal respects; infinity for unlimited KV capacity.
    """
    accepted: int = _loop()(
        (loads.sums, loads.tops, loads.active),
        (loads.lengths, loads.middles, loads.lasts),
        (loads.first, loads.last, loads.at_zero, loads.replica),
        (proposals.request, proposals.partner, proposals.target, proposals.patience),
        (slots, capacity),
    )
    return accepted


@cache
def _loop() -> Callable[..., Any]:
    if find_spec("numba") is None:
        return _anneal
    import numba  # noqa: PLC0415  # optional, and slow to import

    compiled: Callable[..., Any] = numba.njit(cache=True)(_anneal)
    return compiled


def _anneal(  # noqa: PLR0912, PLR0915  # one function, so that numba compiles it as it stands
    state: Any, segments: Any, requests: Any, proposals: Any, limits: Any
) -> int:
    sums, tops, active = state
    lengths, middles, lasts = segments
    first, last, at_zero, replica = requests
    movers, partners, targets, patience = proposals
    slots, capacity = limits
    accepted = 0
    for n in range(len(movers)):
        i, j = movers[n], partners[n]
        g = replica[i]
        h = targets[n] if j < 0 else replica[j]
        if g == h or (j >= 0 and (first[i] >= last[j] or first[j] >= last[i])):
            continue
        start, end = first[i], last[i]
        if j >= 0:
            start, end = min(start, first[j]), max(end, last[j])
        change = 0.0
        fits = True
        for k in range(start, end):
            moves, returns = first[i] <= k < last[i], j >= 0 and first[j] <= k < last[j]
            work = top = 0.0
            count = 0
            if moves:
                work += at_zero[i] + middles[k]
                top += at_zero[i] + lasts[k]
                count += 1
            if returns:
                work -= at_zero[j] + middles[k]
                top -= at_zero[j] + lasts[k]
                count -= 1
            if (
                active[h, k] + count > slots
                or active[g, k] - count > slots
                or tops[h, k] + top > capacity
                or tops[g, k] - top > capacity
            ):
                fits = False
                break
            work *= lengths[k]
            old = new = 0.0
            for q in range(sums.shape[0]):
                value = sums[q, k]
                old = max(old, value)
                if q == g:
                    value -= work
                elif q == h:
                    value += work
                new = max(new, value)
            change += new - old
        if not fits or change > patience[n]:
            continue
        accepted += 1
        replica[i] = h
        if j >= 0:
            replica[j] = g
        for k in range(start, end):
            work = top = 0.0
            count = 0
            if first[i] <= k < last[i]:
                work += at_zero[i] + middles[k]
                top += at_zero[i] + lasts[k]
                count += 1
            if j >= 0 and first[j] <= k < last[j]:
                work -= at_zero[j] + middles[k]
                top -= at_zero[j] + lasts[k]
                count -= 1
            work *= lengths[k]
            sums[g, k] -= work
            sums[h, k] += work
            tops[g, k] -= top
            tops[h, k] += top
            active[g, k] -= count
            active[h, k] += count
    return accepted
