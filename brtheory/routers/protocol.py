"""The two families of routers, one method each.

Immediate routers place a request the moment it arrives; it then waits in that replica's own FIFO.
Pooled routers hold requests in a central pool and bind late, when a slot is free.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from brtheory.core.admission import Admission
from brtheory.core.cluster import ClusterView
from brtheory.core.requests import Request
from brtheory.core.tick import TickState


@runtime_checkable
class ImmediateRouter(Protocol):
    """Binds at arrival."""

    def place(self, request: Request, view: ClusterView) -> int:
        """Replica index for a request that has just become ready."""


@runtime_checkable
class PooledRouter(Protocol):
    """Binds late."""

    @property
    def horizon(self) -> int:
        """H: how many steps of projected loads (H + 1 entries a replica) a tick needs."""

    def tick(self, state: TickState) -> Sequence[Admission]:
        """Admissions of one tick, in decision order; every one has a free slot and KV room."""


Router = ImmediateRouter | PooledRouter
