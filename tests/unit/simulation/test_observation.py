"""What routers are shown: the truth through a picture, late pictures, misjudged prompts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.admission import Admission
from brtheory.prediction.oracle import OraclePredictor
from brtheory.simulation.arrivals import StepArrivals, TimedArrivals
from brtheory.simulation.engine import Simulation
from brtheory.simulation.observation import Observation
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.transfer import TransferDelay
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.simulation.cases import (
    ROUTERS,
    WITH_OPTIONS,
    alike_shapes,
    assert_same,
    lengths_of,
    plans,
    requests_lists,
    run,
    step_times,
    unequal_shapes,
)
from tests.unit.simulation.test_engine import build

SECOND = StepTime(a0=0.0, b0=1.0)
shapes = alike_shapes | unequal_shapes


class Placer:
    """Round robin that writes down what it sees."""

    def __init__(self):
        self.seen = []

    def place(self, request, view):
        self.seen.append((view.loads.tolist(), view.active.tolist(), view.queued_tokens.tolist()))
        return (len(self.seen) - 1) % len(view.loads)


class Binder:
    """A pooled router that fills replica 0 first and writes down what it sees."""

    def __init__(self, horizon=0):
        self.horizon = horizon
        self.seen = []

    def tick(self, state):
        self.seen.append([list(row) for row in state.loads])
        free, made = list(state.free_slots), []
        for request in state.pool:
            replica = next((g for g, n in enumerate(free) if n > 0), None)
            if replica is not None:
                free[replica] -= 1
                made.append(Admission(request.id, replica))
        return made


def watch(router, requests, observation, *, at, replicas=1, slots=9):
    outputs = dict(enumerate(o for _, o in requests))
    Simulation(
        lengths_of(requests),
        router,
        shape=ClusterShape(replicas, slots),
        arrivals=TimedArrivals(np.array(at, dtype=np.float64), np.zeros(len(at))),
        step_time=SECOND,
        predictor=OraclePredictor(outputs),
        observation=observation,
    ).run()
    return router.seen


ARRIVALS = [0, 1, 2, 3, 4]
REQUESTS = [(10, 3), (20, 9), (30, 9), (40, 9), (50, 9)]


def test_a_late_pooled_router_sees_the_past_and_its_own_admissions():
    # True loads at the ticks: 0, 11, 12 + 21, (13 - 13) + 22 + 31, 23 + 32 + 41; request 0 ends at
    # step 3. Two steps late: 0, 0, 0, 11, 33, and with its own book + 10, + 10 + 20, + 20 + 30,
    # + 30 + 40.
    truth = [[[0]], [[11]], [[33]], [[53]], [[96]]]
    late = [[[0]], [[0]], [[0]], [[11]], [[33]]]
    own = [[[0]], [[10]], [[30]], [[61]], [[103]]]
    for observation, expected in (
        (Observation(), truth),
        (Observation(2, keeps_book=False), late),
        (Observation(2), own),
    ):
        assert watch(Binder(), REQUESTS, observation, at=ARRIVALS) == expected


def test_projected_loads_are_as_late():
    # H = 1 one step late: at step 1 what was there at step 0 (nothing) and the own 10 tokens; at
    # step 2 request 0 as of step 1, 11 and 12, and the own 20 tokens.
    seen = watch(Binder(horizon=1), REQUESTS[:3], Observation(1), at=ARRIVALS[:3])
    assert seen == [[[0, 0]], [[10, 10]], [[31, 32]]]


def test_a_late_immediate_router_sees_old_queues_and_its_own_placements():
    # One slot each, round robin over two replicas; one step late: a placement enters the own book
    # as queued tokens, and turns into load once the report of its step is in.
    seen = watch(
        Placer(), [(10, 9), (20, 9), (30, 9)], Observation(1), at=[0, 1, 2], replicas=2, slots=1
    )
    assert seen == [
        ([0, 0], [0, 0], [0, 0]),
        ([0, 0], [0, 0], [10, 0]),
        ([11, 0], [1, 0], [0, 20]),
    ]


def test_nothing_is_late_after_idle_time():
    # Request 0 ends at step 3; the next arrives after a pause.
    seen = watch(Binder(), REQUESTS[:2], Observation(1000), at=[0, 50])
    assert seen == [[[0]], [[0]]]


def test_misjudged_prompts_are_seen_everywhere_and_change_no_true_load():
    requests = [(10, 3), (20, 9)]
    observation = Observation(prompt_tokens=np.array([7, 25]))
    router = Binder()
    assert watch(router, requests, observation, at=[0, 1]) == [[[0]], [[8]]]


@settings(max_examples=80)
@given(st.data(), st.sampled_from(WITH_OPTIONS), requests_lists, shapes, step_times)
def test_the_truth_through_a_picture_changes_nothing(data, name, requests, shape, step_time):
    """Late by no step and nothing misjudged: the very same run, to the last bit."""
    case = {"shape": shape, "plan": data.draw(plans(requests)), "step_time": step_time}
    truth = np.array([prompt for prompt, _ in requests])
    expected = run(requests, name, **case)
    assert_same(run(requests, name, observation=Observation(), **case), expected)
    seen = Observation(prompt_tokens=truth)
    assert_same(run(requests, name, backend="numpy", observation=seen, **case), expected)


@st.composite
def observations(draw, requests):
    prompts = st.lists(st.integers(1, 60), min_size=len(requests), max_size=len(requests))
    seen = draw(st.none() | prompts)
    return Observation(
        stale_steps=draw(st.integers(0, 12)),
        keeps_book=draw(st.booleans()),
        prompt_tokens=None if seen is None else np.array(seen),
    )


@settings(max_examples=80)
@given(st.data(), st.sampled_from(WITH_OPTIONS), requests_lists, shapes, step_times)
def test_striding_equals_the_loop_over_every_step(data, name, requests, shape, step_time):
    case = {
        "shape": shape,
        "plan": data.draw(plans(requests)),
        "step_time": step_time,
        "observation": data.draw(observations(requests)),
        "transfer": data.draw(st.none() | st.builds(TransferDelay, st.sampled_from([0.0, 1.3]))),
    }
    expected = run(requests, name, longest_stride=1, **case)
    assert_same(run(requests, name, **case), expected)
    assert_same(run(requests, name, backend="numpy", **case), expected)


@given(requests_lists, st.integers(1, 3), st.sampled_from(["br0", "least-tokens", "pool-fifo"]))
def test_a_common_factor_of_all_prompts_is_no_error_where_nothing_grows(requests, slots, name):
    """With one output token each, loads are sums of prompts: scores scale, choices stay."""
    single = [(prompt, 1) for prompt, _ in requests]
    records = [
        Simulation(
            lengths_of(single),
            build(name),
            shape=ClusterShape(3, slots),
            observation=observation,
            arrivals=StepArrivals(np.zeros(len(single), dtype=np.int64)),
        ).run()
        for observation in (
            None,
            Observation(prompt_tokens=7 * np.array([prompt for prompt, _ in single])),
        )
    ]
    assert_same(*records)


def test_late_loads_cost_balance():
    """Twenty steps late without a book, least tokens herds; with one it hardly minds."""
    rng = np.random.default_rng(1)
    requests = list(
        zip(rng.integers(1, 400, 600).tolist(), rng.integers(1, 60, 600).tolist(), strict=True)
    )
    outputs = dict(enumerate(o for _, o in requests))

    def imbalance(observation):
        record = Simulation(
            lengths_of(requests),
            build("least-tokens"),
            shape=ClusterShape(4, 8),
            arrivals=TimedArrivals(np.arange(600) * 0.035, np.zeros(600)),
            step_time=StepTime(a0=1e-6, b0=0.02),
            predictor=OraclePredictor(outputs),
            observation=observation,
        ).run()
        return (4 * record.totals.sum_peak - record.totals.sum_load) / record.totals.steps

    fresh, booked, herd = (
        imbalance(seen) for seen in (None, Observation(20), Observation(20, keeps_book=False))
    )
    assert fresh < booked < herd
    assert herd > 1.5 * fresh


@pytest.mark.parametrize("name", ROUTERS)
def test_a_wrong_picture_never_overbooks(name):
    """Free slots stay true, so every run ends with everything served."""
    rng = np.random.default_rng(2)
    requests = [(int(p), int(o)) for p, o in rng.integers(1, 40, size=(80, 2))]
    record = run(
        requests,
        name,
        shape=ClusterShape(3, 2, kv_capacity=120),
        plan=ArrivalPlan("closed", np.zeros(80), population=12),
        step_time=StepTime(),
        observation=Observation(7, keeps_book=False, prompt_tokens=rng.integers(1, 400, size=80)),
    )
    assert record.totals.completed == 80
