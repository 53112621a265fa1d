"""The window router by hand, and what a wait does to its choice."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.params import WindowParams, params_from_text
from brtheory.routers.window import SORT_ANEW, WaitStatistics, Window, least_room, wait_bonus


def bound(state, **params):
    """Pairs (request, replica) of one tick of a router that has learned nothing."""
    return [(a.id, a.replica) for a in Window(WindowParams(**params)).tick(state)]


def by_key(state, **params):
    """As ``bound``, by distance and wait alone: no overflow, no holding, no order of its own."""
    plain = {"overflow_weight": 0, "hold_s": 0.0, "spare_order": "fit", **params}
    return bound(state, **plain)


def pool(*prompts, ready_s=None):
    ready = [0.0] * len(prompts) if ready_s is None else ready_s
    return [Request(i, s, r) for i, (s, r) in enumerate(zip(prompts, ready, strict=True))]


def test_the_least_loaded_replica_takes_the_request_that_brings_it_nearest_to_the_others():
    # Replica 1 has 10; the others hold 30 and 51, mean 40 rounded down: 30 tokens are missing.
    state = TickState([[30], [10], [51]], [0, 1, 0], pool(5, 28, 31, 90))
    assert bound(state) == [(2, 1)]


def test_a_tie_in_distance_goes_to_the_longer_prompt_and_then_to_the_older_request():
    # 30 tokens are missing: 28 and 32 are equally far.
    assert by_key(TickState([[10], [40]], [1, 0], pool(28, 32, 32))) == [(1, 0)]


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
    router = Window(WindowParams(age_limit=2.0, age_floor_s=0.0, wait_weight=0.0))
    for _ in range(3):
        router.statistics.add(10, 4.0)
    # The median wait is 4 s, so the limit is 8 s: waits of 9 and 8.5 are beyond it, 8 is not.
    waiting = pool(1, 2, 50, 50, ready_s=[11.0, 11.5, 12.0, 12.0])
    state = TickState([[0], [50]], [2, 0], waiting, now_s=20.0)
    assert [a.id for a in router.tick(state)] == [0, 1]


def test_the_age_limit_is_never_shorter_than_its_floor():
    router = Window(WindowParams(age_limit=2.0, age_floor_s=5.0))
    assert router.longest_wait_s() == 5.0
    router.statistics.add(10, 2.0)
    assert router.longest_wait_s() == 5.0
    for _ in range(2):
        router.statistics.add(10, 4.0)
    assert router.longest_wait_s() == 8.0
    assert Window(WindowParams(age_limit=None, age_floor_s=5.0)).longest_wait_s() == math.inf
    assert Window(WindowParams(age_floor_s=0.0)).longest_wait_s() == math.inf


def test_the_weight_is_the_mean_prompt_over_the_mean_wait_of_what_was_admitted_before():
    router = Window(WindowParams(wait_scale=2.0))
    assert router.wait_weight() == 0.0
    router.tick(TickState([[0]], [3], pool(10, 20, 60, ready_s=[0.0, 1.0, 2.0]), now_s=5.0))
    # Mean prompt 30, waits 5, 4, 3: mean 4; twice 30/4.
    assert router.wait_weight() == 15.0
    assert router.longest_wait_s() == 64.0


def test_without_kv_room_for_anything_a_replica_is_passed_over():
    # Replica 0 has no room and is closed; replica 1 is heavier, but request 1 has waited 5 s.
    waiting = [Request(0, 5, reserved_tokens=9), Request(1, 6, reserved_tokens=4)]
    state = TickState([[0], [3]], [2, 2], waiting, now_s=5.0, free_tokens=[3, 4])
    assert bound(state) == [(1, 1)]


def test_a_replica_without_room_for_an_average_request_is_kept_for_a_long_one():
    # Reservations of 2 and 10: 6 on average. 5 tokens are free, so that the short one would go in.
    waiting = [Request(0, 9, reserved_tokens=10), Request(1, 1, reserved_tokens=2)]
    state = TickState([[4]], [2], waiting, free_tokens=[5])
    assert bound(state) == [(1, 0)]
    assert bound(state, room_share=1.0) == []
    # Half of the average, 3, is free.
    assert bound(state, room_share=0.5) == [(1, 0)]
    # With 12 free the long one goes first, as slots are to spare; 2 are left, less than 6.
    state = TickState([[4]], [2], waiting, free_tokens=[12])
    assert bound(state) == [(0, 0), (1, 0)]
    assert bound(state, room_share=1.0) == [(0, 0)]


def test_what_a_replica_keeps_is_measured_on_the_oldest_and_never_more_than_one_of_them_needs():
    # The two oldest reserve 10 and 2; the third, beyond the window, would double the average.
    waiting = [Request(i, 1, reserved_tokens=kv) for i, kv in enumerate((10, 2, 24))]
    state = TickState([[4]], [1], waiting, free_tokens=[6])
    assert bound(state, window=2, room_share=1.0) == [(1, 0)]
    assert bound(state, window=3, room_share=1.0) == []
    # On an idle cluster every request of the pool fits, so the average does: nothing is stuck.
    assert least_room([7], WindowParams(room_share=1.0)) == 7
    assert least_room([], WindowParams(room_share=1.0)) == 0


def test_a_prompt_beyond_the_fullest_load_costs_more_than_one_that_stays_below():
    # 30 missing to the mean of the others and 32 to the fullest: 35 is 5 off and 3 beyond, 24 is
    # 6 off. At no extra cost 35 is nearer, at 2 a token it costs 5 + 6.
    state = TickState([[10], [42], [38]], [1, 0, 0], pool(35, 24))
    assert by_key(state) == [(0, 0)]
    assert by_key(state, overflow_weight=2) == [(1, 0)]


def test_a_wait_counts_more_for_prompts_longer_than_the_mean():
    # Mean prompt 10, mean wait 1 s: lambda is 10 tokens a second. 60 tokens are missing. After
    # 1 s, 20 has the key 10 - 40 and 110 has 10 - 50; with a third of lambda more for each of the
    # ten mean prompts beyond the first, 110 has 10*(1 + 0.3*10) - 50 = -10.
    state = TickState([[40], [100]], [1, 0], pool(20, 110), now_s=1.0)
    for size_weight, expected in ((0.0, 0), (0.3, 1)):
        params = WindowParams(
            wait_scale=1.0,
            size_weight=size_weight,
            overflow_weight=0,
            spare_order="fit",
            hold_s=0.0,
            age_limit=None,
        )
        router = Window(params)
        router.statistics.add(10, 1.0)
        assert [a.id for a in router.tick(state)] == [expected]


def test_with_slots_to_spare_the_longest_prompt_goes_to_the_least_loaded_replica():
    state = TickState([[0], [5]], [2, 2], pool(3, 9, 4))
    # 9 to replica 0 (load 9), 4 to replica 1 (load 9), 3 to replica 0, the lower index.
    assert bound(state) == [(1, 0), (2, 1), (0, 0)]
    # By fit: 5 missing, 4 is nearest, and so on.
    assert bound(state, spare_order="fit")[0] == (2, 0)


def test_a_young_request_is_held_where_it_would_raise_the_peak_while_a_lighter_replica_is_full():
    # Replica 1 (30 tokens) has a slot, replica 0 (10 tokens) has none; the fullest has 40.
    state = TickState([[10], [30], [40]], [0, 1, 0], pool(20), now_s=1.0)
    assert bound(state, hold_s=2.0) == []
    assert bound(state, hold_s=1.0) == [(0, 1)]
    assert bound(state, hold_s=0.0) == [(0, 1)]
    # One that stays below the peak is not held, nor is any where no lighter replica is full.
    assert bound(TickState([[10], [30], [40]], [0, 1, 0], pool(10)), hold_s=2.0) == [(0, 1)]
    assert bound(TickState([[30], [30], [40]], [0, 1, 0], pool(20)), hold_s=2.0) == [(0, 1)]


def test_an_overdue_request_is_never_held():
    router = Window(WindowParams(age_limit=1.0, age_floor_s=0.0, hold_s=100.0))
    router.statistics.add(10, 1.0)
    state = TickState([[10], [30], [40]], [0, 1, 0], pool(20), now_s=1.5)
    assert [a.id for a in router.tick(state)] == [0]


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
    mean = np.mean(last)
    assert statistics.mean_wait_s == mean
    expected = np.mean(prompts) / mean if mean > 0 else 0.0
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


def test_nothing_is_held_where_the_mean_wait_is_over_half_of_the_hold():
    """A hold as long as the waits would hold nearly everyone."""
    router = Window(WindowParams(hold_s=3.0))
    router.statistics.add(10, 1.5)
    assert router.patience().hold_s == 3.0
    router.statistics.add(10, 1.75)
    assert router.patience().hold_s == 0.0
