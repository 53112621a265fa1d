"""What is run today: immediate routers by count, score or tokens, and the pooled FIFO.

Ties rotate: among equally good replicas the first at or after a pointer wins, and the pointer moves
past it. A fixed tie-break to replica 0 would ruin a baseline.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from brtheory.core.admission import Admission
from brtheory.core.cluster import ClusterView
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState, check_state

WAITING_WEIGHT = 4
"""The engine's load-balancing score counts a waiting request as four running ones."""


class Random:
    """A uniformly random replica.

    Parameters
    ----------
    rng
        Source of randomness.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def place(self, request: Request, view: ClusterView) -> int:
        """Draw a replica."""
        del request
        return int(self._rng.integers(len(view.loads)))


class RoundRobin:
    """Replicas in turn."""

    def __init__(self) -> None:
        self._next = 0

    def place(self, request: Request, view: ClusterView) -> int:
        """Take the next replica in cyclic order."""
        del request
        replica = self._next % len(view.loads)
        self._next = replica + 1
        return replica


class PowerOfTwo:
    """Two distinct random replicas, the one with fewer active + queued requests.

    Parameters
    ----------
    rng
        Source of randomness; the first of the pair drawn wins a tie.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def place(self, request: Request, view: ClusterView) -> int:
        """Draw a pair, distinct where there are two replicas, and compare request counts."""
        del request
        replicas = len(view.loads)
        if replicas == 1:
            return 0
        first = int(self._rng.integers(replicas))
        second = (first + 1 + int(self._rng.integers(replicas - 1))) % replicas
        counts = view.active + view.queued
        return second if counts[second] < counts[first] else first


class LeastOf(ABC):
    """Base of the routers that take the replica with the smallest integer key."""

    def __init__(self) -> None:
        self._pointer = 0

    @abstractmethod
    def key(self, view: ClusterView) -> NDArray[np.int64]:
        """Key of each replica, shape (G,); the smallest wins."""

    def place(self, request: Request, view: ClusterView) -> int:
        """Take the first replica at or after the pointer whose key is smallest."""
        del request
        key = self.key(view)
        replicas = len(key)
        ties = np.flatnonzero(key == key.min())
        replica = int(ties[np.argmin((ties - self._pointer) % replicas)])
        self._pointer = (replica + 1) % replicas
        return replica


class JoinShortestQueue(LeastOf):
    """JSQ: fewest active + queued requests."""

    def key(self, view: ClusterView) -> NDArray[np.int64]:
        """Active + queued requests."""
        return view.active + view.queued


class EngineScore(LeastOf):
    """The serving engine's own score, 4*waiting + running."""

    def key(self, view: ClusterView) -> NDArray[np.int64]:
        """4*waiting + running."""
        return WAITING_WEIGHT * view.queued + view.active


class LeastTokens(LeastOf):
    """Least load plus queued prompt tokens: the strongest simple baseline."""

    def key(self, view: ClusterView) -> NDArray[np.int64]:
        """KV tokens running and queued; where replicas differ in speed, the time they take."""
        tokens = view.loads + view.queued_tokens
        return tokens if view.paces is None else view.paces.times(tokens[:, None])[:, 0]


class PoolFifo:
    """Late binding without a score: the oldest request to BR-0's first replica.

    The replica is the one with the largest (free slots, margin), ties to the lower index, exactly
    as in BR-0; only the choice of request differs, so comparing the two separates what the pool
    gains from what the F-score gains. The oldest request is never overtaken: if it has KV room
    nowhere, the tick ends.
    """

    @property
    def horizon(self) -> int:
        """H = 0: present loads only."""
        return 0

    def tick(self, state: TickState) -> list[Admission]:
        """Bind the oldest requests while there is room."""
        check_state(state, horizon=0)
        ledger = TickLedger(state)
        admissions = []
        for request in state.pool:
            open_replicas = [
                g for g in range(ledger.replicas) if ledger.cap[g] > 0 and ledger.fits([request], g)
            ]
            if not open_replicas:
                break
            replica = max(open_replicas, key=lambda g: (ledger.cap[g], ledger.margin(g)))
            ledger.admit([request], replica)
            admissions.append(Admission(request.id, replica))
        return admissions
