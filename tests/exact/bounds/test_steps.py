"""Combinatorial step bounds: below the optimum, equal to the step-by-step definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.bounds.steps import (
    admission_steps,
    floor_sum,
    step_bound,
    sum_of_ceilings,
    work_bound,
)
from tests.exact.bounds.brute import smallest_sum_peak


def step_by_step(instance, steps):
    """The definition: every step on its own."""
    replicas, total = instance.replicas, 0
    last = max(steps[r.id] + r.output_tokens for r in instance.requests)
    for k in range(last):
        weights = sorted(
            (
                r.prompt_tokens + k - steps[r.id]
                for r in instance.requests
                if steps[r.id] <= k < steps[r.id] + r.output_tokens
            ),
            reverse=True,
        )
        crowds = range((len(weights) - 1) // replicas + 1) if weights else ()
        pigeonhole = [sum(weights[: q * replicas + 1][-(q + 1) :]) for q in crowds]
        total += max(-(-sum(weights) // replicas), *pigeonhole, 0)
    return total


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 4))
def test_the_step_bound_is_its_definition_step_by_step(seed, replicas):
    rng = np.random.default_rng(seed)
    instance = random_instance(
        rng, requests=int(rng.integers(1, 15)), replicas=replicas, slots=20, longest_output=30
    )
    steps = admission_steps(instance)
    assert step_bound(instance, steps) == step_by_step(instance, steps)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_no_assignment_goes_below_the_step_bound(seed, replicas):
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, requests=6, replicas=replicas, slots=6)
    steps = admission_steps(instance)
    optimum = smallest_sum_peak(instance, steps)
    assert work_bound(instance) <= step_bound(instance, steps) <= optimum


@given(
    terms=st.integers(0, 60),
    divisor=st.integers(1, 20),
    slope=st.integers(0, 50),
    offset=st.integers(0, 50),
)
def test_floor_sum_is_the_sum_of_floors(terms, divisor, slope, offset):
    expected = sum((slope * j + offset) // divisor for j in range(terms))
    assert floor_sum(terms, divisor, slope=slope, offset=offset) == expected


@given(
    lines=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=5),
    length=st.integers(1, 40),
    divisor=st.integers(1, 7),
)
def test_the_envelope_of_ceilings_is_summed_exactly(lines, length, divisor):
    expected = sum(-(-max(a + j * b for a, b in lines) // divisor) for j in range(length))
    assert sum_of_ceilings(lines, length, divisor=divisor) == expected


def test_a_segment_of_a_trillion_steps_takes_no_loop():
    """Two requests of 2^40 steps on two replicas: one each, so the bound is the longer's own sum.

    M(k) >= the larger request, 3 + k, whose sum is o*3 + o(o-1)/2; the other is lighter throughout.
    """
    o = 2**40
    instance = Instance(
        2, 2, None, 1.0, 0.0, (OfflineRequest(0, 0, 3, o), OfflineRequest(1, 0, 1, o))
    )
    assert step_bound(instance, {0: 0, 1: 0}) == 3 * o + o * (o - 1) // 2


def test_pigeonhole_counts_two_of_three_equal_requests_on_two_replicas():
    """Three requests of 10 tokens for one step: some replica holds two, 20 > ceil(30/2) = 15."""
    requests = tuple(OfflineRequest(i, 0, 10, 1) for i in range(3))
    assert step_bound(Instance(2, 3, None, 1.0, 0.0, requests), {0: 0, 1: 0, 2: 0}) == 20


@pytest.mark.parametrize(
    ("placements", "message"),
    [
        ([Placement(0, 0, 5), Placement(0, 1, 5)], "each request once"),
        ([Placement(0, 0, 5)], "expected request 1, got no admission"),
        ([Placement(0, 0, 5), Placement(1, 0, 1)], "a step >= ready step 2, got 1"),
        ([Placement(0, 0, 5), Placement(1, 0, 2), Placement(7, 0, 2)], "got request 7"),
    ],
)
def test_admissions_that_do_not_fit_the_instance_are_named(placements, message):
    requests = (OfflineRequest(0, 0, 1, 1), OfflineRequest(1, 2, 1, 1))
    with pytest.raises(InputError, match=message):
        admission_steps(Instance(2, 2, None, 1.0, 0.0, requests), tuple(placements))
