"""Loads of an assignment by replica and segment, as arrays that local search changes in place.

Admission steps are fixed, so the segments between events are too, whatever the replicas.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.instance import Instance
from solvers.bounds.plan import event_steps

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Loads:
    """Load sums of every replica on every segment, and the requests that make them.

    Parameters
    ----------
    sums
        Sum of the load over the segment's steps, shape (G, segments); changed in place.
    tops
        Load at the segment's last step, shape (G, segments); changed in place.
    active
        Active requests, shape (G, segments); changed in place.
    lengths, middles, lasts
        Of each segment: its steps, the mean of its steps, its last step.
    first, last
        First segment of each request, and the segment after its last, shape (n,).
    at_zero
        Weight of each request minus the step, shape (n,).
    replica
        Replica of each request, shape (n,); changed in place.
    """

    sums: FloatArray
    tops: FloatArray
    active: IntArray
    lengths: FloatArray
    middles: FloatArray
    lasts: FloatArray
    first: IntArray
    last: IntArray
    at_zero: FloatArray
    replica: IntArray

    def work(self, request: int) -> FloatArray:
        """Sum of a request's weight over each segment of its span."""
        span = self.span(request)
        weights: FloatArray = (self.at_zero[request] + self.middles[span]) * self.lengths[span]
        return weights

    def top(self, request: int) -> FloatArray:
        """Weight of a request at the last step of each segment of its span."""
        weights: FloatArray = self.at_zero[request] + self.lasts[self.span(request)]
        return weights

    def span(self, request: int) -> slice:
        """Segments in which a request is active."""
        return slice(int(self.first[request]), int(self.last[request]))

    def put(self, request: int, replica: int, *, sign: int) -> None:
        """Add a request to a replica (sign 1) or take it away (sign -1)."""
        span = self.span(request)
        self.sums[replica, span] += sign * self.work(request)
        self.tops[replica, span] += sign * self.top(request)
        self.active[replica, span] += sign

    def move(self, request: int, replica: int) -> None:
        """Move a request to another replica."""
        self.put(request, int(self.replica[request]), sign=-1)
        self.put(request, replica, sign=1)
        self.replica[request] = replica


def loads_of(instance: Instance, assignment: Assignment) -> Loads:
    """Loads of a feasible assignment; requests are numbered as it lists them."""
    requests = {request.id: request for request in instance.requests}
    cuts = np.array(event_steps(instance, {p.id: p.step for p in assignment}), dtype=np.int64)
    starts = np.array([p.step for p in assignment], dtype=np.int64)
    outputs = np.array([requests[p.id].output_tokens for p in assignment], dtype=np.int64)
    prompts = np.array([requests[p.id].prompt_tokens for p in assignment], dtype=np.int64)
    shape = (instance.replicas, max(0, len(cuts) - 1))
    loads = Loads(
        sums=np.zeros(shape),
        tops=np.zeros(shape),
        active=np.zeros(shape, dtype=np.int64),
        lengths=np.diff(cuts).astype(np.float64),
        middles=(cuts[:-1] + cuts[1:] - 1) / 2,
        lasts=(cuts[1:] - 1).astype(np.float64),
        first=np.searchsorted(cuts, starts),
        last=np.searchsorted(cuts, starts + outputs),
        at_zero=(prompts - starts).astype(np.float64),
        replica=np.array([p.replica for p in assignment], dtype=np.int64),
    )
    for request, replica in enumerate(loads.replica.tolist()):
        loads.put(request, replica, sign=1)
    return loads


def assignment_of(loads: Loads, assignment: Assignment) -> Assignment:
    """The assignment with the replicas the loads have now."""
    replicas = loads.replica.tolist()
    return tuple(Placement(p.id, g, p.step) for p, g in zip(assignment, replicas, strict=True))
