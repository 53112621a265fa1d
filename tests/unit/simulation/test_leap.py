"""Very long stretches in closed form: the same integers and clock as step by step, and quick."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.unequal import Replica
from brtheory.errors import InputError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.simulation import leap as leap_module
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.replay import replay
from brtheory.simulation.workload import ClusterShape, StepTime, unequal_shape
from tests.unit.simulation.cases import run
from tests.unit.simulation.test_engine import build

shapes = st.one_of(
    st.just(ClusterShape(3, 2)),
    st.just(unequal_shape([Replica(2), Replica(2, 0.7), Replica(1, 2.0)])),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3000, 60000), st.integers(1, 9000)), min_size=1, max_size=6),
    shapes,
    st.lists(st.integers(0, 3000), min_size=6, max_size=6),
)
def test_a_leap_is_the_sum_of_its_steps(requests, shape, gaps):
    """Leaps of at least 64 steps here, so that many of them meet crossings and arrivals."""
    n = len(requests)
    plan = ArrivalPlan("timed", np.zeros(n), arrival_s=np.cumsum(gaps[:n]) * 0.07)
    case = {"shape": shape, "plan": plan, "step_time": StepTime(a0=1e-6, b0=0.013)}
    expected = run(requests, "least-tokens", longest_stride=1 << 10, **case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leap_module, "LEAP_STEPS", 64)
        record = run(requests, "least-tokens", **case)
    names = ("steps", "sum_peak", "sum_load", "sum_spread", "decoded_tokens", "clock_s")
    for name in (*names, "sum_longest", "sum_times"):
        assert getattr(record.totals, name) == getattr(expected.totals, name), name
    assert np.array_equal(record.finished_s, expected.finished_s)
    assert np.array_equal(record.admitted_step, expected.admitted_step)
    # Of 64 steps the correction left out is 1000 times that of a million.
    assert record.totals.energy_j == pytest.approx(expected.totals.energy_j, rel=1e-6)


@pytest.mark.parametrize("name", ["jsq", "br0", "window"])
def test_a_request_of_2_to_the_40_steps_is_replayed_at_once(name):
    requests = (OfflineRequest(0, 0, 5, 2**40), OfflineRequest(1, 7, 2**40, 3))
    instance = Instance(2, 1, None, 1e-7, 0.01, requests)
    start = time.process_time()
    placements = replay(instance, build(name))
    assert time.process_time() - start < 2
    verdict = evaluate(instance, placements)
    assert verdict.feasible
    assert verdict.steps == 2**40


huge = st.sampled_from([1, 3, 5000, 2**21 + 1, 2**33, 2**40])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2**21, 2**40]), huge, huge), min_size=1, max_size=5),
    st.booleans(),
)
def test_totals_of_any_lengths_are_the_judges(rows, unequal):
    """Sums beyond 64 bits included: the engine against the judge's closed forms."""
    described = (Replica(2), Replica(2, 0.7)) if unequal else None
    requests = tuple(OfflineRequest(i, *row) for i, row in enumerate(sorted(rows)))
    instance = Instance(2, 2, None, 1e-7, 0.01, requests, described)
    verdict = evaluate(instance, replay(instance, build("least-tokens")))
    record = run(
        [(r.prompt_tokens, r.output_tokens) for r in requests],
        "least-tokens",
        shape=ClusterShape(2, 2, None, described),
        plan=ArrivalPlan(
            "steps", np.zeros(len(requests)), ready_step=np.array([r.ready for r in requests])
        ),
        step_time=StepTime(a0=1e-7, b0=0.01),
    )
    totals = record.totals
    assert (totals.steps, totals.sum_peak, totals.sum_load) == (
        verdict.steps,
        verdict.sum_peak,
        verdict.sum_load,
    )
    assert totals.clock_s == pytest.approx(verdict.time_s, rel=1e-12)
    if instance.paces is not None:
        assert instance.paces.unit_s * totals.sum_longest == verdict.time_exact_s


def test_the_energy_of_a_long_stretch_is_that_of_its_steps():
    # Two million steps: run in strides of 1000 and in one leap.
    case = {
        "shape": ClusterShape(2, 1),
        "plan": ArrivalPlan("steps", np.zeros(2), ready_step=np.zeros(2, dtype=np.int64)),
        "step_time": StepTime(a0=1e-6, b0=0.013),
    }
    requests = [(5000, 2_000_000), (90_000, 2_000_000)]
    leapt = run(requests, "jsq", **case)
    strode = run(requests, "jsq", longest_stride=1000, **case)
    assert leapt.totals.clock_s == strode.totals.clock_s
    assert leapt.totals.energy_j == pytest.approx(strode.totals.energy_j, rel=1e-9)


def test_loads_whose_sums_leave_64_bits_are_refused():
    with pytest.raises(InputError, match="at most"):
        run(
            [(2**62, 1)] * 2,
            "jsq",
            shape=ClusterShape(2, 1),
            plan=ArrivalPlan("steps", np.zeros(2), ready_step=np.zeros(2, dtype=np.int64)),
            step_time=StepTime(),
        )
