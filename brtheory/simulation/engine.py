"""The engine: from event to event, exactly as a loop over every step would go.

Order inside a step: completions of the step before -> arrivals become ready -> tick (admissions)
-> the step runs. Between two events nothing changes but growth, so several steps run at once:
loads are lines, their peaks are summed in integers, and the clock

    clock = clock_0 + b0*(steps - steps_0) + a0*(sum_peak - sum_peak_0)

is a function of integers since the last idle jump. ``longest_stride=1`` is the plain step loop;
both agree to the last bit.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from brtheory.core.cluster import Cluster, IntArray
from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import BrtheoryError
from brtheory.prediction.protocol import Predictor
from brtheory.routers.fast import ArrayRouter
from brtheory.routers.fast_arrays import TickArrays
from brtheory.routers.protocol import (
    ImmediateRouter,
    PooledRouter,
    Router,
    following,
    projection_rules,
)
from brtheory.simulation.array_pool import ArrayPool
from brtheory.simulation.arrivals import ArrivalSource, Due
from brtheory.simulation.energy import step_energy_j
from brtheory.simulation.projection import ProjectionTracker
from brtheory.simulation.record import RunRecord, Totals, empty_record
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime

STRIDE_CELLS = 1 << 17
"""Loads held at once while striding, G times steps: bounds memory whatever the output lengths."""
WARMUP_SHARE = 0.1


class StepObserver(Protocol):
    """Looks at loads as they run, for figures and tests; must not change them."""

    def on_steps(self, step: int, loads: IntArray) -> None:
        """Loads of consecutive steps from absolute ``step`` on, shape (G, number of steps)."""


@dataclass(frozen=True)
class _Running:
    request: Request
    replica: int


class Simulation:
    """One run.

    Parameters
    ----------
    lengths
        Prompts and true outputs; request i has id i.
    router
        Immediate or pooled.
    shape, step_time
        The cluster and b0 + a0*M.
    arrivals
        When requests become ready.
    predictor
        For pooled routers with a horizon; refreshed every H/2 steps of a request's life, and
        taught by completions where it learns (``OnlinePredictor``).
    observers
        Called with the loads of all executed steps.
    longest_stride
        Most steps run at once; 1 is the plain step loop.
    on_progress
        Called with the number of requests completed since the last call.
    """

    def __init__(
        self,
        lengths: Lengths,
        router: Router,
        *,
        shape: ClusterShape,
        arrivals: ArrivalSource,
        step_time: StepTime = StepTime(),  # noqa: B008  # frozen
        predictor: Predictor | None = None,
        observers: Sequence[StepObserver] = (),
        longest_stride: int | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        lengths.check_fits(shape)
        self._outputs = lengths.output_tokens.tolist()
        self._prompts = lengths.prompt_tokens.tolist()
        self._immediate = router if isinstance(router, ImmediateRouter) else None
        self._pooled = router if isinstance(router, PooledRouter) else None
        self._cluster = Cluster(
            replicas=shape.replicas, slots=shape.slots, kv_capacity=shape.kv_capacity
        )
        # The reservation tells the output length: where nothing is reserved, no router is told.
        self._reserving = shape.kv_capacity is not None
        self._arrivals = arrivals
        self._step_time = step_time
        self._observers = observers
        stride = max(1, STRIDE_CELLS // shape.replicas)
        self._stride = stride if longest_stride is None else min(stride, longest_stride)
        self._on_progress = on_progress
        self._record = empty_record(lengths.output_tokens, replicas=shape.replicas)
        self._running: dict[int, _Running] = {}
        self._finishes: list[tuple[int, int]] = []
        self._array_router = router if isinstance(router, ArrayRouter) else None
        self._pool = PromptPool()
        self._array_pool = ArrayPool()
        self._projection = _projection(router, predictor, replicas=shape.replicas)
        self._step = 0
        self._arrived = 0
        self._clock_base = Totals()

    def run(self) -> RunRecord:
        """Run until every request has completed."""
        total = len(self._record)
        while self._record.totals.completed < total:
            self._complete()
            self._receive()
            self._admit()
            if self._running:
                self._run_steps()
            elif self._record.totals.completed < total:
                self._jump()
        return self._record

    # -- the four phases of a step -------------------------------------------------------------

    def _complete(self) -> None:
        finished = 0
        while self._finishes and self._finishes[0][0] == self._step:
            _, index = heapq.heappop(self._finishes)
            running = self._running.pop(index)
            tokens = running.request.prompt_tokens + self._outputs[index]
            self._cluster.retire(running.request, running.replica, tokens=tokens)
            if self._projection is not None:
                self._projection.retire(index, step=self._step)
            self._record.finished_s[index] = self._record.totals.clock_s
            finished += 1
        if finished and self._projection is not None:
            self._projection.refit(self._step)
        self._record.totals.completed += finished
        if finished and self._on_progress is not None:
            self._on_progress(finished)
        if self._record.window_start is None and (
            self._record.totals.completed >= WARMUP_SHARE * len(self._record)
        ):
            self._record.window_start = self._record.totals.copy()

    def _receive(self) -> None:
        totals = self._record.totals
        for due in self._arrivals.due(
            step=self._step, clock_s=totals.clock_s, completed=totals.completed
        ):
            request = self._make_ready(due)
            if self._immediate is not None:
                self._cluster.enqueue(request, self._immediate.place(request, self._cluster))
            elif self._array_router is not None:
                self._array_pool.add(request)
            else:
                self._pool.add(request)
        if self._record.window_end is None and self._arrived == len(self._record):
            self._record.window_end = totals.copy()

    def _make_ready(self, due: Due) -> Request:
        self._arrived += 1
        self._record.arrival_s[due.index] = due.arrival_s
        self._record.ready_s[due.index] = due.ready_s
        prompt = self._prompts[due.index]
        return Request(
            id=due.index,
            prompt_tokens=prompt,
            ready_s=due.ready_s,
            reserved_tokens=prompt + self._outputs[due.index] if self._reserving else 0,
        )

    def _admit(self) -> None:
        if self._array_router is not None:
            self._tick_on_arrays(self._array_router)
            return
        if self._pooled is not None:
            self._tick(self._pooled)
            return
        for replica in np.flatnonzero(self._cluster.queued).tolist():
            while (head := self._cluster.head(replica)) and self._cluster.fits(head, replica):
                self._start(self._cluster.dequeue(replica), replica)

    def _tick(self, router: PooledRouter) -> None:
        free_slots = self._cluster.free_slots
        if not self._pool or not free_slots.any():
            return
        free_tokens = self._cluster.free_tokens
        if self._projection is None:
            rows = self._cluster.loads[:, None]
        else:
            rows = self._projection.rows(self._step)
        state = TickState(
            loads=rows.tolist(),
            free_slots=free_slots.tolist(),
            pool=self._pool,
            now_s=self._record.totals.clock_s,
            free_tokens=None if free_tokens is None else free_tokens.tolist(),
        )
        admissions = router.tick(state)
        requests = self._pool.take(admission.id for admission in admissions)
        for request, admission in zip(requests, admissions, strict=True):
            self._start(request, admission.replica)

    def _tick_on_arrays(self, router: ArrayRouter) -> None:
        """As ``_tick``, without building lists."""
        pool, free_slots = self._array_pool, self._cluster.free_slots
        if not len(pool) or not free_slots.any():
            return
        columns, start = self._cluster.loads[:, None], 0
        if self._projection is not None:
            columns, start = self._projection.window(self._step)
        free_tokens = self._cluster.free_tokens
        decisions = router.decide(
            TickArrays(
                columns=columns,
                start=start,
                free_slots=free_slots,
                prompt_tokens=pool.prompt_tokens,
                total_prompt_tokens=pool.total_tokens,
                ready_s=pool.ready_s,
                now_s=self._record.totals.clock_s,
                reserved_tokens=None if free_tokens is None else pool.reserved_tokens,
                free_tokens=free_tokens,
            )
        )
        requests = pool.take(decisions.positions)
        for request, replica in zip(requests, decisions.replicas, strict=True):
            self._start(request, replica)

    def _start(self, request: Request, replica: int) -> None:
        self._cluster.admit(request, replica)
        index = request.id
        self._running[index] = _Running(request, replica)
        heapq.heappush(self._finishes, (self._step + self._outputs[index], index))
        if self._projection is not None:
            self._projection.admit(request, replica, step=self._step)
        self._record.replica[index] = replica
        self._record.admitted_step[index] = self._step
        self._record.admitted_s[index] = self._record.totals.clock_s

    # -- time ----------------------------------------------------------------------------------

    def _run_steps(self) -> None:
        """Run to the next completion or arrival, at most one stride."""
        steps = min(self._finishes[0][0] - self._step, self._stride)
        next_step = self._arrivals.next_step()
        if next_step is not None:
            steps = min(steps, next_step - self._step)
        loads = self._cluster.loads[:, None]
        if steps > 1:
            loads = loads + self._cluster.active[:, None] * np.arange(steps)
        peaks = loads.max(axis=0)
        clocks = self._clocks_after(peaks)
        next_time = self._arrivals.next_time_s()
        if next_time is not None:
            steps = min(steps, int(np.searchsorted(clocks, next_time)) + 1)
            loads, peaks = loads[:, :steps], peaks[:steps]
        self._account(loads, peaks, float(clocks[steps - 1]))
        self._cluster.advance(steps)
        self._step += steps

    def _clocks_after(self, peaks: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Clock at the end of each of the coming steps, shape (n,)."""
        totals, base = self._record.totals, self._clock_base
        executed = np.arange(1, len(peaks) + 1) + (totals.steps - base.steps)
        peak_sums = np.cumsum(peaks) + (totals.sum_peak - base.sum_peak)
        b0, a0 = self._step_time.b0, self._step_time.a0
        clocks: np.ndarray[tuple[int], np.dtype[np.float64]]
        clocks = base.clock_s + b0 * executed + a0 * peak_sums
        return clocks

    def _account(self, loads: IntArray, peaks: IntArray, clock_s: float) -> None:
        totals, steps = self._record.totals, len(peaks)
        totals.steps += steps
        totals.sum_peak += int(peaks.sum())
        totals.sum_load += int(loads.sum())
        totals.sum_spread += int((peaks - loads.min(axis=0)).sum())
        totals.decoded_tokens += steps * len(self._running)
        totals.clock_s = clock_s
        energy = step_energy_j(loads, peaks, self._step_time)
        # Added one by one, so that long strides and single steps round alike.
        totals.energy_j = float(np.cumsum(np.concatenate(([totals.energy_j], energy)))[-1])
        for observer in self._observers:
            observer.on_steps(self._step, loads)

    def _jump(self) -> None:
        """Skip steps in which nothing is active: on to the next arrival."""
        next_step, next_time = self._arrivals.next_step(), self._arrivals.next_time_s()
        totals = self._record.totals
        if next_step is not None:
            self._step = next_step
        elif next_time is not None:
            totals.clock_s = next_time
            self._clock_base = totals.copy()
        else:
            pooled = len(self._pool) + len(self._array_pool)
            waiting = pooled + int(self._cluster.queued.sum())
            raise BrtheoryError(f"the router left {waiting} requests waiting on an idle cluster")


def _projection(
    router: Router, predictor: Predictor | None, *, replicas: int
) -> ProjectionTracker | None:
    if isinstance(router, ImmediateRouter) or router.horizon == 0:
        return None
    if predictor is None:
        raise BrtheoryError(f"a router with horizon {router.horizon} needs a predictor")
    return ProjectionTracker(
        predictor,
        replicas=replicas,
        horizon=router.horizon,
        rules=projection_rules(router),
        router=following(router),
    )
