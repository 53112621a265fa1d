"""The phases of a compiled step: completions, arrivals, admissions, the step itself, idle jumps."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.routers.backend import kernel
from brtheory.routers.fast_horizon_kernels import (
    ABSENT,
    NEVER,
    Horizon,
    move_on,
    predict_again,
    put_in,
    take_out,
)
from brtheory.routers.fast_oldest_kernels import (
    Memory,
    fifo_tick,
    learned_weight,
    median_wait,
    remember,
    window_tick,
)
from brtheory.routers.fast_pool_kernels import Pool, append
from brtheory.routers.kernels import BEYOND_LIMIT, Loads, Out, Rules, Scratch, balance_tick
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
    TURNING,
    WAITING,
    WAITING_TOKENS,
    Arrivals,
    Heaps,
    Marks,
    Record,
    Replicas,
    Requests,
    dequeue,
    enqueue,
    pop,
    push,
)

CLOSED, TIMED, BY_STEP = range(3)
JSQ, LEAST_TOKENS, ENGINE_SCORE, ROUND_ROBIN, POOL_FIFO, WINDOW, BALANCE = range(7)
WAITING_WEIGHT = 4
IDLE_W = 100.0
ACTIVE_W = 300.0
EXPONENT = 0.7
WARMUP_SHARE = 0.1


class Setup(NamedTuple):
    """The constants of a run.

    Parameters
    ----------
    router, arrivals
        JSQ .. BALANCE; CLOSED, TIMED or BY_STEP.
    slots, kv_capacity
        Per replica; -1 for unlimited KV capacity.
    horizon, refresh
        H, and steps between two predictions; 0 where loads are not projected.
    population
        Requests in a closed loop.
    window, wait_weight, age_limit
        Of the window router; a negative weight is learned, a negative limit is none.
    limit
        Largest load and pool the router accepts.
    a0, b0
        Of the step time.
    """

    router: int
    arrivals: int
    slots: int
    kv_capacity: int
    horizon: int
    refresh: int
    population: int
    window: int
    wait_weight: float
    age_limit: float
    limit: int
    a0: float
    b0: float


class World(NamedTuple):
    """All arrays of a run."""

    requests: Requests
    replicas: Replicas
    arrivals: Arrivals
    heaps: Heaps
    marks: Marks
    record: Record


class Tick(NamedTuple):
    """What the pooled routers need."""

    pool: Pool
    loads: Loads
    rules: Rules
    scratch: Scratch
    out: Out
    memory: Memory
    horizon: Horizon


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
def admit(setup: Setup, world: World, tick: Tick) -> bool:
    """Bind what can be bound; False if the state is beyond the router's token limit."""
    if setup.router < POOL_FIFO:
        replicas = world.replicas
        for g in range(len(replicas.loads)):
            while replicas.queued[g] > 0 and _fits(setup, world, replicas.head[g], g):
                request = replicas.head[g]
                dequeue(replicas, world.requests, g)
                _start(setup, world, tick, request, g)
        return True
    free, slots = 0, setup.slots
    for g in range(len(world.replicas.active)):
        free += slots - world.replicas.active[g]
    if world.marks.counters[WAITING] == 0 or free == 0:
        return True
    return _tick(setup, world, tick)


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


@kernel
def _fits(setup: Setup, world: World, request: int, g: int) -> bool:
    if world.replicas.active[g] >= setup.slots:
        return False
    if setup.kv_capacity < 0:
        return True
    needed = world.replicas.reserved[g] + world.requests.reserved[request]
    return bool(needed <= setup.kv_capacity)


@kernel
def _start(setup: Setup, world: World, tick: Tick, request: int, g: int) -> None:
    replicas, heaps, counters = world.replicas, world.heaps, world.marks.counters
    step, output = counters[STEP], world.requests.outputs[request]
    replicas.loads[g] += world.requests.prompts[request]
    replicas.active[g] += 1
    if setup.kv_capacity >= 0:
        replicas.reserved[g] += world.requests.reserved[request]
    push(heaps.finish_step, heaps.finish_request, counters[RUNNING], step + output, request)
    counters[RUNNING] += 1
    world.record.replica[request] = g
    world.record.admitted_step[request] = step
    world.record.admitted_s[request] = world.marks.times[CLOCK]
    if setup.horizon > 0:
        _predict(setup, world, tick, request, g)


@kernel
def _predict(setup: Setup, world: World, tick: Tick, request: int, g: int) -> None:
    """The oracle at admission: an end inside the horizon is known, a later one when it turns."""
    counters, heaps = world.marks.counters, world.heaps
    step, output = counters[STEP], world.requests.outputs[request]
    known = output < setup.horizon
    prompt = world.requests.prompts[request]
    put_in(tick.horizon, request, g, prompt, step + output if known else NEVER)
    refreshes = (output - setup.horizon + setup.refresh) // setup.refresh
    if not known and refreshes * setup.refresh < output:
        turn = step + refreshes * setup.refresh
        push(heaps.turn_step, heaps.turn_request, counters[TURNING], turn, request)
        counters[TURNING] += 1


@kernel
def _turn(world: World, horizon: Horizon) -> None:
    """Refreshed predictions that have come to see the end of a request."""
    counters, heaps = world.marks.counters, world.heaps
    while counters[TURNING] > 0 and heaps.turn_step[0] <= counters[STEP]:
        request = pop(heaps.turn_step, heaps.turn_request, counters[TURNING])
        counters[TURNING] -= 1
        if horizon.place[request] != ABSENT:
            finish = world.record.admitted_step[request] + world.requests.outputs[request]
            predict_again(horizon, request, finish)


@kernel
def _tick(setup: Setup, world: World, tick: Tick) -> bool:
    marks, loads = world.marks, tick.loads
    waiting, start = marks.counters[WAITING], 0
    if setup.horizon > 0:
        _turn(world, tick.horizon)
        start = tick.horizon.clock[0] - tick.horizon.clock[1]
    _look(setup, world, loads)
    if setup.router == POOL_FIFO:
        count = fifo_tick(tick.pool, waiting, loads, tick.out)
    elif marks.counters[WAITING_TOKENS] > setup.limit:
        return False
    elif setup.router == WINDOW:
        count = _window(setup, world, tick, waiting)
    else:
        count = balance_tick(tick.pool, waiting, loads, start, tick.rules, tick.scratch, tick.out)
    if count == BEYOND_LIMIT:
        return False
    marks.counters[WAITING] -= count
    for i in range(count):
        request = tick.out.position[i]
        marks.counters[WAITING_TOKENS] -= world.requests.prompts[request]
        _start(setup, world, tick, request, tick.out.replica[i])
    return True


@kernel
def _look(setup: Setup, world: World, loads: Loads) -> None:
    """Free slots and KV room as this tick finds them."""
    for g in range(len(loads.cap)):
        loads.cap[g] = setup.slots - world.replicas.active[g]
        loads.added[g] = 0
        loads.present[g] = world.replicas.loads[g]
        if setup.kv_capacity >= 0:
            loads.room[g] = setup.kv_capacity - world.replicas.reserved[g]


@kernel
def _window(setup: Setup, world: World, tick: Tick, waiting: int) -> int:
    memory, now, ready_s = tick.memory, world.marks.times[CLOCK], world.record.ready_s
    for g in range(len(world.replicas.loads)):
        if world.replicas.loads[g] > setup.limit:
            return BEYOND_LIMIT
    median = median_wait(memory)
    weight = learned_weight(memory) if setup.wait_weight < 0 else setup.wait_weight
    longest = setup.age_limit * median if setup.age_limit > 0 and median > 0 else np.inf
    count = window_tick(
        tick.pool, waiting, tick.loads, ready_s, now, weight, longest, setup.window, tick.out
    )
    for i in range(count):
        request = tick.out.position[i]
        remember(memory, world.requests.prompts[request], now - ready_s[request])
    return count
