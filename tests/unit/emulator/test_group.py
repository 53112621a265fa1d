"""The barrier group: equal to the simulation for the same admissions, and exact by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.emulator.group import DecodeGroup
from brtheory.emulator.step import DecodeRequest
from brtheory.errors import InfeasibleError, InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.routers.registry import find_router
from brtheory.simulation.arrivals import StepArrivals, TimedArrivals
from brtheory.simulation.engine import Simulation
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime

STEP_TIME = StepTime(a0=1e-3, b0=0.01)


@st.composite
def runs(draw):
    """Requests (ready, prompt, output), a shape they fit, and an immediate router's name."""
    requests = draw(
        st.lists(
            st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(1, 6)),
            min_size=1,
            max_size=14,
        )
    )
    largest = max(prompt + output for _, prompt, output in requests)
    capacity = largest + draw(st.integers(0, 12)) if draw(st.booleans()) else None
    shape = ClusterShape(draw(st.integers(1, 4)), draw(st.integers(1, 3)), capacity)
    return requests, shape, draw(st.sampled_from(["random", "round-robin", "jsq", "least-tokens"]))


class Watch:
    """Observer of the simulation: loads of every executed step, by absolute step."""

    def __init__(self):
        self.loads = {}

    def on_steps(self, step, loads):
        for offset, column in enumerate(loads.T.tolist()):
            self.loads[step + offset] = tuple(column)


def simulated(requests, shape, name, arrivals):
    watch = Watch()
    spec = find_router(name)
    _, prompts, outputs = (
        np.array(column, dtype=np.int64) for column in zip(*requests, strict=True)
    )
    record = Simulation(
        Lengths(prompts, outputs),
        spec.build(spec.params(), np.random.default_rng(0)),
        shape=shape,
        arrivals=arrivals,
        step_time=STEP_TIME,
        observers=[watch],
    ).run()
    return record, watch.loads


def requests_at(requests, record):
    return [
        DecodeRequest(i, int(record.replica[i]), prompt, output)
        for i, (_, prompt, output) in enumerate(requests)
    ]


@given(runs())
@settings(max_examples=50, deadline=None)
def test_loads_of_every_step_equal_the_simulations(run):
    """Submitted to the same replicas at the same steps, the group's own FIFOs do the rest."""
    requests, shape, name = run
    ready = np.array([step for step, _, _ in requests])
    record, expected = simulated(requests, shape, name, StepArrivals(ready))
    group = DecodeGroup(shape, step_time=STEP_TIME)
    order = np.argsort(ready, kind="stable").tolist()
    pending = requests_at(requests, record)
    loads, finished, step = {}, {}, 0
    while len(finished) < len(requests):
        while order and ready[order[0]] <= step:
            group.submit(pending[order.pop(0)])
        begun = group.begin_step(0.0)
        if begun is not None:
            loads[step] = begun.loads
            finished |= {e.id: step for e in group.end_step() if e.finished}
        step += 1
    assert loads == expected
    assert [finished[i] for i in range(len(requests))] == (
        record.admitted_step + record.output_tokens - 1
    ).tolist()
    totals = record.totals
    assert (group.totals.steps, group.totals.sum_peak) == (totals.steps, totals.sum_peak)
    assert (group.totals.sum_load, group.totals.decoded_tokens) == (
        totals.sum_load,
        totals.decoded_tokens,
    )
    assert group.loads == (0,) * shape.replicas
    assert group.active == group.waiting == (0,) * shape.replicas


@given(runs(), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_clock_equals_the_simulations_to_the_last_bit(run, spacing):
    """Open arrivals join at the first boundary not before them; idle time is jumped over."""
    requests, shape, name = run
    arrival_s = np.sort(np.array([step * spacing * 1e-3 for step, _, _ in requests]))
    arrivals = TimedArrivals(arrival_s, np.zeros(len(requests)))
    record, _ = simulated(requests, shape, name, arrivals)
    group = DecodeGroup(shape, step_time=STEP_TIME)
    pending = requests_at(requests, record)
    clock, arrived, finished = 0.0, 0, {}
    while len(finished) < len(requests):
        while arrived < len(pending) and arrival_s[arrived] <= clock:
            group.submit(pending[arrived])
            arrived += 1
        step = group.begin_step(clock)
        if step is None:
            clock = float(arrival_s[arrived])
            continue
        clock = step.ends_s
        finished |= {e.id: clock for e in group.end_step() if e.finished}
    assert [finished[i] for i in range(len(requests))] == record.finished_s.tolist()


@given(runs())
@settings(max_examples=40, deadline=None)
def test_the_judge_finds_the_groups_totals(run):
    requests, shape, _ = run
    group = DecodeGroup(shape, step_time=STEP_TIME)
    for i, (_, prompt, output) in enumerate(requests):
        group.submit(DecodeRequest(i, i % shape.replicas, prompt, output))
    placements, seen, step = [], set(), 0
    while group.begin_step(0.0) is not None:
        for emission in group.end_step():
            if emission.id not in seen:
                seen.add(emission.id)
                placements.append(Placement(emission.id, emission.id % shape.replicas, step))
        step += 1
    instance = Instance(
        replicas=shape.replicas,
        slots=shape.slots,
        kv_capacity=shape.kv_capacity,
        a0=STEP_TIME.a0,
        b0=STEP_TIME.b0,
        requests=tuple(OfflineRequest(i, 0, s, o) for i, (_, s, o) in enumerate(requests)),
    )
    verdict = evaluate(instance, tuple(placements))
    assert verdict.feasible
    assert (verdict.steps, verdict.sum_peak, verdict.imbalance_total) == (
        group.totals.steps,
        group.totals.sum_peak,
        group.imbalance_total,
    )


@given(runs(), st.integers(2, 5), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_bursts_change_the_pace_and_not_the_answer(run, burst, seed):
    """Every request still emits its output, never more than ``burst`` tokens a step."""
    requests, shape, _ = run
    group = DecodeGroup(shape, step_time=STEP_TIME, burst=burst, seed=seed)
    for i, (_, prompt, output) in enumerate(requests):
        group.submit(DecodeRequest(i, 0, prompt, output, key=i))
    ages = dict.fromkeys(range(len(requests)), 0)
    while group.begin_step(0.0) is not None:
        for emission in group.end_step():
            assert 1 <= emission.tokens <= burst
            ages[emission.id] += emission.tokens
            assert emission.age == ages[emission.id]
    assert list(ages.values()) == [output for _, _, output in requests]
    assert group.loads == (0,) * shape.replicas


@given(runs(), st.data())
@settings(max_examples=50, deadline=None)
def test_cancelling_at_any_time_leaves_exactly_the_others(run, data):
    requests, shape, _ = run
    group = DecodeGroup(shape, step_time=STEP_TIME)
    alive = {}
    for i, (_, prompt, output) in enumerate(requests):
        request = DecodeRequest(i, i % shape.replicas, prompt, output)
        group.submit(request)
        alive[i] = request
    for _ in range(6):
        begun = group.begin_step(0.0)
        if data.draw(st.booleans()) and alive:
            victim = data.draw(st.sampled_from(sorted(alive)))
            del alive[victim]
            assert group.cancel(victim)
            assert not group.cancel(victim)
        if begun is not None:
            for emission in group.end_step():
                assert emission.id in alive
                if emission.finished:
                    del alive[emission.id]
        loads = [0] * shape.replicas
        for request in alive.values():
            age = group.age(request.id)
            if age is not None:
                loads[request.replica] += request.prompt_tokens + age
        assert group.loads == tuple(loads)
        assert sum(group.active) + sum(group.waiting) == len(alive)


def test_two_replicas_by_hand():
    # Prompts 10 and 4, outputs 2 and 3. Loads (10, 4), (11, 5), (0, 6): peaks 10 + 11 + 6 = 27,
    # sum 14 + 16 + 6 = 36, imbalance 2*27 - 36 = 18; tau = 0.01 + 0.001*M.
    group = DecodeGroup(ClusterShape(2, 1), step_time=STEP_TIME)
    group.submit(DecodeRequest(0, 0, 10, 2))
    group.submit(DecodeRequest(1, 1, 4, 3))
    first = group.begin_step(5.0)
    assert (first.loads, first.peak) == ((10, 4), 10)
    assert first.duration_s == pytest.approx(0.02)
    assert first.ends_s == pytest.approx(5.02)
    assert [(e.id, e.age, e.finished) for e in group.end_step()] == [(0, 1, False), (1, 1, False)]
    assert group.begin_step(99.0).ends_s == pytest.approx(5.041)
    assert [e.finished for e in group.end_step()] == [True, False]
    assert group.begin_step(99.0).loads == (0, 6)
    group.end_step()
    assert group.begin_step(99.0) is None
    assert (group.totals.sum_peak, group.totals.sum_load) == (27, 36)
    assert group.imbalance_total == 18


def test_a_refused_request_leaves_and_the_next_one_takes_its_place():
    group = DecodeGroup(ClusterShape(1, 1), step_time=STEP_TIME, gate=lambda r: r.id != 0)
    group.submit(DecodeRequest(0, 0, 7, 2))
    group.submit(DecodeRequest(1, 0, 3, 1))
    assert group.begin_step(0.0).loads == (3,)
    assert group.take_refused() == (0,)
    assert group.take_refused() == ()
    assert [e.id for e in group.end_step()] == [1]
    assert not group.cancel(0)


def test_the_gate_is_asked_at_admission_and_not_before():
    asked = []
    group = DecodeGroup(
        ClusterShape(1, 1), step_time=STEP_TIME, gate=lambda r: asked.append(r.id) or True
    )
    group.submit(DecodeRequest(0, 0, 7, 2))
    group.submit(DecodeRequest(1, 0, 3, 1))
    group.begin_step(0.0)
    group.end_step()
    assert asked == [0]
    group.begin_step(0.0)
    group.end_step()
    group.begin_step(0.0)
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DecodeRequest(0, 2, 1, 1), r"replica: expected 0 \.\. 1, got 2"),
        (DecodeRequest(0, -1, 1, 1), r"replica: expected 0 \.\. 1, got -1"),
        (DecodeRequest(0, 0, 0, 1), "tokens >= 1"),
        (DecodeRequest(0, 0, 1, 0), "tokens >= 1"),
        (DecodeRequest(5, 0, 1, 1), "ids used once"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(request_, message):
    group = DecodeGroup(ClusterShape(2, 1), step_time=STEP_TIME)
    group.submit(DecodeRequest(5, 1, 1, 1))
    with pytest.raises(InputError, match=message):
        group.submit(request_)
    assert group.waiting == (0, 1)


def test_a_request_larger_than_an_empty_replica_is_infeasible():
    group = DecodeGroup(ClusterShape(1, 1, kv_capacity=9), step_time=STEP_TIME)
    with pytest.raises(InfeasibleError, match="reserves 10 KV tokens, kv_capacity is 9"):
        group.submit(DecodeRequest(0, 0, 7, 3))


def test_a_burst_below_one_is_refused():
    with pytest.raises(InputError, match="burst"):
        DecodeGroup(ClusterShape(1, 1), step_time=STEP_TIME, burst=0)
