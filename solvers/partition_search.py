"""One run of the dynamic program over the timeline of case A, exact or as a beam.

At each event: completions, merging of equal partitions, admissions, then the steps run. A state
that cannot beat a known assignment, even if the rest costs only its segment bounds, is dropped.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.instance import OfflineRequest
from solvers.budget import Budget, Progress
from solvers.kernels import best_kernel
from solvers.partition_history import History, Lanes, Layer
from solvers.partitions import Kernel, Parents, States, empty_state
from solvers.problem import FixedAdmissions
from solvers.result import Claim, Limit, Stop
from solvers.timeline import Segment, segment_bound, timeline, weights

WORTH_DROPPING = 0.1
"""Share of states that must be hopeless before the others are copied."""


@dataclass
class Outcome:
    """What a run over the timeline found, in sums of M.

    Parameters
    ----------
    sum_peak, assignment
        The cheapest assignment found, None if none was.
    bound
        Lower bound on the sum of M of every assignment.
    exhausted
        Whether no state was dropped that could have been better.
    ended
        The limit that cut the run short, None if it reached the end.
    """

    sum_peak: int | None
    assignment: Assignment | None
    bound: int
    exhausted: bool
    ended: tuple[Stop, Limit | None] | None = None

    def beside(self, first: "Outcome") -> "Outcome":
        """Outcome of a search below the sum of M that ``first`` found, with ``first``."""
        sum_peak, assignment = self.sum_peak, self.assignment
        if sum_peak is None:
            sum_peak, assignment = first.sum_peak, first.assignment
        bound = max(self.bound, first.bound)
        if sum_peak is not None:
            bound = min(bound, sum_peak)
        exhausted = self.exhausted or bound == sum_peak
        return Outcome(sum_peak, assignment, bound, exhausted, self.ended)

    def claim(self, problem: FixedAdmissions) -> Claim:
        """The same in the objective's unit."""
        if self.exhausted and self.sum_peak is None:
            return Claim(None, None, None, Stop.INFEASIBLE)
        steps = _executed_steps(timeline(problem))
        value = None if self.sum_peak is None else _value(problem, self.sum_peak, steps=steps)
        bound = _value(problem, self.bound, steps=steps)
        if self.exhausted or value == bound:
            return Claim(self.assignment, value, value, Stop.EXHAUSTED)
        stop, limit = self.ended or (Stop.LIMIT, Limit.WIDTH)
        return Claim(self.assignment, value, bound, stop, limit)


class PartitionSearch:
    """One run over the timeline.

    Parameters
    ----------
    problem
        Case A.
    budget
        Limits, looked at between events.
    width
        Most states kept, None for all.
    ceiling
        Sum of M of a known assignment: states that cannot get below it are dropped.
    kernel
        Who moves states; None is the fastest installed.
    """

    def __init__(
        self,
        problem: FixedAdmissions,
        *,
        budget: Budget,
        width: int | None = None,
        ceiling: int | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._width = width
        self._ceiling = ceiling
        self._kernel = kernel or best_kernel()
        self._segments = timeline(problem)
        self._after = _bounds_after(problem, self._segments)
        self._steps = _executed_steps(self._segments)
        self._lanes = Lanes()
        self._states = self._root()
        self._history = History()
        self._dropped: int | None = None

    def run(self) -> Outcome:
        """Run to the end or to a limit."""
        for position, segment in enumerate(self._segments):
            ended = self._advance(segment, from_here=self._after[position])
            if ended is not None:
                bound = self._lowest(self._after[position])
                return Outcome(None, None, bound, exhausted=False, ended=ended)
            self._run(segment)
            self._drop_hopeless(self._after[position + 1])
            if not len(self._states):
                return self._without_states()
            self._report(position)
        best = int(np.argmin(self._states.costs))
        sum_peak = int(self._states.costs[best])
        bound = self._lowest(0)
        return Outcome(sum_peak, self._assignment(best), bound, exhausted=bound == sum_peak)

    def _root(self) -> States:
        lanes = max((len(segment.active) for segment in self._segments), default=0)
        return empty_state(lanes=lanes, groups=self._problem.instance.replicas)

    def _without_states(self) -> Outcome:
        """Nothing is left: nothing is feasible, or nothing is below the ceiling."""
        if self._dropped is not None:
            return Outcome(None, None, self._dropped, exhausted=False, ended=None)
        return Outcome(None, None, self._after[0], exhausted=True)

    def _lowest(self, rest: int) -> int:
        """Lower bound over the states here and those dropped."""
        lowest = max(int(self._states.costs.min()) + rest, self._after[0])
        return lowest if self._dropped is None else min(lowest, self._dropped)

    # -- one segment ---------------------------------------------------------------------------

    def _advance(self, segment: Segment, *, from_here: int) -> tuple[Stop, Limit | None] | None:
        """Completions, then admissions; stop between two of them at a limit."""
        self._retire(segment)
        for request in segment.started:
            if (ended := self._ended()) is not None:
                return ended
            self._admit(request)
            self._keep_best(segment, from_here=from_here)
        return None

    def _retire(self, segment: Segment) -> None:
        instance = self._problem.instance
        full = self._lanes.active == instance.replicas * instance.slots
        for request in segment.ended:
            lane = self._lanes.release(request.id)
            self._kernel.retire(self._states, lane=lane, intercept=self._intercept(request))
        # From full groups, one request's leaving tells two partitions apart as before.
        if segment.ended and not (full and len(segment.ended) == 1):
            states, parents = self._kernel.merge(self._states)
            self._replace(states, parents)

    def _admit(self, request: OfflineRequest) -> None:
        lane = self._lanes.take(request.id)
        before = len(self._states)
        self._states, parents = self._kernel.admit(
            self._states,
            lane=lane,
            intercept=self._intercept(request),
            slots=self._problem.instance.slots,
        )
        if _is_identity(parents, before):
            self._history.add(Layer())
        else:
            self._history.add(Layer(parents, self._states.labels[:, lane].copy()))

    def _run(self, segment: Segment) -> None:
        if not segment.active:
            return
        largest = self._kernel.run(self._states, start=segment.start, length=segment.length)
        capacity = self._problem.instance.kv_capacity
        if capacity is not None:
            self._keep(np.flatnonzero(largest <= capacity))

    def _drop_hopeless(self, rest: int) -> None:
        """Drop states that cannot get below the ceiling, where it pays to copy the others."""
        if self._ceiling is None or not len(self._states):
            return
        hopeful = self._states.costs + rest < self._ceiling
        hopeless = len(hopeful) - int(np.count_nonzero(hopeful))
        if hopeless > (WORTH_DROPPING * len(hopeful) if rest else 0):
            self._drop(int(self._states.costs[~hopeful].min()) + rest)
            self._keep(np.flatnonzero(hopeful))

    def _keep_best(self, segment: Segment, *, from_here: int) -> None:
        """Cut to ``width`` states: cheapest so far, counting the steps ahead at today's peak."""
        if self._width is None or len(self._states) <= self._width:
            return
        loads = self._states.intercepts + segment.start * self._states.counts
        rank = self._states.costs + segment.length * loads.max(axis=1)
        order = np.lexsort(((loads * loads).sum(axis=1), rank))
        self._drop(int(self._states.costs[order[self._width :]].min()) + from_here)
        self._keep(np.sort(order[: self._width]))

    def _report(self, position: int) -> None:
        bound = self._lowest(self._after[position + 1])
        self._budget.on_progress(
            Progress(
                bound=_value(self._problem, bound, steps=self._steps),
                done=position + 1,
                total=len(self._segments),
            )
        )

    def _drop(self, bound: int) -> None:
        self._dropped = bound if self._dropped is None else min(self._dropped, bound)

    def _keep(self, rows: NDArray[np.intp]) -> None:
        if len(rows) < len(self._states):
            self._replace(self._states.take(rows), rows.astype(np.int32))

    def _replace(self, states: States, parents: Parents) -> None:
        if not _is_identity(parents, len(self._states)):
            self._history.add(Layer(parents))
        self._states = states

    def _ended(self) -> tuple[Stop, Limit | None] | None:
        # A move holds the old states and the new ones.
        if not self._budget.fits(3 * self._states.nbytes + self._history.nbytes):
            return Stop.LIMIT, Limit.MEMORY
        return self._budget.ended()

    def _intercept(self, request: OfflineRequest) -> int:
        return request.prompt_tokens - self._problem.steps[request.id]

    # -- the way back --------------------------------------------------------------------------

    def _assignment(self, row: int) -> Assignment:
        """Repeat the best path alone: groups are numbered as they were in the full run."""
        choices = list(self._history.choices(row))
        self._states, self._lanes = self._root(), Lanes()
        self._history, replica_of = History(), dict[int, int]()
        for segment in self._segments:
            self._retire(segment)
            for request in segment.started:
                self._admit(request)
                self._follow(choices.pop(), request)
                replica_of[request.id] = self._replica(request, replica_of)
        steps = self._problem.steps
        return tuple(Placement(i, replica_of[i], steps[i]) for i in sorted(replica_of))

    def _follow(self, choice: int | None, request: OfflineRequest) -> None:
        if choice is not None:
            lane = self._lanes.of[request.id]
            self._states = self._states.take(np.flatnonzero(self._states.labels[:, lane] == choice))

    def _replica(self, request: OfflineRequest, replica_of: dict[int, int]) -> int:
        """The replica of a request in the same group, or the first one that is empty."""
        labels = self._states.labels[0]
        own = labels[self._lanes.of[request.id]]
        busy = set()
        for other, lane in self._lanes.of.items():
            if other != request.id:
                busy.add(replica_of[other])
                if labels[lane] == own:
                    return replica_of[other]
        return next(g for g in range(self._problem.instance.replicas) if g not in busy)


def _bounds_after(problem: FixedAdmissions, segments: tuple[Segment, ...]) -> list[int]:
    """Entry j: lower bound on the sum of M over segments j, j + 1, ...; the last entry is 0."""
    replicas = problem.instance.replicas
    each = [segment_bound(weights(problem, s), s.length, replicas=replicas) for s in segments]
    return [0, *accumulate(reversed(each))][::-1]


def _executed_steps(segments: tuple[Segment, ...]) -> int:
    return sum(segment.length for segment in segments if segment.active)


def _value(problem: FixedAdmissions, sum_peak: int, *, steps: int) -> int:
    return problem.cost.value(steps=steps, sum_peak=sum_peak, sum_load=problem.instance.total_work)


def _is_identity(parents: Parents, before: int) -> bool:
    return len(parents) == before and bool((parents == np.arange(before)).all())
