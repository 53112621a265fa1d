"""The window router by hand, and what a wait does to its choice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.params import WindowParams, params_from_text
from brtheory.routers.window import SORT_ANEW, WaitStatistics, Window, wait_bonus


def bound(state, **params):
    """Pairs (request, replica) of one tick of a router that has learned nothing."""
    return [(a.id, a.replica) for a in Window(WindowParams(**params)).tick(state)]


def pool(*prompts, ready_s=None):
    ready = [0.0] * len(prompts) if ready_s is None else ready_s
    return [Request(i, s, r) for i, (s, r) in enumerate(zip(prompts, ready, strict=True))]


def test_the_least_loaded_replica_takes_the_request_that_brings_it_nearest_to_the_others():
    # Replica 1 has 10; the others hold 30 and 51, mean 40 rounded down: 30 tokens are missing.
    state = TickState([[30], [10], [51]], [0, 1, 0], pool(5, 28, 31, 90))
    assert bound(state) == [(2, 1)]


def test_a_tie_in_distance_goes_to_the_longer_prompt_and_then_to_the_older_request():
    # 30 tokens are missing: 28 and 32 are equally far.
    assert bound(TickState([[10], [40]], [1, 0], pool(28, 32, 32))) == [(1, 0)]


def test_equal_loads_are_served_from_the_lower_index_with_loads_refreshed_after_each():
    # [0, 0]: replica 0 takes the smallest prompt (nothing is missing), 3; then replica 1 is least
    # loaded and 3 tokens short: it takes 4, nearer than 9.
    assert bound(TickState([[0], [0]], [1, 1], pool(9, 3, 4))) == [(1, 0), (2, 1)]


def test_one_replica_alone_fills_towards_nothing():
    # G = 1: T = 0 // max(0, 1) = 0, so the shortest prompt is nearest.
    assert bound(TickState([[7]], [1], pool(9, 3, 4))) == [(1, 0)]


def test_only_the_oldest_of_the_pool_are_looked_at():
    state = TickState([[0], [50]], [1, 0], pool(10, 20, 50))
    assert bound(state, window=2) == [(1, 0)]
    assert bound(state, window=3) == [(2, 0)]


def test_waiting_is_worth_tokens():
    # 50 missing. Request 0 is 40 off and has waited 10 s, request 1 is 0 off and has waited 0 s:
    # at 3 tokens a second the wait does not make up for it, at 5 it does.
    state = TickState([[0], [50]], [1, 0], pool(10, 50, ready_s=[0.0, 10.0]), now_s=10.0)
    assert bound(state, wait_weight=3.0) == [(1, 0)]
    assert bound(state, wait_weight=5.0) == [(0, 0)]


def test_past_the_age_limit_a_request_goes_first_and_the_oldest_of_them_before_all():
    router = Window(WindowParams(age_limit=2.0, wait_weight=0.0))
    for _ in range(3):
        router.statistics.add(10, 4.0)
    # The median wait is 4 s, so the limit is 8 s: waits of 9 and 8.5 are beyond it, 8 is not.
    waiting = pool(1, 2, 50, 50, ready_s=[11.0, 11.5, 12.0, 12.0])
    state = TickState([[0], [50]], [2, 0], waiting, now_s=20.0)
    assert [a.id for a in router.tick(state)] == [0, 1]


def test_the_weight_is_the_mean_prompt_over_the_median_wait_of_what_was_admitted_before():
    router = Window(WindowParams())
    assert router.wait_weight() == 0.0
    router.tick(TickState([[0]], [3], pool(10, 20, 60, ready_s=[0.0, 1.0, 2.0]), now_s=5.0))
    # Mean prompt 30, waits 5, 4, 3: median 4.
    assert router.wait_weight() == 7.5
    assert router.longest_wait_s() == 64.0


def test_without_kv_room_for_anything_a_replica_is_passed_over():
    waiting = [Request(0, 5, reserved_tokens=9), Request(1, 6, reserved_tokens=4)]
    state = TickState([[0], [3]], [2, 2], waiting, free_tokens=[3, 4])
    assert bound(state) == [(1, 1)]


@settings(max_examples=200, deadline=None)
@given(waits=st.lists(st.integers(0, 20), min_size=1, max_size=60), memory=st.integers(1, 9))
def test_statistics_are_those_of_the_last_admitted_requests(waits, memory):
    statistics = WaitStatistics(memory)
    for i, wait in enumerate(waits):
        statistics.add(i + 1, wait / 4)
    last = sorted(wait / 4 for wait in waits[-memory:])
    median = last[(len(last) - 1) // 2]
    assert statistics.median_wait_s == median
    prompts = list(range(1, len(waits) + 1))[-memory:]
    expected = np.mean(prompts) / median if median > 0 else 0.0
    assert statistics.tokens_per_s == pytest.approx(expected)


@pytest.mark.parametrize("memory", [7, 100, 1000])
@pytest.mark.parametrize("count", [3, SORT_ANEW, 3 * SORT_ANEW])
def test_many_requests_at_once_are_remembered_as_one_by_one(memory, count):
    rng = np.random.default_rng(count)
    together, alone = WaitStatistics(memory), WaitStatistics(memory)
    for _ in range(4):
        batch = list(
            zip(rng.integers(1, 99, count).tolist(), rng.random(count).tolist(), strict=True)
        )
        together.add_all(batch)
        for prompt, wait in batch:
            alone.add(prompt, wait)
        assert together.median_wait_s == alone.median_wait_s
        assert together.tokens_per_s == alone.tokens_per_s


@pytest.mark.parametrize(
    ("wait_s", "weight", "bonus"),
    [(1.5, 3.0, 4), (-0.5, 1.0, -1), (1e300, 1e12, 2**62), (-1e300, 1e12, -(2**62)), (9.9, 0.0, 0)],
)
def test_the_bonus_is_rounded_down_and_stays_within_64_bits(wait_s, weight, bonus):
    assert wait_bonus(wait_s, weight) == bonus


def test_parameters_are_checked():
    given = {"window": "8", "wait_weight": "none", "age_limit": "None", "memory": "10"}
    params = params_from_text(WindowParams, given, where="window")
    assert (params.window, params.wait_weight, params.age_limit) == (8, None, None)
    with pytest.raises(InputError, match=r"window.*: expected .* got 0"):
        params_from_text(WindowParams, {"window": "0"}, where="window")
