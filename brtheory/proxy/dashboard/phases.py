"""What each router has cost while it ran: integrals over time, from one switch to the next.

Between two samples the loads of the second count for the time since the first. The idle share of a
phase is the ratio of the integrals of I and of G*M, so a step counts by its length, as it costs.
"""

from dataclasses import dataclass
from typing import Any

from brtheory.proxy.ticker import RouterChoice


@dataclass
class RouterPhase:
    """The time from the choice of a router to the next choice.

    Parameters
    ----------
    number
        Counts phases from 0.
    choice
        The router.
    since_s
        When it was first seen, on the books' clock.
    seconds
        How long it has run.
    busy_s
        For how much of that something was being decoded.
    imbalance_s, capacity_s
        Integrals of I and of G*M over the busy time, in token seconds.
    decoded
        Tokens decoded.
    """

    number: int
    choice: RouterChoice
    since_s: float
    seconds: float = 0.0
    busy_s: float = 0.0
    imbalance_s: float = 0.0
    capacity_s: float = 0.0
    decoded: int = 0

    def add(self, *, seconds: float, imbalance: int, capacity: int, decoded: int) -> None:
        """Count a stretch of time.

        Parameters
        ----------
        seconds
            Its length.
        imbalance, capacity
            I and G*M of the loads, in tokens; G*M = 0 is idle time without work.
        decoded
            Tokens decoded in it.
        """
        self.seconds += seconds
        self.decoded += decoded
        if capacity > 0:
            self.busy_s += seconds
            self.imbalance_s += imbalance * seconds
            self.capacity_s += capacity * seconds

    def document(self) -> dict[str, Any]:
        """As JSON; means are over busy time, and None where there was none."""
        busy = self.busy_s > 0
        return {
            "number": self.number,
            "router": self.choice.name,
            "params": dict(self.choice.params),
            "since_s": round(self.since_s, 3),
            "seconds": round(self.seconds, 3),
            "imbalance_tokens": round(self.imbalance_s / self.busy_s, 1) if busy else None,
            "barrier_idle_ratio": round(self.imbalance_s / self.capacity_s, 5) if busy else None,
            "tokens_per_s": round(self.decoded / self.busy_s, 1) if busy else None,
            "decoded_tokens": self.decoded,
        }
