"""The other phases of a compiled step: completions, arrivals, the step itself, idle jumps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import kernel
from brtheory.routers.fast_horizon_kernels import move_on, take_out
from brtheory.routers.fast_horizon_memory_kernels import NEVER
from brtheory.routers.fast_pool_kernels import append
from brtheory.simulation.compiled.state_kernels import (
    ARRIVED,
    BASE_PEAK,
    BASE_STEPS,
    CLOCK,
    COMPLETED,
    DECODED,
    ENERGY,
    HAS_END,
    HAS_START,
    NEXT_ARRIVAL,
    POINTER,
    PREFILLING,
    RUNNING,
    STEP,
    STEPS,
    SUM_LOAD,
    SUM_PEAK,
    SUM_SPREAD,
    WAITING,
    WAITING_TOKENS,
    Replicas,
    enqueue,
    pop,
    push,
)
from brtheory.simulation.compiled.world_kernels import (
    BY_STEP,
    CLOSED,
    JSQ,
    LEAST_TOKENS,
    POOL_FIFO,
    ROUND_ROBIN,
    TIMED,
    WINDOW,
    Setup,
    Tick,
    World,
)

WAITING_WEIGHT = 4
IDLE_W = 100.0
ACTIVE_W = 300.0
EXPONENT = 0.7
WARMUP_SHARE = 0.1


@kernel
def complete(setup: Setup, world: World, tick: Tick) -> None:
    """Release the requests that ended with the step before; mark the start of the window."""
    heaps, marks, replicas = world.heaps, world.marks, world.replicas
    counters, sums = marks.counters, marks.sums
    while counters[RUNNING] > 0 and heaps.finish_step[0] == counters[STEP]:
        request = pop(heaps.finish_step, heaps.finish_request, counters[RUNNING])
        counters[RUNNING] -= 1
        replica = world.record.replica[request]
        replicas.loads[replica] -= world.requests.prompts[request]
        replicas.loads[replica] -= world.requests.outputs[request]
        replicas.active[replica] -= 1
        if setup.kv_capacity >= 0:
            replicas.reserved[replica] -= world.requests.reserved[request]
        if setup.horizon > 0:
            take_out(tick.horizon, request)
        world.record.finished_s[request] = marks.times[CLOCK]
        sums[COMPLETED] += 1
    total = len(world.requests.prompts)
    if counters[HAS_START] == 0 and sums[COMPLETED] >= WARMUP_SHARE * total:
        counters[HAS_START] = 1
        _copy(marks.sums, marks.start_sums)
        _copy(marks.times, marks.start_times)


@kernel
def receive(setup: Setup, world: World, tick: Tick) -> None:
    """Take over what has become ready; mark the end of the window."""
    if setup.arrivals == CLOSED:
        _receive_closed(setup, world, tick)
    else:
        _receive_in_order(setup, world, tick)
    marks = world.marks
    if marks.counters[HAS_END] == 0 and marks.counters[ARRIVED] == len(world.requests.prompts):
        marks.counters[HAS_END] = 1
        _copy(marks.sums, marks.end_sums)
        _copy(marks.times, marks.end_times)


@kernel
def next_step(setup: Setup, world: World) -> int:
    """Absolute step of the next arrival, NEVER if steps do not trigger one."""
    place = world.marks.counters[NEXT_ARRIVAL]
    if setup.arrivals != BY_STEP or place == len(world.requests.prompts):
        return NEVER
    return int(world.arrivals.ready_step[world.arrivals.order[place]])


@kernel
def next_time(setup: Setup, world: World) -> float:
    """Clock time of the next arrival, infinite if the clock does not trigger one."""
    place = world.marks.counters[NEXT_ARRIVAL]
    if setup.arrivals == TIMED and place < len(world.requests.prompts):
        return float(world.arrivals.ready_s[world.arrivals.order[place]])
    if setup.arrivals == CLOSED and world.marks.counters[PREFILLING] > 0:
        return float(world.heaps.prefill_s[0])
    return np.inf


@kernel
def run_steps(setup: Setup, world: World, tick: Tick) -> None:
    """Run to the next completion or arrival."""
    marks, replicas = world.marks, world.replicas
    loads, active = replicas.loads, replicas.active
    counters, sums, times = marks.counters, marks.sums, marks.times
    end = min(world.heaps.finish_step[0], next_step(setup, world))
    if setup.router == WINDOW and setup.hold_s > 0 and _waits_beside_slots(setup, world):
        end = counters[STEP] + 1
    wake = next_time(setup, world)
    began = counters[STEP]
    while counters[STEP] < end:
        peak, least, total = loads[0], loads[0], 0
        for g in range(len(loads)):
            peak, least = max(peak, loads[g]), min(least, loads[g])
            total += loads[g]
        sums[STEPS] += 1
        sums[SUM_PEAK] += peak
        sums[SUM_LOAD] += total
        sums[SUM_SPREAD] += peak - least
        sums[DECODED] += counters[RUNNING]
        times[ENERGY] += _energy(loads, peak, setup.a0, setup.b0)
        times[CLOCK] = (
            marks.base_clock[0]
            + setup.b0 * float(sums[STEPS] - counters[BASE_STEPS])
            + setup.a0 * float(sums[SUM_PEAK] - counters[BASE_PEAK])
        )
        for g in range(len(loads)):
            loads[g] += active[g]
        counters[STEP] += 1
        if times[CLOCK] >= wake:
            break
    if setup.horizon > 0:
        move_on(tick.horizon, counters[STEP] - began)


@kernel
def _waits_beside_slots(setup: Setup, world: World) -> bool:
    """Whether a router that holds requests may decide otherwise at the next step."""
    free = 0
    for active in world.replicas.active:
        free += setup.slots - active
    return bool(free > 0 and world.marks.counters[WAITING] > 0)


@kernel
def jump(setup: Setup, world: World, tick: Tick) -> bool:
    """Skip steps in which nothing is active, on to the next arrival; False if there is none."""
    marks = world.marks
    step, time = next_step(setup, world), next_time(setup, world)
    if step < NEVER:
        if setup.horizon > 0:
            move_on(tick.horizon, step - marks.counters[STEP])
        marks.counters[STEP] = step
        return True
    if time < np.inf:
        marks.times[CLOCK] = time
        marks.base_clock[0] = time
        marks.counters[BASE_STEPS] = marks.sums[STEPS]
        marks.counters[BASE_PEAK] = marks.sums[SUM_PEAK]
        return True
    return False


@kernel
def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def _energy(loads: IntArray, peak: int, a0: float, b0: float) -> float:
    duration, worked = b0 + a0 * peak, 0.0
    for g in range(len(loads)):
        worked += ((b0 + a0 * loads[g]) / duration) ** EXPONENT
    return (IDLE_W * len(loads) + ACTIVE_W * worked) * duration


@kernel
def _receive_closed(setup: Setup, world: World, tick: Tick) -> None:
    counters, heaps, clock = world.marks.counters, world.heaps, world.marks.times[CLOCK]
    target = min(len(world.requests.prompts), setup.population + world.marks.sums[COMPLETED])
    while counters[NEXT_ARRIVAL] < target:
        request = counters[NEXT_ARRIVAL]
        world.record.arrival_s[request] = clock
        ready = clock + world.arrivals.prefill_s[request]
        push(heaps.prefill_s, heaps.prefill_request, counters[PREFILLING], ready, request)
        counters[PREFILLING] += 1
        counters[NEXT_ARRIVAL] += 1
    while counters[PREFILLING] > 0 and heaps.prefill_s[0] <= clock:
        ready = heaps.prefill_s[0]
        request = pop(heaps.prefill_s, heaps.prefill_request, counters[PREFILLING])
        counters[PREFILLING] -= 1
        _take_over(setup, world, tick, request, ready)


@kernel
def _receive_in_order(setup: Setup, world: World, tick: Tick) -> None:
    counters, arrivals, clock = world.marks.counters, world.arrivals, world.marks.times[CLOCK]
    while counters[NEXT_ARRIVAL] < len(world.requests.prompts):
        request = arrivals.order[counters[NEXT_ARRIVAL]]
        arrival, ready = clock, clock
        if setup.arrivals == BY_STEP:
            if arrivals.ready_step[request] > counters[STEP]:
                break
        else:
            arrival, ready = arrivals.arrival_s[request], arrivals.ready_s[request]
            if ready > clock:
                break
        counters[NEXT_ARRIVAL] += 1
        world.record.arrival_s[request] = arrival
        _take_over(setup, world, tick, request, ready)


@kernel
def _take_over(setup: Setup, world: World, tick: Tick, request: int, ready_s: float) -> None:
    counters = world.marks.counters
    counters[ARRIVED] += 1
    world.record.ready_s[request] = ready_s
    if setup.router < POOL_FIFO:
        enqueue(world.replicas, world.requests, request, _place(setup.router, world))
    else:
        append(tick.pool, request)
        counters[WAITING] += 1
        counters[WAITING_TOKENS] += world.requests.prompts[request]


@kernel
def _place(router: int, world: World) -> int:
    """Replica of an immediate router: the first at or after the pointer with the smallest key."""
    replicas, counters = world.replicas, world.marks.counters
    count = len(replicas.loads)
    best = counters[POINTER] % count
    if router != ROUND_ROBIN:
        first, best_key = best, NEVER
        for turn in range(count):
            g = first + turn
            g = g - count if g >= count else g
            key = _key(router, replicas, g)
            if key < best_key:
                best, best_key = g, key
    counters[POINTER] = best + 1
    return int(best)


@kernel
def _key(router: int, replicas: Replicas, g: int) -> int:
    if router == JSQ:
        return int(replicas.active[g] + replicas.queued[g])
    if router == LEAST_TOKENS:
        return int(replicas.loads[g] + replicas.queued_tokens[g])
    return int(WAITING_WEIGHT * replicas.queued[g] + replicas.active[g])
