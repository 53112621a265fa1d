"""Simulated annealing over moves and swaps: random proposals, tried by a compiled loop.

With numba (extra ``fast``) the loop makes some 600,000 proposals a second at production scale,
without it the same Python text makes the same decisions slowly. All randomness comes in as arrays,
so both ways give the same assignment.

Proposals that look at different segments do not meet. So time is cut into sides at random places,
each side has proposals for the requests that start and end in it, and the sides run in threads.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise

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

    def among(self, members: IntArray) -> "Proposals":
        """The same proposals, whose requests are positions in ``members``, for these requests."""
        partner = np.where(self.partner == NOBODY, NOBODY, members[self.partner])
        return Proposals(members[self.request], partner, self.target, self.patience)


@dataclass(frozen=True)
class Side:
    """Segments [low, high), and the requests that start and end in them, ascending."""

    low: int
    high: int
    members: IntArray


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


def cut_sides(loads: Loads, rng: np.random.Generator, *, sides: int) -> list[Side]:
    """Cut time at random places into sides that have at least two requests, for their own threads.

    Every place but near both ends is a border at times, so every request is within a side at times.
    """
    segments = len(loads.lengths)
    places = (np.arange(1, sides) + rng.uniform(-0.5, 0.5, size=sides - 1)) / sides
    borders = (places * segments).astype(np.int64).tolist()
    found = []
    for low, high in pairwise([0, *borders, segments]):
        members = np.flatnonzero((loads.first >= low) & (loads.last <= high))
        if len(members) > 1:
            found.append(Side(low, high, members))
    return found


def anneal_sides(
    loads: Loads,
    sides: Sequence[Side],
    proposals: Sequence[Proposals],
    *,
    slots: int,
    capacity: float,
    threads: Executor,
) -> int:
    """Try the sides' proposals (positions among their members) side by side; count the accepted.

    The other parameters are those of ``anneal``.
    """

    def run(side: Side, batch: Proposals) -> int:
        own = batch.among(side.members)
        segments = (side.low, side.high)
        return anneal(loads, own, slots=slots, capacity=capacity, segments=segments)

    return sum(threads.map(run, sides, proposals))


def anneal(
    loads: Loads,
    proposals: Proposals,
    *,
    slots: int,
    capacity: float,
    segments: tuple[int, int] | None = None,
) -> int:
    """Try the proposals one after the other; return how many were accepted.

    Parameters
    ----------
    loads
        Changed in place by every accepted proposal.
    proposals
        The batch.
    slots, capacity
        Limits that every accepted proposal respects; infinity for unlimited KV capacity.
    segments
        First segment that the proposals touch, and the one after the last; None for all.
    """
    from solvers.bounds.annealing_kernels import (  # noqa: PLC0415  # numba takes long to import
        Spans,
        State,
        try_proposals,
    )

    low, high = (0, len(loads.lengths)) if segments is None else segments
    sums = np.ascontiguousarray(loads.sums.T)  # a segment's replicas side by side
    leaders = np.empty((len(sums), 3), dtype=np.int64)
    accepted = try_proposals(
        State(sums, leaders, loads.tops, loads.active, loads.replica),
        Spans(loads.lengths, loads.middles, loads.lasts, loads.first, loads.last, loads.at_zero),
        proposals.request,
        proposals.partner,
        proposals.target,
        proposals.patience,
        float(slots),
        capacity,
        low,
        high,
    )
    loads.sums[:, low:high] = sums[low:high].T
    return accepted
