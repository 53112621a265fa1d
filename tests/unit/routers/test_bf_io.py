"""``bf-io``: its choice against exhaustive search, its tick against a plain re-enactment, laws."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.fscore import f_score, horizon_weights
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.bf_io import BLOCK, BalanceFuture, Score, best_set
from brtheory.routers.params import BalanceFutureParams
from brtheory.routers.protocol import projection_rules
from brtheory.routers.registry import build_router, find_router

PROMPTS = st.lists(st.integers(1, 30), min_size=1, max_size=8)
MARGINS = st.lists(st.integers(0, 60), min_size=1, max_size=6)


def weights_for(margins):
    return horizon_weights(
        horizon=len(margins) - 1, discount=0.86, reward_weight=1.0, overflow_weight=43.0
    )


def score_of(margins):
    return Score(np.array(margins, dtype=np.int64), weights_for(margins))


@given(margins=MARGINS, deltas=st.lists(st.integers(1, 200), min_size=1))
def test_the_score_is_the_f_score(margins, deltas):
    got = score_of(margins).of(np.array(deltas, dtype=np.int64)).tolist()
    assert got == [f_score(delta, margins, weights_for(margins)) for delta in deltas]


def wanted_sums(prompts, most, score):
    """The sum for each count from the most down, by exhaustive search, until the program stops."""
    best = None
    for count in range(min(most, len(prompts)), 0, -1):
        sums = {sum(chosen) for chosen in combinations(prompts, count)}
        within = [total for total in sums if total <= score.smallest]
        total = max(within) if within else min(sums)
        if best is None or score.of_one(total) > best[0]:
            best = score.of_one(total), count, total
            if within:
                break
    return best[1:]


@given(prompts=PROMPTS, margins=MARGINS, most=st.integers(1, 8))
@settings(max_examples=300)
def test_the_set_is_the_largest_within_the_smallest_margin_else_the_smallest_above(
    prompts, margins, most
):
    score = score_of(margins)
    chosen = best_set(prompts, most=most, score=score)
    assert (len(chosen), sum(prompts[i] for i in chosen)) == wanted_sums(prompts, most, score)
    assert sorted(set(chosen)) == chosen


@given(
    prompts=st.lists(st.integers(1, 9), min_size=BLOCK - 1, max_size=2 * BLOCK + 2),
    most=st.integers(2, 4),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_sets_are_found_again_across_the_blocks_that_are_not_kept(prompts, most, data):
    margins = [data.draw(st.integers(2, 30))]
    score = score_of(margins)
    chosen = best_set(prompts, most=most, score=score)
    assert (len(chosen), sum(prompts[i] for i in chosen)) == wanted_sums(prompts, most, score)


def state(rows, slots, prompts, *, reserved=None, room=None):
    pool = [
        Request(i, p, ready_s=0.0, reserved_tokens=0 if reserved is None else reserved[i])
        for i, p in enumerate(prompts)
    ]
    return TickState(loads=rows, free_slots=slots, pool=pool, free_tokens=room)


@st.composite
def states(draw):
    horizon = draw(st.integers(0, 4))
    replicas = draw(st.integers(1, 4))
    row = st.lists(st.integers(0, 80), min_size=horizon + 1, max_size=horizon + 1)
    rows = draw(st.lists(row, min_size=replicas, max_size=replicas))
    slots = draw(st.lists(st.integers(0, 3), min_size=replicas, max_size=replicas))
    prompts = draw(st.lists(st.integers(1, 40), max_size=9))
    if draw(st.booleans()):
        reserved = [p + draw(st.integers(0, 9)) for p in prompts]
        room = draw(st.lists(st.integers(0, 90), min_size=replicas, max_size=replicas))
        return horizon, state(rows, slots, prompts, reserved=reserved, room=room)
    return horizon, state(rows, slots, prompts)


def plainly(tick_state, params, weights):
    """The tick once more, from its description: lists, every score from its definition."""
    rows, cap = [list(row) for row in tick_state.loads], list(tick_state.free_slots)
    room = None if tick_state.free_tokens is None else list(tick_state.free_tokens)
    pool, placed = list(tick_state.pool), []

    def margins(g):
        return [max(column) - column[g] for column in zip(*rows, strict=True)]

    def score(g, requests):
        return f_score(sum(r.prompt_tokens for r in requests), margins(g), weights)

    def fits(g, requests):
        return room is None or sum(r.reserved_tokens for r in requests) <= room[g]

    def admit(g, requests, stage):
        value = score(g, requests)
        rows[g] = [load + sum(r.prompt_tokens for r in requests) for load in rows[g]]
        cap[g] -= len(requests)
        if room is not None:
            room[g] -= sum(r.reserved_tokens for r in requests)
        for request in requests:
            pool.remove(request)
            placed.append((request.id, g, stage, value))

    while any(cap) and pool:
        stage = 1 if sum(cap) > params.greedy_threshold else 2
        free = [g for g in range(len(cap)) if cap[g]]
        if stage == 1:
            g = min(free, key=lambda g: (-cap[g], rows[g][0], g))
        else:
            g = min(free, key=lambda g: (rows[g][-1], rows[g][0], g))
        offered = [r for r in pool[: params.candidates] if fits(g, [r])]
        if not offered:
            cap[g] = 0
            continue
        chosen = [max(offered, key=lambda r: (score(g, [r]), -offered.index(r)))]
        if stage == 2:
            for most in range(cap[g], 0, -1):
                at = best_set(
                    [r.prompt_tokens for r in offered], most=most, score=score_of(margins(g))
                )
                if fits(g, [offered[i] for i in at]):
                    if score(g, [offered[i] for i in at]) > 0:
                        chosen = [offered[i] for i in at]
                    break
        admit(g, chosen, stage)
    return placed


@given(case=states(), greedy=st.integers(0, 6), candidates=st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_a_tick_equals_its_plain_re_enactment(case, greedy, candidates):
    horizon, tick_state = case
    params = BalanceFutureParams(horizon=horizon, greedy_threshold=greedy, candidates=candidates)
    router = BalanceFuture(params)
    got = [(a.id, a.replica, a.stage, a.score) for a in router.tick(tick_state)]
    assert got == plainly(tick_state, params, router.weights(len(tick_state.loads)))


@given(case=states(), added=st.integers(1, 1000))
@settings(max_examples=100, deadline=None)
def test_the_same_load_more_on_every_replica_changes_no_decision(case, added):
    horizon, tick_state = case
    router = BalanceFuture(BalanceFutureParams(horizon=horizon))
    heavier = TickState(
        loads=[[load + added for load in row] for row in tick_state.loads],
        free_slots=tick_state.free_slots,
        pool=tick_state.pool,
        free_tokens=tick_state.free_tokens,
    )
    assert router.tick(tick_state) == router.tick(heavier)


@given(case=states())
@settings(max_examples=100, deadline=None)
def test_without_a_kv_limit_no_slot_stays_free_while_requests_wait(case):
    horizon, tick_state = case
    if tick_state.free_tokens is None:
        admitted = BalanceFuture(BalanceFutureParams(horizon=horizon)).tick(tick_state)
        assert len(admitted) == min(sum(tick_state.free_slots), len(tick_state.pool))


def test_a_tick_worked_by_hand():
    # Loads 10 and 0, one slot free on 0 and two on 1, H = 0. Stage 2 turns to replica 1 (load 0),
    # margin 10: of two requests 4 + 5 = 9 is the largest sum within it (7 + 4 = 11 is not).
    # Loads 10 and 9: replica 0 has margin 0, the smallest above is 7, the only one left; its F is
    # 64*7*1024 - 43*64*1024*7 < 0, so it is taken as the best single one all the same.
    params = BalanceFutureParams(horizon=0)
    answer = BalanceFuture(params).tick(state([[10], [0]], [1, 2], [7, 4, 5]))
    assert [(a.id, a.replica) for a in answer] == [(1, 1), (2, 1), (0, 0)]
    assert [a.score for a in answer] == [9 * 64 * 1024] * 2 + [-42 * 7 * 64 * 1024]


def test_the_window_hides_what_lies_beyond_it():
    # Margin 50 would take the 50, but only the two oldest are looked at: 9 is the larger.
    params = BalanceFutureParams(horizon=0, candidates=2)
    answer = BalanceFuture(params).tick(state([[50], [0]], [0, 1], [9, 3, 50]))
    assert [(a.id, a.replica) for a in answer] == [(0, 1)]


def test_its_defaults_are_those_of_the_published_program():
    params = BalanceFutureParams()
    assert (params.horizon, params.overflow_weight, params.discount) == (72, 43.0, 0.86)
    assert (params.greedy_threshold, params.candidates) == (7, 1024)
    router = build_router(find_router("bf-io"), params, np.random.default_rng(0))
    assert not projection_rules(router).growth


def test_states_beyond_the_exact_limit_are_refused():
    router = BalanceFuture(BalanceFutureParams(horizon=0))
    limit = router.weights(1).token_limit
    assert router.tick(state([[limit]], [1], [1]))
    with pytest.raises(InputError, match="replica 0"):
        router.tick(state([[limit + 1]], [1], [1]))
    with pytest.raises(InputError, match="sane size"):
        router.tick(state([[0]], [2**41], [1]))
