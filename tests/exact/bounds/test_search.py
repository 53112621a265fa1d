"""Local search and the bracket: feasible, never worse, around the optimum."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.bounds.bracket import bracket
from solvers.bounds.decompose import Effort
from solvers.bounds.search import SearchLimits, improve
from solvers.bounds.steps import admission_steps
from solvers.certificate import check
from tests.exact.bounds.brute import every_assignment, smallest_sum_peak


def judged(instance, assignment):
    verdict = evaluate(instance, assignment)
    assert verdict.feasible
    return verdict.sum_peak


def feasible_start(instance, rng):
    """A feasible assignment with admissions at ready steps, None if the draw has none."""
    every = list(every_assignment(instance, admission_steps(instance)))
    feasible = [a for a in every if evaluate(instance, a).feasible]
    return feasible[int(rng.integers(len(feasible)))] if feasible else None


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    slots=st.integers(1, 5),
    headroom=st.sampled_from([None, 1.0, 1.5]),
)
def test_search_keeps_steps_slots_and_capacity_and_never_gets_worse(seed, slots, headroom):
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, requests=5, replicas=3, slots=slots, kv_headroom=headroom)
    start = feasible_start(instance, rng)
    if start is None:
        return
    found = improve(instance, start, rng=rng)
    assert {(p.id, p.step) for p in found} == {(p.id, p.step) for p in start}
    assert judged(instance, found) <= judged(instance, start)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_bracket_holds_the_optimum_and_the_gap(seed):
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, requests=6, replicas=2, slots=6)
    start = feasible_start(instance, rng)
    found = bracket(instance, start, rng=rng, effort=Effort(lengths=(5, 8)))
    optimum = smallest_sum_peak(instance, admission_steps(instance))
    assert found.bound <= optimum <= found.incumbent <= found.judged
    assert check(instance, admission_steps(instance), found.certificate) <= found.bound
    low, high = found.gap
    assert low <= Fraction(found.judged - optimum, optimum) <= high
    assert found.width >= 0


def test_a_swap_levels_full_replicas():
    """Two slots each: (8, 7) and (2, 1) becomes 8 + 1 and 7 + 2 (or 8 + 2 and 7 + 1: 10).

    15 before; 9 is optimal, since the work is 18 tokens on two replicas.
    """
    prompts = (8, 7, 2, 1)
    requests = tuple(OfflineRequest(i, 0, s, 1) for i, s in enumerate(prompts))
    instance = Instance(2, 2, None, 1.0, 0.0, requests)
    start = tuple(Placement(i, i // 2, 0) for i in range(4))
    assert judged(instance, start) == 15
    assert judged(instance, improve(instance, start, rng=np.random.default_rng(0))) == 9


def test_an_infeasible_start_is_refused_with_its_violation():
    requests = (OfflineRequest(0, 0, 9, 1), OfflineRequest(1, 0, 1, 1))
    instance = Instance(2, 1, None, 1.0, 0.0, requests)
    start = (Placement(0, 0, 0), Placement(1, 0, 0))
    for act in (improve, bracket):
        with pytest.raises(InputError, match="2 active requests at step 0, slots 1"):
            act(instance, start, rng=np.random.default_rng(0))


def test_a_spent_time_limit_returns_the_start_or_better():
    rng = np.random.default_rng(1)
    instance = random_instance(rng, requests=6, replicas=2, slots=6)
    start = feasible_start(instance, rng)
    limits = SearchLimits(time_limit_s=0.0)
    assert improve(instance, start, rng=rng, limits=limits) == start


def test_only_a_pair_of_moves_helps_and_it_is_found():
    """Slots unlimited: {6, 4} and {5, 3, 2}: peak 10 = the work 20 spread evenly, nothing to gain.

    From {6, 5} and {4, 3, 2} (11, 9) a single move gives at best max(11 - 5, 9 + 5) = 14; the swap
    of 5 and 4 gives (10, 10).
    """
    prompts = (6, 5, 4, 3, 2)
    requests = tuple(OfflineRequest(i, 0, s, 1) for i, s in enumerate(prompts))
    instance = Instance(2, 5, None, 1.0, 0.0, requests)
    start = tuple(Placement(i, int(i > 1), 0) for i in range(5))
    assert judged(instance, start) == 11
    assert judged(instance, improve(instance, start, rng=np.random.default_rng(0))) == 10


def test_annealing_cools_down_within_its_share_of_the_time():
    """A clock that takes a tenth of the limit a look: eight batches of thousands, then descent."""
    rng = np.random.default_rng(5)
    instance = random_instance(rng, requests=40, replicas=3, slots=40)
    start = tuple(Placement(r.id, r.id % 3, r.ready) for r in instance.requests)
    seconds = iter(range(10**6))
    limits = SearchLimits(proposals_per_request=10**6, time_limit_s=10.0)
    found = improve(instance, start, rng=rng, limits=limits, clock=lambda: float(next(seconds)))
    assert next(seconds) < 20
    assert judged(instance, found) < judged(instance, start)
