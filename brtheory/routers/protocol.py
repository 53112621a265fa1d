"""The two families of routers, one method each.

Immediate routers place a request the moment it arrives; it then waits in that replica's own FIFO.
Pooled routers hold requests in a central pool and bind late, when a slot is free.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from brtheory.core.admission import Admission
from brtheory.core.cluster import ClusterView
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.prediction.projection_rules import DEFAULT_RULES, ProjectionRules


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


@runtime_checkable
class FollowingRouter(Protocol):
    """A pooled router whose horizon may follow the load."""

    @property
    def horizon_follows(self) -> bool:
        """Whether H is measured as the cluster runs, not fixed."""

    def look_ahead(self, horizon: int) -> None:
        """Take rows of ``horizon`` + 1 entries from now on."""


@runtime_checkable
class ProjectingRouter(Protocol):
    """A pooled router that says how its projected loads are made."""

    @property
    def projection(self) -> ProjectionRules:
        """How predictions become projected loads."""


@runtime_checkable
class ForeseeingRouter(Protocol):
    """A pooled router whose score asks how long a waiting request would stay if admitted now."""

    def foresee(self, steps_present: Callable[[Request], int]) -> None:
        """Take whom to ask: steps >= 1 at which a request counts as present, this one included."""


@runtime_checkable
class HoldingRouter(Protocol):
    """A pooled router that may leave a request waiting although a slot is free.

    Its decisions change with the loads and with time, not only with arrivals and completions: it
    has to be asked again while requests wait beside free slots.
    """

    @property
    def hold_s(self) -> float:
        """Seconds after which a request is held no longer, 0 where none is ever held."""


@runtime_checkable
class LimitedRouter(Protocol):
    """A router whose search for the best choice of a tick may end at a limit."""

    @property
    def limited_ticks(self) -> int:
        """Ticks so far that a limit ended before their choice was proved best."""


Router = ImmediateRouter | PooledRouter


def projection_rules(router: Router) -> ProjectionRules:
    """The router's rules, the default ones where it has none of its own."""
    return router.projection if isinstance(router, ProjectingRouter) else DEFAULT_RULES


def following(router: Router) -> FollowingRouter | None:
    """The router where its horizon follows the load, None where it is fixed or there is none."""
    if isinstance(router, FollowingRouter) and router.horizon_follows:
        return router
    return None


def longest_hold_s(router: Router) -> float:
    """Seconds for which the router may hold a request, 0 where it never does."""
    return router.hold_s if isinstance(router, HoldingRouter) else 0.0


def limited_ticks(router: Router) -> int | None:
    """Ticks that a limit of the router's search ended, None for a router that does not search."""
    return router.limited_ticks if isinstance(router, LimitedRouter) else None
