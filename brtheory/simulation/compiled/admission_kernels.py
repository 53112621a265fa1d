"""Admissions of a compiled run: replicas' own FIFOs, ticks, and what follows from admitting."""

import numpy as np

from brtheory.routers.backend import kernel
from brtheory.routers.fast_horizon_kernels import predict_again, put_in
from brtheory.routers.fast_horizon_memory_kernels import ABSENT, NEVER, Horizon
from brtheory.routers.fast_oldest_kernels import (
    fifo_tick,
    learned_weight,
    mean_prompt,
    mean_wait,
    median_wait,
    remember,
    window_tick,
)
from brtheory.routers.fast_replica_kernels import Loads
from brtheory.routers.fast_shortlist_kernels import WindowRule
from brtheory.routers.kernels import BEYOND_LIMIT, balance_tick
from brtheory.simulation.compiled.state_kernels import (
    CLOCK,
    RUNNING,
    STEP,
    TURNING,
    WAITING,
    WAITING_TOKENS,
    dequeue,
    pop,
    push,
)
from brtheory.simulation.compiled.world_kernels import (
    POOL_FIFO,
    WINDOW,
    Setup,
    Tick,
    World,
)


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
    weight = setup.wait_weight
    if weight < 0:
        weight = setup.wait_scale * learned_weight(memory)
    longest = np.inf
    if setup.age_limit > 0 and (median > 0 or setup.age_floor_s > 0):
        longest = max(setup.age_limit * median, setup.age_floor_s)
    rule = WindowRule(
        setup.window,
        setup.size_weight,
        setup.overflow_weight,
        setup.longest_first,
        0.0 if 2 * mean_wait(memory) > setup.hold_s else setup.hold_s,
        weight,
        longest,
        mean_prompt(memory),
        setup.room_share,
    )
    count = window_tick(
        tick.pool, waiting, tick.loads, ready_s, now, rule, tick.shortlist, tick.out
    )
    for i in range(count):
        request = tick.out.position[i]
        remember(memory, world.requests.prompts[request], now - ready_s[request])
    return count
