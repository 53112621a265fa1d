"""What `study regimes` calls its axes, its base point, and how gains are read from a document."""

from collections.abc import Mapping
from dataclasses import dataclass

from brtheory.study.choices import BASELINE
from brtheory.study.grid.document import GridDocument, Value
from brtheory.study.grid.plan import ROUTER

ARRIVALS, SHARE, MEMORY, SPREAD = "arrivals", "share", "memory", "spread"
NO_LIMIT = "none"
BASE: Mapping[str, Value] = {ARRIVALS: "closed:1.5", SHARE: 1.0, MEMORY: NO_LIMIT, SPREAD: 1.0}
LOST = "barrier_time_fraction"


@dataclass(frozen=True)
class Gain:
    """One point: what JSQ loses, the best router, and what that wins back, shares of time."""

    lost: float
    best: str
    won: float


def gain_at(document: GridDocument, labels: Mapping[str, Value]) -> Gain | None:
    """The gain at one point of a plane, None where a number is missing."""
    losses = {}
    for label in document.values(ROUTER):
        estimate = document.estimate(LOST, {**BASE, **labels, ROUTER: label})
        if estimate is not None:
            losses[str(label)] = estimate.mean
    if BASELINE not in losses:
        return None
    best = min(losses, key=lambda label: losses[label])
    return Gain(losses[BASELINE], best, losses[BASELINE] - losses[best])
