"""A router's decision: one request bound to one replica, for life."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Admission:
    """One admitted request, in decision order.

    Parameters
    ----------
    id
        The request.
    replica
        Index of the replica, 0 <= replica < G.
    stage
        1 or 2 for a two-stage tick, None for routers without stages.
    score
        Integer F of the whole set admitted by this decision (repeated on each of its requests),
        None for routers that do not score.
    """

    id: int
    replica: int
    stage: int | None = None
    score: int | None = None
