"""Replicas that differ: agreement with the judge, laws of speed, metrics in time."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.unequal import Replica
from brtheory.errors import InputError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.prediction.oracle import OraclePredictor
from brtheory.simulation.metrics import summarise
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.replay import ordered_lengths, replay
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.workload import ClusterShape, StepTime, unequal_shape
from tests.strategies import instances
from tests.unit.simulation.cases import (
    ROUTERS,
    WITH_OPTIONS,
    assert_same,
    plans,
    requests_lists,
    run,
    step_times,
    unequal_shapes,
)
from tests.unit.simulation.test_engine import build
from tests.unit.simulation.test_run import trace_of


def at_once(n):
    return ArrivalPlan("steps", np.zeros(n), ready_step=np.zeros(n, dtype=np.int64))


def mixed(instance, data):
    speeds = st.sampled_from([1.0, 0.5, 0.7, 2.0])
    own = st.builds(Replica, slots=st.integers(1, 3), speed=speeds, b0=st.none() | st.just(0.02))
    described = data.draw(st.lists(own, min_size=instance.replicas, max_size=instance.replicas))
    most = max(replica.slots for replica in described)
    return replace(instance, slots=most, unequal=tuple(described))


@settings(max_examples=60)
@given(instances(), st.sampled_from(ROUTERS), st.data())
def test_a_replay_is_feasible_and_its_times_are_the_judges(instance, name, data):
    """The engine's sums of T equal what the judge recomputes from lines, exactly."""
    instance = mixed(instance, data)
    lengths = ordered_lengths(instance)
    oracle = OraclePredictor(dict(enumerate(lengths.output_tokens.tolist())))
    placements = replay(instance, build(name, seed=7), predictor=oracle)
    verdict = evaluate(instance, placements)
    assert verdict.feasible
    order = sorted(instance.requests, key=lambda r: (r.ready, r.id))
    plan = ArrivalPlan("steps", np.zeros(len(order)), ready_step=np.array([r.ready for r in order]))
    record = run(
        [(r.prompt_tokens, r.output_tokens) for r in order],
        name,
        shape=ClusterShape(
            instance.replicas, instance.slots, instance.kv_capacity, instance.unequal
        ),
        plan=plan,
        step_time=StepTime(a0=instance.a0, b0=instance.b0),
    )
    assert record.totals.sum_peak == verdict.sum_peak
    assert record.totals.sum_load == verdict.sum_load == instance.total_work
    paces = instance.paces
    if paces is None:
        assert record.unit_s is None
        return
    assert paces.unit_s * record.totals.sum_longest == verdict.time_exact_s
    idle = instance.replicas * record.totals.sum_longest - record.totals.sum_times
    assert paces.unit_s * idle == verdict.idle_exact_s


@settings(max_examples=60)
@given(st.data(), st.sampled_from(WITH_OPTIONS), requests_lists, unequal_shapes, step_times)
def test_striding_equals_the_loop_over_every_step(data, name, requests, shape, step_time):
    case = {"shape": shape, "plan": data.draw(plans(requests)), "step_time": step_time}
    expected = run(requests, name, longest_stride=1, **case)
    assert_same(run(requests, name, **case), expected)
    assert_same(run(requests, name, backend="numpy", **case), expected)


@given(
    requests_lists,
    unequal_shapes,
    st.sampled_from(["br0", "brh", "window:hold_s=0", "least-tokens"]),
)
def test_twice_the_speed_everywhere_changes_no_decision_and_halves_every_step(
    requests, shape, name
):
    faster = replace(
        shape, unequal=tuple(replace(r, speed=2 * r.speed) for r in shape.unequal or ())
    )
    slow, fast = (
        run(requests, name, shape=s, plan=at_once(len(requests)), step_time=StepTime(2**-10, 2**-4))
        for s in (shape, faster)
    )
    assert np.array_equal(slow.replica, fast.replica)
    assert np.array_equal(slow.admitted_step, fast.admitted_step)
    assert fast.totals.clock_s == slow.totals.clock_s / 2


@given(requests_lists, st.integers(1, 4), st.integers(1, 3), st.sampled_from(ROUTERS))
def test_a_description_of_equal_replicas_changes_nothing(requests, replicas, slots, name):
    described = unequal_shape([Replica(slots)] * replicas)
    case = {"plan": at_once(len(requests)), "step_time": StepTime()}
    record = run(requests, name, shape=described, **case)
    assert_same(record, run(requests, name, shape=ClusterShape(replicas, slots), **case))


def test_times_of_two_replicas_by_hand():
    # a = 1, b = 2; replica 1 at half speed: T = (2 + L_0, 4 + 2 L_1).
    # Steps: L = (10, 4), (11, 5), (-, 6) -> T = (12, 12), (13, 14), (2, 16): 42 s, idle 1 + 14.
    shape = unequal_shape([Replica(1), Replica(1, 0.5)])
    record = run(
        [(10, 2), (4, 3)],
        "round-robin",
        shape=shape,
        plan=at_once(2),
        step_time=StepTime(a0=1.0, b0=2.0),
    )
    assert record.totals.clock_s == 42
    metrics = summarise(record)
    assert metrics["barrier_idle_total_s"] == 15
    assert metrics["barrier_idle_mean_s"] == 5
    assert metrics["barrier_idle_fraction"] == pytest.approx(15 / 84)
    assert metrics["imbalance_total_tokens"] == 2 * 27 - 36


def test_energy_of_two_replicas_at_rest_and_at_work():
    # T = (2 + 2, 2): u = (1, 1/2) for one step of 4 s.
    record = run(
        [(2, 1)],
        "jsq",
        shape=unequal_shape([Replica(1, 1.0, 1.0, 2.0), Replica(1, 1.0, 3.0, 2.0)]),
        plan=at_once(1),
        step_time=StepTime(),
    )
    assert record.totals.energy_j == pytest.approx(4 * (200 + 300 * (1 + 0.5**0.7)))


def test_a_slow_replica_is_given_less_by_routers_that_look_at_time():
    requests = [(100, 10)] * 240
    shape = unequal_shape([Replica(8), Replica(8), Replica(8, 0.25)])
    plan = ArrivalPlan("closed", np.zeros(240), population=18)
    step_time = StepTime(a0=1e-3, b0=1e-3)
    tokens = {
        name: np.bincount(
            run(requests, name, shape=shape, plan=plan, step_time=step_time).replica, minlength=3
        )
        for name in ("jsq", "least-tokens", "window")
    }
    assert abs(tokens["jsq"][2] - 80) <= 2
    assert tokens["least-tokens"][2] < 50
    assert tokens["window"][2] < 50


def test_slots_of_each_replica_are_filled_and_never_more():
    shape = unequal_shape([Replica(4), Replica(1)])
    requests = [(10, 5)] * 40
    plan = ArrivalPlan("closed", np.zeros(40), population=20)
    record = run(requests, "br0", shape=shape, plan=plan, step_time=StepTime())
    assert record.window_end is not None
    for step in range(record.admitted_step.max()):
        here = (record.admitted_step <= step) & (step < record.admitted_step + 5)
        assert np.bincount(record.replica[here], minlength=2).tolist() == [4, 1]


def test_the_population_of_a_closed_loop_follows_all_slots():
    shape = unequal_shape([Replica(4), Replica(1)])
    config = RunConfig("pool-fifo", shape)
    record = simulate(trace_of(60, synthetic=True), config)
    # closed:1.25 of 5 slots is 6 requests in the system.
    assert (record.arrival_s == 0).sum() == 6


def test_numbers_with_too_many_digits_for_64_bits_are_refused():
    shape = unequal_shape([Replica(1, 1.0, 1.0000000000001e-7, 0.3), Replica(1, 1 / 3)])
    with pytest.raises(InputError, match="fewer digits"):
        run([(10**6, 5)], "jsq", shape=shape, plan=at_once(1), step_time=StepTime())


@pytest.mark.parametrize("name", ["bf-io", "exact-tick"])
def test_routers_that_know_no_speeds_say_so(name):
    shape = unequal_shape([Replica(1), Replica(1, 0.5)])
    with pytest.raises(InputError, match="alike in speed"):
        run([(5, 2)], name, shape=shape, plan=at_once(1), step_time=StepTime())


def test_the_judge_by_hand_in_exact_fractions():
    shape = {"slots": 1, "unequal": (Replica(1), Replica(1, 0.3))}
    instance = replace(two_requests(), **shape)
    placements = replay(instance, build("round-robin"))
    verdict = evaluate(instance, placements)
    # T = (2 + L, (2 + L)/0.3): L = (10, 4), (11, 5), (0, 6) -> max 20, 70/3, 80/3.
    assert verdict.time_exact_s == Fraction(70)
    assert verdict.idle_exact_s == (20 - 12) + (Fraction(70, 3) - 13) + (Fraction(80, 3) - 2)
    assert verdict.to_json()["barrier_idle_s"] == pytest.approx(8 + 31 / 3 + 74 / 3)


def two_requests():
    requests = (OfflineRequest(0, 0, 10, 2), OfflineRequest(1, 0, 4, 3))
    return Instance(2, 1, None, 1.0, 2.0, requests)
