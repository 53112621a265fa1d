"""A loop over every step, skipping from event to event, and the compiled loop are one simulator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.routers.backend import compiled_available
from brtheory.routers.registry import find_router
from brtheory.simulation.compiled.support import supported
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.simulation.cases import lengths_of, plans, run_params, step_times

if compiled_available():
    from brtheory.simulation.compiled.run import run_compiled

ROUTERS = [
    ("random", {}),
    ("round-robin", {}),
    ("p2c", {}),
    ("jsq", {}),
    ("engine-score", {}),
    ("least-tokens", {}),
    ("pool-fifo", {}),
    ("br0", {}),
    ("br0", {"greedy_threshold": 0, "candidate_order": "largest", "key_order": "margin-first"}),
    ("br0", {"greedy_threshold": 1, "candidate_order": "newest", "stage1": "longest"}),
    ("brh", {"horizon": 0}),
    ("brh", {"horizon": 1}),
    ("brh", {"horizon": 5, "discount": 0.8, "overflow_weight": 2.0}),
    ("brh", {"horizon": 12}),
    ("window", {"window": 3, "memory": 5}),
    ("window", {"age_limit": 0.5, "age_floor_s": 0.0, "memory": 4}),
    ("window", {"age_limit": 0.5, "age_floor_s": 0.4, "memory": 4}),
    ("window", {"wait_weight": 7.5, "age_limit": None, "hold_s": 0.0}),
    ("window", {"hold_s": 0.5, "size_weight": 3.0, "overflow_weight": 7, "memory": 4}),
    ("window", {"window": 5, "hold_s": 0.2, "room_share": 1.0, "memory": 4}),
]
NAMES = [f"{name}-{i}" for i, (name, _) in enumerate(ROUTERS)]

requests_lists = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=40
)
shapes = st.builds(
    ClusterShape,
    replicas=st.integers(1, 5),
    slots=st.integers(1, 4),
    kv_capacity=st.one_of(st.none(), st.integers(70, 150)),
)
prefills = st.sampled_from([(0.0, 0.0), (0.7, 0.0), (0.0, 2**-5)])


def engine(requests, name, params, backend, **case):
    return run_params(requests, name, find_router(name).params(**params), backend=backend, **case)


def compiled(requests, name, params, *, shape, plan, step_time):
    spec, lengths = find_router(name), lengths_of(requests)
    router = spec.build(spec.params(**params), np.random.default_rng(7))
    if not supported(lengths, router, plan, None):
        return None
    return run_compiled(lengths, router, shape=shape, arrivals=plan, step_time=step_time)


def assert_same(record, expected):
    """Equal to the last bit, except for the modelled energy: its sum has another order."""
    for name in ("replica", "admitted_step", "arrival_s", "ready_s", "admitted_s", "finished_s"):
        left, right = getattr(record, name), getattr(expected, name)
        assert left.dtype == right.dtype, name
        assert np.array_equal(left, right), name
    for name in ("totals", "window_start", "window_end"):
        left, right = getattr(record, name), getattr(expected, name)
        assert (left is None) == (right is None), name
        if left is None:
            continue
        for field in ("steps", "sum_peak", "sum_load", "sum_spread", "decoded_tokens", "completed"):
            assert getattr(left, field) == getattr(right, field), (name, field)
        assert left.clock_s == right.clock_s, name
        assert left.energy_j == pytest.approx(right.energy_j, rel=1e-9), name


@pytest.mark.parametrize(("name", "params"), ROUTERS, ids=NAMES)
@settings(max_examples=50, deadline=None)
@given(data=st.data(), requests=requests_lists)
def test_step_loop_event_skipping_and_compiled_loop_agree(name, params, data, requests):
    case = {
        "shape": data.draw(shapes),
        "plan": data.draw(plans(requests, prefills)),
        "step_time": data.draw(step_times),
    }
    expected = engine(requests, name, params, "reference", longest_stride=1, **case)
    assert_same(engine(requests, name, params, "reference", **case), expected)
    assert_same(engine(requests, name, params, "numpy", **case), expected)
    if compiled_available():
        record = compiled(requests, name, params, **case)
        assert (record is None) == (name in ("random", "p2c"))
        if record is not None:
            assert_same(record, expected)


@pytest.mark.skipif(not compiled_available(), reason="numba is not installed")
@pytest.mark.parametrize(("name", "params"), [("br0", {}), ("brh", {"horizon": 3}), ("window", {})])
def test_a_state_beyond_the_token_limit_is_refused_in_the_same_words(name, params):
    # Prompts of 2^50 tokens: two replicas of BR-0 take them, BR-H's weights and window's memory
    # leave less room; 2^59 token-steps in all still fit the compiled loop's sums.
    case = {
        "shape": ClusterShape(replicas=2, slots=2),
        "plan": ArrivalPlan("steps", np.zeros(400), ready_step=np.zeros(400, dtype=np.int64)),
        "step_time": StepTime(),
    }
    requests = [(2**52, 1)] * 400 if name == "br0" else [(2**50, 1)] * 400

    def outcome(run, *arguments):
        try:
            return run(requests, name, params, *arguments, **case).totals.sum_peak
        except InputError as error:
            return str(error)

    expected = outcome(engine, "reference")
    assert outcome(engine, "numpy") == expected
    assert outcome(compiled) == expected
    assert isinstance(expected, str) == (name != "br0")
