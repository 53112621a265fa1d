"""What a router is shown of the cluster, and the truth as the plainest way of showing it.

The engine reports every event to an outlook, which answers with what the router sees in a tick or
at a placement. ``LiveOutlook`` shows the cluster itself; ``brtheory.simulation.picture`` has one
that may be late and wrong.
"""

from typing import Protocol

from brtheory.core.cluster import Cluster, ClusterView, IntArray
from brtheory.core.requests import Request
from brtheory.simulation.projection import ProjectionTracker

Columns = tuple[IntArray, int]
"""Projected loads, shape (G, C), and the column of h = 0."""


class Outlook(Protocol):
    """The engine's reports, in order of the phases of a step, and the router's questions."""

    def finished(self, request: Request, replica: int, *, output_tokens: int, step: int) -> None:
        """A request made its last token in the step before ``step``."""

    def settled(self, step: int) -> None:
        """All that finished before ``step`` has been reported."""

    def placed(self, request: Request, replica: int, *, step: int) -> None:
        """An immediate router put a request into a replica's own FIFO."""

    def bound(self, request: Request, replica: int, *, step: int) -> None:
        """A request took a slot."""

    def begun(self, request: Request, replica: int, *, step: int) -> None:
        """A bound request decodes from ``step`` on."""

    def idle(self, step: int) -> None:
        """Nothing is active: the cluster waits, and goes on with ``step``."""

    def view(self, step: int) -> ClusterView:
        """What an immediate router sees."""

    def columns(self, step: int) -> Columns:
        """What a pooled router sees."""


class LiveOutlook:
    """The cluster as it is.

    Parameters
    ----------
    cluster
        The truth.
    projection
        Projected loads, None for routers that look no step ahead.
    """

    def __init__(self, cluster: Cluster, projection: ProjectionTracker | None) -> None:
        self._cluster = cluster
        self._projection = projection

    def finished(self, request: Request, replica: int, *, output_tokens: int, step: int) -> None:
        """Take it out of the projection."""
        del replica, output_tokens
        if self._projection is not None:
            self._projection.retire(request.id, step=step)

    def settled(self, step: int) -> None:
        """Let the predictor learn."""
        if self._projection is not None:
            self._projection.refit(step)

    def placed(self, request: Request, replica: int, *, step: int) -> None:
        """The cluster knows."""

    def bound(self, request: Request, replica: int, *, step: int) -> None:
        """The cluster knows."""

    def begun(self, request: Request, replica: int, *, step: int) -> None:
        """Put it into the projection."""
        if self._projection is not None:
            self._projection.admit(request, replica, step=step)

    def idle(self, step: int) -> None:
        """Nothing to catch up with."""

    def view(self, step: int) -> ClusterView:
        """The cluster itself."""
        del step
        return self._cluster

    def columns(self, step: int) -> Columns:
        """Projected loads, or the present ones."""
        if self._projection is None:
            return self._cluster.loads[:, None], 0
        return self._projection.window(step)
