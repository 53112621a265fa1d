"""What each router cost in a demo, by the emulator's own books.

A phase lasts from one choice of a router to the next. Requests bound by the router before are still
there when it begins, so its second half is told apart: that is nearer to what the router would cost
by itself.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from brtheory.emulator.deployment import Deployment
from brtheory.proxy.ticker import RouterChoice

POLL_S = 0.25
MOST_SEEN = 4096


class Totals(NamedTuple):
    """The emulator's totals up to a time: steps, sums of G*M and of I over them, tokens."""

    time_s: float
    steps: int
    capacity: int
    imbalance: int
    tokens: int


@dataclass
class Phase:
    """A router's time: the totals seen in it, the first at its beginning."""

    choice: RouterChoice
    seen: list[Totals] = field(default_factory=list)
    _added: int = 0
    _stride: int = 1

    def add(self, totals: Totals) -> None:
        """Remember totals; of a long phase only every second, fourth, ... and the newest."""
        self._added += 1
        if self._added % self._stride and len(self.seen) > 1:
            self.seen[-1] = totals
        else:
            self.seen.append(totals)
        if len(self.seen) > MOST_SEEN:
            del self.seen[1:-1:2]
            self._stride *= 2

    def document(self) -> dict[str, Any]:
        """As JSON."""
        first, last = self.seen[0], self.seen[-1]
        middle_s = (first.time_s + last.time_s) / 2
        middle = next(totals for totals in self.seen if totals.time_s >= middle_s)
        return {
            "router": self.choice.name,
            **cost_between(first, last),
            "second_half": cost_between(middle, last),
        }


class PhaseLog:
    """Follows which router runs, whoever switches it.

    Parameters
    ----------
    deployment
        The emulator's books.
    choice
        Tells the present router.
    clock
        Seconds.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        choice: Callable[[], RouterChoice],
        clock: Callable[[], float],
    ) -> None:
        self.phases: list[Phase] = []
        self._deployment = deployment
        self._choice = choice
        self._clock = clock

    async def run(self) -> None:
        """Take a note now and then until cancelled."""
        while True:
            self.note()
            await asyncio.sleep(POLL_S)

    def note(self) -> None:
        """Note the totals now; they end a phase and begin another if the router has changed."""
        totals, choice = self._totals(), self._choice()
        if self.phases:
            self.phases[-1].add(totals)
        if not self.phases or self.phases[-1].choice is not choice:
            self.phases.append(Phase(choice, [totals]))

    def _totals(self) -> Totals:
        group = self._deployment.decode.group
        totals = group.totals
        return Totals(
            time_s=self._clock(),
            steps=totals.steps,
            capacity=len(group.loads) * totals.sum_peak,
            imbalance=group.imbalance_total,
            tokens=totals.decoded_tokens,
        )


def cost_between(first: Totals, last: Totals) -> dict[str, Any]:
    """What happened in between; means are None where no step was made.

    The idle share is the ratio of the sums of I and of G*M over the steps.
    """
    seconds, steps = last.time_s - first.time_s, last.steps - first.steps
    imbalance, capacity = last.imbalance - first.imbalance, last.capacity - first.capacity
    return {
        "seconds": round(seconds, 3),
        "steps": steps,
        "imbalance_mean_tokens": round(imbalance / steps, 1) if steps else None,
        "barrier_idle_fraction": round(imbalance / capacity, 5) if capacity else None,
        "decoded_tokens": last.tokens - first.tokens,
        "tokens_per_s": round((last.tokens - first.tokens) / seconds, 1) if seconds else None,
    }
