"""A compiled run: arrays out of lengths, shape and plan; a ``RunRecord`` out of the arrays."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.fscore import ScoreWeights, check_token_limit, one_step_weights
from brtheory.errors import BrtheoryError
from brtheory.routers import (
    fast_oldest_kernels,
    fast_pool_kernels,
    fast_replica_kernels,
    fast_shortlist_kernels,
    fast_subset_kernels,
    kernels,
)
from brtheory.routers.baselines import (
    EngineScore,
    JoinShortestQueue,
    LeastTokens,
    PoolFifo,
    RoundRobin,
)
from brtheory.routers.fast_compiled import rule_arrays
from brtheory.routers.fast_horizon_memory_kernels import Horizon, make_horizon
from brtheory.routers.params import BalanceRouteParams, WindowParams
from brtheory.routers.protocol import Router, projection_rules
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.window import Window, check_window_limit, window_token_limit
from brtheory.simulation.compiled import state_kernels as state
from brtheory.simulation.compiled import world_kernels as world_of
from brtheory.simulation.compiled.loop_kernels import BEYOND, STUCK, run_until
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.record import RunRecord, Totals, empty_record
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime

CODES: dict[type, int] = {
    JoinShortestQueue: world_of.JSQ,
    LeastTokens: world_of.LEAST_TOKENS,
    EngineScore: world_of.ENGINE_SCORE,
    RoundRobin: world_of.ROUND_ROBIN,
    PoolFifo: world_of.POOL_FIFO,
    Window: world_of.WINDOW,
}
ARRIVALS = {"closed": world_of.CLOSED, "timed": world_of.TIMED, "steps": world_of.BY_STEP}
PROGRESS_PARTS = 100
NOTHING: IntArray = np.empty(0, dtype=np.int64)
NO_TIMES: NDArray[np.float64] = np.empty(0, dtype=np.float64)


def run_compiled(
    lengths: Lengths,
    router: Router,
    *,
    shape: ClusterShape,
    arrivals: ArrivalPlan,
    step_time: StepTime,
    on_progress: Callable[[int], None] | None = None,
) -> RunRecord:
    """Run to the end; what ``support.supported`` accepts, with the engine's results.

    Parameters
    ----------
    lengths, router, shape, arrivals, step_time, on_progress
        As ``Simulation``; the router is a fresh reference one, a horizon is seen by the oracle.

    Raises
    ------
    InputError
        If a state is beyond the router's exact token limit.
    """
    lengths.check_fits(shape)
    setup = _setup(router, shape=shape, arrivals=arrivals, step_time=step_time)
    world = _world(lengths, shape, arrivals, setup)
    tick = _tick(router, shape, setup, world)
    done = 0
    for target in _targets(len(lengths)):
        answer = run_until(setup, world, tick, target)
        if answer == BEYOND:
            _refuse(router, world, tick)
        if answer == STUCK:
            waiting = int(world.marks.counters[state.WAITING] + world.replicas.queued.sum())
            raise BrtheoryError(f"the router left {waiting} requests waiting on an idle cluster")
        completed = int(world.marks.sums[state.COMPLETED])
        if on_progress is not None and completed > done:
            on_progress(completed - done)
        done = completed
    return _run_record(lengths, shape, world)


def _setup(
    router: Router, *, shape: ClusterShape, arrivals: ArrivalPlan, step_time: StepTime
) -> world_of.Setup:
    horizon = router.horizon if isinstance(router, BalanceRoute) else 0
    window = router.params if isinstance(router, Window) else WindowParams()
    weight, limit = window.wait_weight, window.age_limit
    return world_of.Setup(
        router=CODES.get(type(router), world_of.BALANCE),
        arrivals=ARRIVALS[arrivals.kind],
        slots=shape.slots,
        kv_capacity=-1 if shape.kv_capacity is None else shape.kv_capacity,
        horizon=horizon,
        refresh=projection_rules(router).refresh_steps(horizon),
        population=arrivals.population,
        window=window.window,
        wait_weight=-1.0 if weight is None else float(weight),
        wait_scale=float(window.wait_scale),
        age_limit=-1.0 if limit is None else float(limit),
        age_floor_s=float(window.age_floor_s),
        size_weight=float(window.size_weight),
        overflow_weight=window.overflow_weight,
        longest_first=window.spare_order == "longest",
        hold_s=float(window.hold_s),
        room_share=float(window.room_share),
        limit=_limit(router, shape.replicas),
        a0=float(step_time.a0),
        b0=float(step_time.b0),
    )


def _limit(router: Router, replicas: int) -> int:
    if isinstance(router, Window):
        return window_token_limit(replicas, router.params)
    return _weights(router, replicas).token_limit


def _weights(router: Router, replicas: int) -> ScoreWeights:
    if isinstance(router, BalanceRoute):
        return router.weights(replicas)
    return one_step_weights(replicas)


def _world(
    lengths: Lengths, shape: ClusterShape, arrivals: ArrivalPlan, setup: world_of.Setup
) -> world_of.World:
    n, prompts = len(lengths), np.array(lengths.prompt_tokens)
    outputs = np.array(lengths.output_tokens)
    running = min(n, shape.replicas * shape.slots)
    closed = arrivals.kind == "closed"
    record = empty_record(outputs, replicas=shape.replicas)
    return world_of.World(
        requests=state.Requests(
            prompts, outputs, NOTHING if shape.kv_capacity is None else prompts + outputs
        ),
        replicas=state.make_replicas(shape.replicas, n),
        arrivals=_arrival_arrays(arrivals),
        heaps=state.make_heaps(
            running,
            # A request may turn, retire and leave its entry behind until its step has come.
            n if setup.horizon > 0 else 0,
            min(n, arrivals.population) if closed else 0,
        ),
        marks=state.make_marks(),
        record=state.Record(
            record.replica,
            record.admitted_step,
            record.arrival_s,
            record.ready_s,
            record.admitted_s,
            record.finished_s,
        ),
    )


def _arrival_arrays(plan: ArrivalPlan) -> state.Arrivals:
    prefill_s = np.array(plan.prefill_s, dtype=np.float64)
    if plan.arrival_s is not None:
        ready_s = plan.arrival_s + prefill_s
        order = np.argsort(ready_s, kind="stable")
        return state.Arrivals(order, NOTHING, np.array(plan.arrival_s), ready_s, prefill_s)
    if plan.ready_step is not None:
        order = np.argsort(plan.ready_step, kind="stable")
        return state.Arrivals(order, np.array(plan.ready_step), NO_TIMES, NO_TIMES, prefill_s)
    return state.Arrivals(NOTHING, NOTHING, NO_TIMES, NO_TIMES, prefill_s)


def _tick(
    router: Router, shape: ClusterShape, setup: world_of.Setup, world: world_of.World
) -> world_of.Tick:
    scored = isinstance(router, BalanceRoute)
    params = router.params if isinstance(router, BalanceRoute) else BalanceRouteParams()
    weights, options = rule_arrays(params, _weights(router, shape.replicas), shape.replicas)
    rules = kernels.make_rules(weights, options)
    requests, horizon = world.requests, _horizon(shape, setup, world)
    columns = horizon.columns if setup.horizon > 0 else world.replicas.columns
    free = np.zeros(shape.replicas, dtype=np.int64)
    return world_of.Tick(
        pool=fast_pool_kernels.make_pool(requests.prompts, requests.reserved, scored),
        loads=fast_replica_kernels.make_loads(
            columns, 0, free, NOTHING if setup.kv_capacity < 0 else free, len(weights)
        ),
        rules=rules,
        scratch=fast_subset_kernels.scratch_for(rules.most),
        out=fast_replica_kernels.make_out(min(len(requests.prompts), shape.replicas * shape.slots)),
        memory=fast_oldest_kernels.make_memory(
            router.params.memory if isinstance(router, Window) else 1
        ),
        shortlist=fast_shortlist_kernels.make_shortlist(min(setup.window, len(requests.prompts))),
        horizon=horizon,
    )


def _horizon(shape: ClusterShape, setup: world_of.Setup, world: world_of.World) -> Horizon:
    slots = len(world.requests.prompts) if setup.horizon > 0 else 0
    return make_horizon(shape.replicas, setup.horizon, slots)


def _targets(total: int) -> Iterator[int]:
    """Numbers of completed requests at which Python looks in: for progress and interrupts."""
    part = math.ceil(total / PROGRESS_PARTS)
    yield from range(part, total, part)
    yield total


def _refuse(router: Router, world: world_of.World, tick: world_of.Tick) -> None:
    """Raise what the reference raises on this state."""
    clock = tick.horizon.clock
    columns, start = world.replicas.columns, 0
    if isinstance(router, BalanceRoute) and router.horizon > 0:
        columns, start = tick.horizon.columns, int(clock[0] - clock[1])
    width = len(tick.loads.envelope)
    loads = columns[:, start : start + width].tolist()
    end, pool = len(world.requests.prompts), []
    position = int(tick.pool.after[end])
    while position != end:
        pool.append(int(world.requests.prompts[position]))
        position = int(tick.pool.after[position])
    if isinstance(router, Window):
        check_window_limit(loads, pool, router.params)
    else:
        check_token_limit(loads, pool, _weights(router, len(loads)))
    raise AssertionError("a compiled run stopped at a limit that is not exceeded")


def _run_record(lengths: Lengths, shape: ClusterShape, world: world_of.World) -> RunRecord:
    marks, kept = world.marks, world.record
    has_start, has_end = marks.counters[state.HAS_START], marks.counters[state.HAS_END]
    return RunRecord(
        replicas=shape.replicas,
        replica=kept.replica,
        admitted_step=kept.admitted_step,
        output_tokens=lengths.output_tokens,
        arrival_s=kept.arrival_s,
        ready_s=kept.ready_s,
        admitted_s=kept.admitted_s,
        finished_s=kept.finished_s,
        totals=_totals(marks.sums, marks.times),
        window_start=_totals(marks.start_sums, marks.start_times) if has_start else None,
        window_end=_totals(marks.end_sums, marks.end_times) if has_end else None,
    )


def _totals(sums: IntArray, times: NDArray[np.float64]) -> Totals:
    return Totals(*sums.tolist(), *times.tolist())
