"""Simulated annealing over moves and swaps: random proposals, tried by a compiled loop.

With numba (extra ``fast``) the loop makes some 600,000 proposals a second at production scale,
without it the same Python text makes the same decisions slowly. All randomness comes in as arrays,
so both ways give the same assignment.
"""

from dataclasses import dataclass

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
    from solvers.bounds.annealing_kernels import (  # noqa: PLC0415  # numba takes long to import
        Spans,
        State,
        try_proposals,
    )

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
    )
    loads.sums[:] = sums.T
    return accepted
