"""Annealing: compiled and plain text decide alike, limits hold, loads stay what they are."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from solvers.bounds.annealing import NOBODY, anneal, anneal_sides, cut_sides, draw_proposals
from solvers.bounds.loads import assignment_of, loads_of
from solvers.bounds.search import SearchLimits, improve


def drawn(seed, *, slots, requests=12, headroom=None):
    """An instance with a start that ignores limits: everything on replica id mod 3."""
    instance = random_instance(
        np.random.default_rng(seed),
        requests=requests,
        replicas=3,
        slots=slots,
        kv_headroom=headroom,
    )
    return instance, tuple(Placement(r.id, r.id % 3, r.ready) for r in instance.requests)


def proposals_for(seed, *, batch=400):
    rng = np.random.default_rng(seed)
    return draw_proposals(rng, batch=batch, requests=12, replicas=3, reach=12, temperature=30.0)


def plainly(loads, proposals, *, slots):
    """The definition: recompute everything before and after each proposal."""
    accepted = 0
    for i, j, target, patience in zip(
        proposals.request.tolist(),
        proposals.partner.tolist(),
        proposals.target.tolist(),
        proposals.patience.tolist(),
        strict=True,
    ):
        home = int(loads.replica[i])
        goal = target if j == NOBODY else int(loads.replica[j])
        apart = loads.first[i] >= loads.last[j] or loads.first[j] >= loads.last[i]
        if goal == home or (j != NOBODY and apart):
            continue
        before = loads.sums.max(axis=0).sum()
        loads.move(i, goal)
        if j != NOBODY:
            loads.move(j, home)
        if loads.sums.max(axis=0).sum() - before <= patience and loads.active.max() <= slots:
            accepted += 1
            continue
        loads.move(i, home)
        if j != NOBODY:
            loads.move(j, goal)
    return accepted


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), slots=st.integers(4, 12))
def test_the_loop_decides_as_its_definition_does(seed, slots):
    instance, start = drawn(seed, slots=slots)
    plain, fast = loads_of(instance, start), loads_of(instance, start)
    proposals = proposals_for(seed)
    accepted = plainly(plain, proposals, slots=slots)
    assert anneal(fast, proposals, slots=slots, capacity=math.inf) == accepted
    assert (fast.replica == plain.replica).all()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), headroom=st.sampled_from([None, 2.0]))
def test_loads_after_annealing_are_those_of_the_assignment_it_ends_with(seed, headroom):
    """Weights are multiples of 1/2 far below 2^52, so the running sums are exact."""
    instance, start = drawn(seed, slots=12, headroom=headroom)
    loads = loads_of(instance, start)
    capacity = math.inf if headroom is None else float(instance.kv_capacity)
    feasible = evaluate(instance, start).feasible
    anneal(loads, proposals_for(seed), slots=12, capacity=capacity)
    end = assignment_of(loads, start)
    again = loads_of(instance, end)
    for name in ("sums", "tops", "active"):
        assert (getattr(loads, name) == getattr(again, name)).all()
    if feasible:
        assert evaluate(instance, end).feasible


def test_the_objective_is_the_judges_where_no_loads_cross():
    """Outputs of one step: every segment is a step, and the sum of its largest sums is sum M."""
    rng = np.random.default_rng(0)
    instance = random_instance(rng, requests=30, replicas=3, slots=30, longest_output=1)
    start = tuple(Placement(r.id, r.id % 3, r.ready) for r in instance.requests)
    loads = loads_of(instance, start)
    assert loads.sums.max(axis=0).sum() == evaluate(instance, start).sum_peak


def test_proposals_stay_in_range_and_swap_no_request_with_itself():
    proposals = proposals_for(3, batch=5000)
    partners = proposals.partner[proposals.partner != NOBODY]
    assert 0 <= partners.min() <= partners.max() < 12
    assert (proposals.partner != proposals.request).all()
    assert (proposals.patience >= 0).all()
    assert np.mean(proposals.patience) == pytest.approx(30.0, rel=0.1)


def test_annealing_goes_below_what_descent_alone_reaches_and_repeats_itself():
    """Forty requests on three replicas, the same seed twice: better by design of the instance."""
    instance, start = drawn(5, slots=40, requests=40)
    limits = SearchLimits(proposals_per_request=2000)
    rngs = [np.random.default_rng(7) for _ in range(3)]
    descended = evaluate(instance, improve(instance, start, rng=rngs[0])).sum_peak
    annealed = improve(instance, start, rng=rngs[1], limits=limits)
    assert annealed == improve(instance, start, rng=rngs[2], limits=limits)
    assert evaluate(instance, annealed).sum_peak < descended


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), sides=st.integers(1, 4))
def test_sides_cover_time_and_their_members_stay_inside(seed, sides):
    """Sides that were left out for want of members may leave holes, no two overlap."""
    instance, start = drawn(seed, slots=12, requests=30)
    loads = loads_of(instance, start)
    found = cut_sides(loads, np.random.default_rng(seed), sides=sides)
    ends = [end for side in found for end in (side.low, side.high)]
    assert ends == sorted(ends)
    assert 0 <= ends[0] <= ends[-1] <= len(loads.lengths)
    for side in found:
        assert (loads.first[side.members] >= side.low).all()
        assert (loads.last[side.members] <= side.high).all()
        assert len(side.members) > 1
    if sides == 1:
        assert found[0].members.tolist() == list(range(30))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), sides=st.integers(2, 4))
def test_sides_beside_each_other_end_as_one_after_the_other(seed, sides):
    """Threads share the loads; what each decides is what it would have decided alone."""
    instance, start = drawn(seed, slots=8, requests=40)
    beside, alone = loads_of(instance, start), loads_of(instance, start)
    rng = np.random.default_rng(seed)
    chosen = cut_sides(beside, rng, sides=sides)
    batches = [
        draw_proposals(
            rng, batch=300, requests=len(s.members), replicas=3, reach=9, temperature=300.0
        )
        for s in chosen
    ]
    limits = {"slots": 8, "capacity": math.inf}
    with ThreadPoolExecutor(sides) as threads:
        accepted = anneal_sides(beside, chosen, batches, threads=threads, **limits)
    one_by_one = [
        anneal(alone, batch.among(side.members), **limits)
        for side, batch in reversed(list(zip(chosen, batches, strict=True)))
    ]
    assert accepted == sum(one_by_one)
    assert (beside.replica == alone.replica).all()
    assert (beside.sums == alone.sums).all()
    assert (beside.active == alone.active).all()


def test_more_workers_search_as_well_without_a_clock():
    """Twice the same result, feasible, no worse than the start, whatever the threads' timing."""
    instance = random_instance(np.random.default_rng(5), requests=60, replicas=3, slots=40)
    start = tuple(Placement(r.id, r.id % 3, r.ready) for r in instance.requests)
    limits = SearchLimits(proposals_per_request=3000, workers=3)
    found = [improve(instance, start, rng=np.random.default_rng(1), limits=limits) for _ in "ab"]
    assert found[0] == found[1]
    assert evaluate(instance, found[0]).sum_peak < evaluate(instance, start).sum_peak
