"""The judge: exact figures by hand, every kind of violation, and laws it must obey."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import decimal_fraction, evaluate, sum_of_peaks
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import SECONDS_LIMIT, Instance, OfflineRequest
from tests.strategies import instances


def small_instance(**changes):
    fields = {
        "replicas": 2,
        "slots": 2,
        "kv_capacity": None,
        "a0": 0.5,
        "b0": 1.0,
        "requests": (OfflineRequest(0, 0, 10, 2), OfflineRequest(1, 0, 4, 3)),
    }
    return Instance(**(fields | changes))


def spread_out(instance):
    """Feasible by construction: one request after the other on replica 0."""
    step, placements = 0, []
    for request in sorted(instance.requests, key=lambda r: r.ready):
        step = max(step, request.ready)
        placements.append(Placement(request.id, 0, step))
        step += request.output_tokens
    return tuple(placements)


def naive_figures(instance, assignment):
    """Step by step, straight from the model: (steps, sum of peaks, sum of loads)."""
    requests = {r.id: r for r in instance.requests}
    last = max(p.step + requests[p.id].output_tokens for p in assignment)
    steps = sum_peak = sum_load = 0
    for k in range(last):
        loads = [0] * instance.replicas
        for p in assignment:
            if p.step <= k < p.step + requests[p.id].output_tokens:
                loads[p.replica] += requests[p.id].prompt_tokens + k - p.step
        if any(loads):
            steps, sum_peak, sum_load = steps + 1, sum_peak + max(loads), sum_load + sum(loads)
    return steps, sum_peak, sum_load


def test_figures_of_two_requests_by_hand():
    # Replica 0: 10, 11; replica 1: 4, 5, 6. Peaks 10, 11, 6; loads 14, 16, 6.
    verdict = evaluate(small_instance(), (Placement(0, 0, 0), Placement(1, 1, 0)))
    assert verdict.feasible
    assert (verdict.steps, verdict.sum_peak, verdict.sum_load) == (3, 27, 36)
    assert verdict.imbalance_total == 2 * 27 - 36
    assert verdict.time_exact_s == Fraction(3) + Fraction(27, 2)


@pytest.mark.parametrize("seconds", [1e10, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["a0", "b0"])
def test_step_times_whose_sum_may_leave_the_floats_are_refused(name, seconds):
    with pytest.raises(InputError, match=r"a0 and b0"):
        small_instance(**{name: seconds})


def test_the_longest_time_is_a_float():
    # One request of the largest size for 2**40 steps: each step lasts b0 + a0 * load.
    instance = small_instance(
        a0=SECONDS_LIMIT, b0=SECONDS_LIMIT, requests=(OfflineRequest(0, 0, 2**40, 2**40),)
    )
    verdict = evaluate(instance, (Placement(0, 0, 0),))
    work = 2**80 + 2**40 * (2**40 - 1) // 2
    assert verdict.time_exact_s == 10**9 * (2**40 + work)
    assert verdict.time_s == float(10**9 * (2**40 + work))


def test_idle_steps_are_skipped():
    verdict = evaluate(small_instance(), (Placement(0, 0, 0), Placement(1, 0, 10**9)))
    assert verdict.steps == 5


@given(instances(), st.data())
def test_figures_equal_a_loop_over_every_step(instance, data):
    placements = tuple(
        Placement(
            r.id,
            data.draw(st.integers(0, instance.replicas - 1)),
            r.ready + data.draw(st.integers(0, 3)),
        )
        for r in instance.requests
    )
    verdict = evaluate(instance, placements)
    assert (verdict.steps, verdict.sum_peak, verdict.sum_load) == naive_figures(
        instance, placements
    )


@given(instances(kv=st.just(False)))
def test_the_sum_of_loads_is_conserved(instance):
    """T17: sum of loads = sum_i o s + o(o - 1)/2, whatever the schedule."""
    assert evaluate(instance, spread_out(instance)).sum_load == instance.total_work


@given(instances(), st.permutations(range(4)))
def test_renaming_replicas_changes_no_figure(instance, names):
    order = [g for g in names if g < instance.replicas]
    rng = np.random.default_rng(0)
    placements = [
        Placement(r.id, int(rng.integers(instance.replicas)), r.ready) for r in instance.requests
    ]
    renamed = [Placement(p.id, order[p.replica], p.step) for p in placements]
    one, other = evaluate(instance, tuple(placements)), evaluate(instance, tuple(renamed))
    assert one.to_json() | {"violations": []} == other.to_json() | {"violations": []}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_the_envelope_sum_equals_the_sum_of_maxima(lines, length):
    naive = sum(max(load + j * slope for load, slope in lines) for j in range(length))
    assert sum_of_peaks(lines, length) == naive


@pytest.mark.parametrize(
    ("placements", "violation"),
    [
        ([(0, 0, 0)], "request 1: never admitted"),
        ([(0, 0, 0), (1, 0, 0), (1, 1, 0)], "request 1: admitted 2 times"),
        ([(0, 0, 0), (1, 0, 0), (9, 0, 0)], "request 9: not in the instance"),
        ([(0, 2, 0), (1, 0, 0)], "request 0: replica 2 is not in 0 .. 1"),
        ([(0, -1, 0), (1, 0, 0)], "request 0: replica -1 is not in 0 .. 1"),
        ([(0, 0, -1), (1, 0, 0)], "request 0: admitted at step -1, ready at step 0"),
    ],
)
def test_assignments_without_a_valid_place_have_no_figures(placements, violation):
    verdict = evaluate(small_instance(), tuple(Placement(*p) for p in placements))
    assert verdict.violations == (violation,)
    assert verdict.sum_peak is verdict.steps is verdict.time_s is None


def test_a_slot_too_many_is_reported_once_with_its_figures():
    instance = small_instance(slots=1)
    verdict = evaluate(instance, (Placement(0, 0, 0), Placement(1, 0, 0)))
    assert verdict.violations == ("replica 0: 2 active requests at step 0, slots 1",)
    assert verdict.sum_peak == 14 + 16 + 6


@given(st.integers(14, 18))
def test_kv_capacity_is_checked_at_the_first_step_that_breaks_it(capacity):
    # Both on replica 0: loads 14, 16, 6.
    instance = small_instance(kv_capacity=capacity)
    verdict = evaluate(instance, (Placement(0, 0, 0), Placement(1, 0, 0)))
    if capacity >= 16:
        assert verdict.feasible
    else:
        assert verdict.violations == (f"replica 0: 16 KV tokens at step 1, capacity {capacity}",)


def test_decimal_texts_are_exact():
    assert decimal_fraction(1.0e-7) == Fraction(1, 10**7)


def test_random_instances_have_room_for_every_request():
    instance = random_instance(
        np.random.default_rng(3), requests=30, replicas=3, slots=2, kv_headroom=1.5
    )
    assert evaluate(instance, spread_out(instance)).feasible
