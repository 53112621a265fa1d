"""A picture of the cluster that may be late and wrong: what routers are shown for the truth.

It is fed by the engine's own events ``delay`` steps later, with requests as the router sees them
(their prompts may be misjudged), counted from their binding on, also while their KV cache is still
on its way. In a tick before step k it is the picture of a tick before step k - delay. What the
router has bound or placed itself since is added to it, if it keeps book. Free slots and KV room
are always true: engines announce them, and a router that overbooked them would be refused.
Nothing is late any more once the cluster has been idle.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from brtheory.core.cluster import ClusterView, IntArray
from brtheory.core.requests import Request
from brtheory.core.unequal import Paces
from brtheory.simulation.outlook import Columns
from brtheory.simulation.projection import ProjectionTracker


@dataclass(frozen=True, slots=True)
class PictureView:
    """A ``ClusterView`` of plain arrays."""

    loads: IntArray
    active: IntArray
    queued: IntArray
    queued_tokens: IntArray
    paces: Paces | None


class RelayedOutlook:
    """A picture of the cluster, late by ``delay`` steps.

    Parameters
    ----------
    replicas
        G.
    projection
        Projected loads, fed as late as the rest; None for routers that look no step ahead.
    paces
        Where replicas differ in speed.
    delay
        Steps, >= 0.
    immediate
        Whether the router places requests into the replicas' own FIFOs.
    keeps_book
        Whether it counts what it has placed (bound, for a pooled router) since the picture.
    """

    def __init__(
        self,
        *,
        replicas: int,
        projection: ProjectionTracker | None,
        paces: Paces | None,
        delay: int,
        immediate: bool,
        keeps_book: bool,
    ) -> None:
        self._projection = projection
        self._paces = paces
        self._delay = delay
        self._picture = _Picture(replicas, projection, immediate=immediate)
        self._own: _Report | None = None
        if keeps_book:
            self._own = self._picture.placed if immediate else self._picture.bound
        self._own_requests: IntArray = np.zeros(replicas, dtype=np.int64)
        self._own_tokens: IntArray = np.zeros(replicas, dtype=np.int64)
        self._events: deque[_Event] = deque()
        self._floor = 0

    def finished(self, request: Request, replica: int, *, output_tokens: int, step: int) -> None:
        """Seen in ticks from ``delay`` steps later on."""
        self._note(self._picture.finished, step, _Subject(request, replica, output_tokens), late=0)

    def settled(self, step: int) -> None:
        """As ``finished``."""
        if self._projection is not None:
            self._note(self._picture.settled, step, _NOBODY, late=0)

    def placed(self, request: Request, replica: int, *, step: int) -> None:
        """Seen in ticks later than ``delay`` steps; in the router's own book at once."""
        self._note(self._picture.placed, step, _Subject(request, replica), late=1)

    def bound(self, request: Request, replica: int, *, step: int) -> None:
        """As ``placed``."""
        self._note(self._picture.bound, step, _Subject(request, replica), late=1)

    def begun(self, request: Request, replica: int, *, step: int) -> None:
        """Seen in ticks later than ``delay`` steps."""
        self._note(self._picture.begun, step, _Subject(request, replica), late=1)

    def idle(self, step: int) -> None:
        """Catch up with everything."""
        while self._events:
            self._see()
        self._floor = step

    def view(self, step: int) -> ClusterView:
        """Loads, requests and FIFOs as of ``delay`` steps ago, own placements since added."""
        picture = self._as_of(step)
        return PictureView(
            loads=picture.loads.copy(),
            active=picture.active.copy(),
            queued=picture.queued + self._own_requests,
            queued_tokens=picture.queued_tokens + self._own_tokens,
            paces=self._paces,
        )

    def columns(self, step: int) -> Columns:
        """Loads or projected loads as of ``delay`` steps ago, own admissions since added."""
        picture = self._as_of(step)
        if self._projection is None:
            return (picture.loads + self._own_tokens)[:, None], 0
        # What is still on its way is in no projection yet: it weighs its prompt.
        waiting = picture.on_the_way + self._own_tokens
        rows = self._projection.rows(picture.step) + waiting[:, None]
        return np.ascontiguousarray(rows), 0

    def _as_of(self, step: int) -> "_Picture":
        while self._events and self._events[0].seen_from <= step:
            self._see()
        self._picture.advance(max(step - self._delay, self._floor))
        return self._picture

    def _note(self, report: "_Report", step: int, subject: "_Subject", *, late: int) -> None:
        """Keep an event for later; without a delay it is seen at once."""
        if self._delay == 0:
            self._picture.advance(step)
            report(subject)
            return
        self._events.append(_Event(step + self._delay + late, step, report, subject))
        if report == self._own:
            self._book(subject, 1)

    def _see(self) -> None:
        event = self._events.popleft()
        self._picture.advance(event.step)
        event.report(event.subject)
        if event.report == self._own:
            self._book(event.subject, -1)

    def _book(self, subject: "_Subject", sign: int) -> None:
        self._own_requests[subject.replica] += sign
        self._own_tokens[subject.replica] += sign * subject.request.prompt_tokens


class _Subject(NamedTuple):
    request: Request
    replica: int
    output_tokens: int = 0


_NOBODY = _Subject(Request(-1, 1), 0)
_Report = Callable[[_Subject], None]


class _Event(NamedTuple):
    seen_from: int
    step: int
    report: _Report
    subject: _Subject


class _Picture:
    """Counts and tokens per replica at absolute step ``step``, each of shape (G,)."""

    def __init__(
        self, replicas: int, projection: ProjectionTracker | None, *, immediate: bool
    ) -> None:
        self.step = 0
        table = np.zeros((6, replicas), dtype=np.int64)
        self.loads, self.active, self.queued, self.queued_tokens, *rest = table
        self.on_the_way, self._decoding = rest
        self._projection = projection
        self._immediate = immediate

    def advance(self, step: int) -> None:
        if step > self.step:
            self.loads += (step - self.step) * self._decoding
            self.step = step

    def finished(self, subject: _Subject) -> None:
        g = subject.replica
        self.loads[g] -= subject.request.prompt_tokens + subject.output_tokens
        self.active[g] -= 1
        self._decoding[g] -= 1
        if self._projection is not None:
            self._projection.retire(subject.request.id, step=self.step)

    def settled(self, subject: _Subject) -> None:
        del subject
        if self._projection is not None:
            self._projection.refit(self.step)

    def placed(self, subject: _Subject) -> None:
        self.queued[subject.replica] += 1
        self.queued_tokens[subject.replica] += subject.request.prompt_tokens

    def bound(self, subject: _Subject) -> None:
        g, tokens = subject.replica, subject.request.prompt_tokens
        self.active[g] += 1
        self.loads[g] += tokens
        self.on_the_way[g] += tokens
        if self._immediate:
            self.queued[g] -= 1
            self.queued_tokens[g] -= tokens

    def begun(self, subject: _Subject) -> None:
        g = subject.replica
        self._decoding[g] += 1
        self.on_the_way[g] -= subject.request.prompt_tokens
        if self._projection is not None:
            self._projection.admit(subject.request, g, step=self.step)
