"""The engine: from event to event, exactly as a loop over every step would go.

Order inside a step: completions of the step before -> KV transfers end -> arrivals become ready ->
tick (admissions) -> the step runs. Between two events nothing changes but growth, so several steps
run at once (``brtheory.simulation.meter``). ``longest_stride=1`` is the plain step loop; both agree
to the last bit.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from brtheory.core.cluster import Cluster
from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import BrtheoryError
from brtheory.prediction.protocol import Predictor
from brtheory.routers.fast import ArrayRouter
from brtheory.routers.fast_arrays import TickArrays
from brtheory.routers.protocol import ImmediateRouter, PooledRouter, Router, longest_hold_s
from brtheory.simulation.array_pool import ArrayPool
from brtheory.simulation.arrivals import ArrivalSource, Due
from brtheory.simulation.meter import StepMeter, StepObserver
from brtheory.simulation.observation import Observation, make_outlook, shown_paces
from brtheory.simulation.record import RunRecord, empty_record
from brtheory.simulation.transfer import TransferDelay, Transfers
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime

WARMUP_SHARE = 0.1


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
        The cluster and b0 + a0*M (of each replica, where they differ).
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
    transfer
        KV transfer between binding and the first decode step; None for none.
    observation
        What the router sees; None for the truth.
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
        transfer: TransferDelay | None = None,
        observation: Observation | None = None,
    ) -> None:
        lengths.check_fits(shape)
        self._outputs = lengths.output_tokens.tolist()
        self._prompts = lengths.prompt_tokens.tolist()
        seen = None if observation is None else observation.prompt_tokens
        self._seen_prompts = self._prompts if seen is None else seen.tolist()
        self._immediate = router if isinstance(router, ImmediateRouter) else None
        self._pooled = router if isinstance(router, PooledRouter) else None
        paces = shape.paces(step_time)
        self._cluster = Cluster(
            replicas=shape.replicas,
            slots=shape.replica_slots,
            kv_capacity=shape.kv_capacity,
            paces=paces,
        )
        # The reservation tells the output length: where nothing is reserved, no router is told.
        self._reserving = shape.kv_capacity is not None
        self._arrivals = arrivals
        self._on_progress = on_progress
        self._record = empty_record(lengths.output_tokens, replicas=shape.replicas)
        self._record.unit_s = None if paces is None else float(paces.unit_s)
        self._meter = StepMeter(
            self._record.totals,
            step_time=step_time,
            paces=paces,
            replicas=shape.replicas,
            largest=lengths.largest_load(shape),
            observers=observers,
            longest_stride=longest_stride,
        )
        self._running: dict[int, _Running] = {}
        self._finishes: list[tuple[int, int]] = []
        self._paces = shown_paces(self._cluster, observation)
        plain = self._paces is None
        self._array_router = router if plain and isinstance(router, ArrayRouter) else None
        self._holding = longest_hold_s(router) > 0
        self._pool, self._array_pool = PromptPool(), ArrayPool()
        self._transfer = transfer
        self._transfers = Transfers()
        if transfer is not None:
            self._record.started_s = np.full(len(lengths), np.nan)
        self._outlook = make_outlook(
            router, predictor, self._cluster, observation, relayed=transfer is not None
        )
        self._step, self._arrived = 0, 0

    def run(self) -> RunRecord:
        """Run until every request has completed."""
        total = len(self._record)
        while self._record.totals.completed < total:
            self._complete()
            if self._transfers:
                self._begin()
            self._receive()
            self._admit()
            if self._running:
                self._run_steps()
            elif self._record.totals.completed < total:
                self._jump()
        return self._record

    # -- the phases of a step ------------------------------------------------------------------

    def _complete(self) -> None:
        finished = 0
        while self._finishes and self._finishes[0][0] == self._step:
            _, index = heapq.heappop(self._finishes)
            running, outputs = self._running.pop(index), self._outputs[index]
            request, replica = running.request, running.replica
            self._cluster.retire(request, replica, tokens=self._prompts[index] + outputs)
            self._outlook.finished(request, replica, output_tokens=outputs, step=self._step)
            self._record.finished_s[index] = self._record.totals.clock_s
            finished += 1
        if finished:
            self._outlook.settled(self._step)
        self._record.totals.completed += finished
        if finished and self._on_progress is not None:
            self._on_progress(finished)
        if self._record.window_start is None and (
            self._record.totals.completed >= WARMUP_SHARE * len(self._record)
        ):
            self._record.window_start = self._record.totals.copy()

    def _begin(self) -> None:
        """Requests whose KV cache has come decode from this step on."""
        for request, replica in self._transfers.ended(self._record.totals.clock_s):
            self._cluster.begin(self._as_it_is(request), replica)
            self._run(request, replica)

    def _receive(self) -> None:
        totals = self._record.totals
        for due in self._arrivals.due(
            step=self._step, clock_s=totals.clock_s, completed=totals.completed
        ):
            request = self._make_ready(due)
            if self._immediate is not None:
                replica = self._immediate.place(request, self._outlook.view(self._step))
                self._cluster.enqueue(request, replica)
                self._outlook.placed(request, replica, step=self._step)
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
        reserved = self._prompts[due.index] + self._outputs[due.index]
        return Request(
            id=due.index,
            prompt_tokens=self._seen_prompts[due.index],
            ready_s=due.ready_s,
            reserved_tokens=reserved if self._reserving else 0,
        )

    def _as_it_is(self, request: Request) -> Request:
        """The request with its true prompt."""
        if self._seen_prompts is self._prompts:
            return request
        return replace(request, prompt_tokens=self._prompts[request.id])

    def _admit(self) -> None:
        if self._array_router is not None:
            self._tick_on_arrays(self._array_router)
            return
        if self._pooled is not None:
            self._tick(self._pooled)
            return
        waiting = np.minimum(self._cluster.queued, self._cluster.free_slots)
        for replica in np.flatnonzero(waiting).tolist():
            while (head := self._cluster.head(replica)) and self._cluster.fits(head, replica):
                self._bind(self._cluster.dequeue(replica), replica)

    def _tick(self, router: PooledRouter) -> None:
        free_slots = self._cluster.free_slots
        if not self._pool or not free_slots.any():
            return
        free_tokens = self._cluster.free_tokens
        columns, start = self._outlook.columns(self._step)
        state = TickState(
            loads=columns[:, start : start + router.horizon + 1].tolist(),
            free_slots=free_slots.tolist(),
            pool=self._pool,
            now_s=self._record.totals.clock_s,
            free_tokens=None if free_tokens is None else free_tokens.tolist(),
            paces=self._paces,
        )
        admissions = router.tick(state)
        requests = self._pool.take(admission.id for admission in admissions)
        for request, admission in zip(requests, admissions, strict=True):
            self._bind(request, admission.replica)

    def _tick_on_arrays(self, router: ArrayRouter) -> None:
        """As ``_tick``, without building lists."""
        pool, free_slots = self._array_pool, self._cluster.free_slots
        if not len(pool) or not free_slots.any():
            return
        columns, start = self._outlook.columns(self._step)
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
        positions, replicas = decisions.lists()
        requests = pool.take(positions)
        for request, replica in zip(requests, replicas, strict=True):
            self._bind(request, replica)

    def _bind(self, request: Request, replica: int) -> None:
        index, clock_s = request.id, self._record.totals.clock_s
        self._record.replica[index] = replica
        self._record.admitted_s[index] = clock_s
        self._outlook.bound(request, replica, step=self._step)
        if self._transfer is not None:
            end_s = self._transfer.end_s(
                prompt_tokens=self._prompts[index], ready_s=request.ready_s, bound_s=clock_s
            )
            if end_s > clock_s:
                self._cluster.hold(request, replica)
                self._transfers.add(request, replica, end_s=end_s)
                return
        self._cluster.admit(self._as_it_is(request), replica)
        self._run(request, replica)

    def _run(self, request: Request, replica: int) -> None:
        """Decode a request the cluster has taken in."""
        index = request.id
        self._running[index] = _Running(request, replica)
        heapq.heappush(self._finishes, (self._step + self._outputs[index], index))
        self._outlook.begun(request, replica, step=self._step)
        self._record.admitted_step[index] = self._step
        if self._record.started_s is not None:
            self._record.started_s[index] = self._record.totals.clock_s

    # -- time ----------------------------------------------------------------------------------

    def _run_steps(self) -> None:
        """Run to the next completion, arrival or end of a transfer, at most one stride."""
        most = self._finishes[0][0] - self._step
        next_step = self._arrivals.next_step()
        if next_step is not None:
            most = min(most, next_step - self._step)
        pooled = self._holding and len(self._pool) + len(self._array_pool)
        if pooled and self._cluster.free_slots.any():
            most = 1  # The router may decide otherwise at the next step, without any event.
        steps = self._meter.run(
            self._cluster.loads,
            self._cluster.active,
            step=self._step,
            most=most,
            until_s=_earlier(self._arrivals.next_time_s(), self._transfers.next_time_s()),
        )
        self._record.totals.decoded_tokens += steps * len(self._running)
        self._cluster.advance(steps)
        self._step += steps

    def _jump(self) -> None:
        """Skip steps in which nothing is active: on to the next arrival or end of a transfer."""
        next_step = None if self._transfers else self._arrivals.next_step()
        next_time = _earlier(self._arrivals.next_time_s(), self._transfers.next_time_s())
        if next_step is not None:
            self._step = next_step
        elif next_time is not None:
            self._meter.jump(next_time)
        else:
            pooled = len(self._pool) + len(self._array_pool)
            waiting = pooled + int(self._cluster.queued.sum())
            raise BrtheoryError(f"the router left {waiting} requests waiting on an idle cluster")
        self._outlook.idle(self._step)


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
