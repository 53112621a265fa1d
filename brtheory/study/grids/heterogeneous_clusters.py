"""Clusters of `study heterogeneous`: one slow replica, slower and slower, and clusters of classes.

Speed divides the whole step time of a replica, memory alone the part that grows with tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from brtheory.core.unequal import Replica
from brtheory.simulation.workload import DEFAULT_A0, ClusterShape, unequal_shape

CLUSTER = "cluster"
SLOTS, REPLICAS = 32, 8
ALIKE = "speed=1"
SLOW_SPEEDS = (1.0, 0.9, 0.75, 0.6, 0.5)
MEMORY_FACTORS = (1.5, 2.0)


@dataclass(frozen=True)
class Different:
    """One cluster.

    Parameters
    ----------
    name, title
        Value of the axis ``cluster``, and how it is called.
    replicas
        All of them.
    slow_speed
        Speed of the one slow replica; None where the cluster is none of that series.
    """

    name: str
    title: str
    replicas: Sequence[Replica]
    slow_speed: float | None = None

    @property
    def shape(self) -> ClusterShape:
        """As a run takes it."""
        return unequal_shape(self.replicas)

    @property
    def speeds_differ(self) -> bool:
        """Whether there is anything to know."""
        return len({(r.speed, r.a0) for r in self.replicas}) > 1


def clusters() -> list[Different]:
    """All of them, the one whose replicas are alike first."""
    fast = Replica(SLOTS)
    others = [fast] * (REPLICAS - 1)
    half = REPLICAS // 2
    return [
        *(
            Different(
                f"speed={speed:g}",
                "all alike" if speed == 1 else f"one at speed {speed:g}",
                [*others, Replica(SLOTS, speed)],
                speed,
            )
            for speed in SLOW_SPEEDS
        ),
        *(
            Different(
                f"memory={factor:g}",
                f"one with {factor:g} × time a token",
                [*others, Replica(SLOTS, a0=DEFAULT_A0 * factor)],
            )
            for factor in MEMORY_FACTORS
        ),
        Different("classes", "half at speed 0.7", [fast] * half + [Replica(SLOTS, 0.7)] * half),
        Different(
            "classes-slots",
            "half at speed 0.7 with 16 slots",
            [fast] * half + [Replica(SLOTS // 2, 0.7)] * half,
        ),
        Different("slots", "half with 40 slots, half with 24",
                  [Replica(40)] * half + [Replica(24)] * half),
    ]  # fmt: skip
