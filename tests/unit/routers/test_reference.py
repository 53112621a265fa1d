"""BR-0 and BR-H: decisions by hand, equality with a second reading of the text, and laws."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.imbalance import imbalance
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.params import BalanceRouteParams, HorizonParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from tests.strategies import tick_states


def pool_of(*prompts):
    return [Request(i, s, float(i)) for i, s in enumerate(prompts)]


def decisions(state, **params):
    return [(a.id, a.replica, a.stage, a.score) for a in br0(**params).tick(state)]


def br0(**params):
    return BalanceRoute(BalanceRouteParams(**params))


def second_reading(state, weights, *, threshold, most):
    """Section 3 once more, written the long way round: explicit sorts, no shared code."""
    rows = [list(row) for row in state.loads]
    cap, pool, out = list(state.free_slots), list(state.pool), []
    room = list(state.free_tokens) if state.free_tokens is not None else [10**9] * len(cap)

    def margins(g):
        return [max(r[h] for r in rows) - rows[g][h] for h in range(len(rows[g]))]

    def score(delta, g):
        pairs = zip(weights.overflow, margins(g), strict=True)
        overflow = [w * max(0, delta - m) for w, m in pairs]
        return weights.reward * delta - sum(overflow)

    def serve(g, chosen, stage, value):
        cap[g] -= len(chosen)
        for r in chosen:
            rows[g] = [x + r.prompt_tokens for x in rows[g]]
            room[g] -= r.reserved_tokens
            out.append((r.id, g, stage, value))
            pool[:] = [x for x in pool if x.id != r.id]

    def first_replica():
        return sorted(range(len(cap)), key=lambda g: (-cap[g], -margins(g)[0], g))[0]

    while sum(cap) > threshold and pool:
        g = first_replica()
        ranked = sorted(
            (-score(r.prompt_tokens, g), -r.prompt_tokens, age, r)
            for age, r in enumerate(pool)
            if r.reserved_tokens <= room[g]
        )
        if ranked:
            serve(g, [ranked[0][3]], 1, -ranked[0][0])
        else:
            cap[g] = 0
    while sum(cap) > 0 and pool:
        g = first_replica()
        window = pool[:most]
        ranked = []
        for size in range(1, min(cap[g], most) + 1):
            for chosen in combinations(range(len(window)), size):
                delta = sum(window[j].prompt_tokens for j in chosen)
                if sum(window[j].reserved_tokens for j in chosen) <= room[g]:
                    mask = sum(2**j for j in chosen)
                    ranked.append((-score(delta, g), -delta, mask, chosen))
        if not ranked:
            cap[g] = 0
            continue
        best = min(ranked)
        if -best[0] <= 0:
            best = min(entry for entry in ranked if len(entry[3]) == 1)
        serve(g, [window[j] for j in best[3]], 2, -best[0])
    return out


@settings(max_examples=300)
@given(tick_states(), st.integers(0, 6), st.integers(1, 4))
def test_br0_equals_a_second_reading(state, threshold, most):
    router = br0(greedy_threshold=threshold, max_subset=most)
    weights = router.weights(len(state.loads))
    expected = second_reading(state, weights, threshold=threshold, most=most)
    assert decisions(state, greedy_threshold=threshold, max_subset=most) == expected


@settings(max_examples=200)
@given(tick_states(horizon=3), st.sampled_from([1.0, 0.7]), st.sampled_from([None, 2.5]))
def test_brh_equals_a_second_reading(state, discount, beta):
    router = BalanceRouteHorizon(HorizonParams(horizon=3, discount=discount, overflow_weight=beta))
    weights = router.weights(len(state.loads))
    expected = second_reading(state, weights, threshold=len(state.loads), most=4)
    assert [(a.id, a.replica, a.stage, a.score) for a in router.tick(state)] == expected


def test_a_margin_is_filled_exactly():
    # Margin 100 on replica 1; 60 + 40 fills it, F = 100; 90 alone has F = 90.
    state = TickState([[200], [100]], [0, 2], pool_of(60, 90, 40))
    assert decisions(state) == [(0, 1, 2, 100), (2, 1, 2, 100)]


def test_on_the_heaviest_replica_the_smallest_prompt_wins():
    # m = 0 and G = 2: F(2) = -2 > F(3) = -3; the guard admits one although F <= 0.
    state = TickState([[5], [1]], [1, 0], pool_of(3, 2))
    assert decisions(state) == [(1, 0, 2, -2)]


def test_stage_1_runs_while_free_slots_exceed_the_threshold():
    # S_tot = 3 > G = 2: stage 1 sees the whole pool, fills the margin of 50 and stops. Stage 2
    # (R_max = 1) sees the oldest only: F = 10 - 2*10 on equal loads, then F = 20 - 2*10.
    state = TickState([[50], [0]], [1, 2], pool_of(10, 20, 50))
    assert decisions(state, max_subset=1) == [(2, 1, 1, 50), (0, 0, 2, -10), (1, 1, 2, 0)]


def test_ties_go_to_the_lower_replica_the_older_request_and_the_smaller_mask():
    state = TickState([[0], [0]], [1, 1], pool_of(4, 4, 4))
    assert [(i, g) for i, g, _, _ in decisions(state)] == [(0, 0), (1, 1)]


def test_a_replica_without_kv_room_is_closed_for_the_tick():
    pool = [Request(0, 5, 0.0, reserved_tokens=9), Request(1, 5, 1.0, reserved_tokens=9)]
    state = TickState([[0], [0]], [2, 2], pool, free_tokens=[8, 9])
    assert [(i, g) for i, g, _, _ in decisions(state)] == [(0, 1)]


@pytest.mark.parametrize(("order", "expected"), [("oldest", 0), ("newest", 3), ("largest", 1)])
def test_candidate_orders(order, expected):
    state = TickState([[0]], [1], pool_of(3, 9, 2, 5))
    (admitted,) = decisions(state, candidate_order=order, max_subset=1)
    assert admitted[0] == expected


def test_longest_first_stage_1_takes_the_longest_prompt():
    state = TickState([[0], [0]], [3, 3], pool_of(3, 9, 2))
    assert decisions(state, stage1="longest")[0][0] == 1
    assert decisions(state)[0][0] == 2


def test_key_orders():
    """Most free slots against largest margin: the table of false claims, row four."""
    state = TickState([[10000], [500]], [7, 3], pool_of(*[900] * 6))

    def after(**params):
        loads = [10000, 500]
        for _, g, _, _ in decisions(state, **params):
            loads[g] += 900
        return imbalance(loads)

    assert imbalance([10000, 500]) == 9500
    assert after() == 13100
    assert after(key_order="margin-first") == 9500


def test_a_set_is_listed_oldest_first_whatever_the_candidate_order():
    state = TickState([[100], [0]], [0, 2], pool_of(30, 70))
    for order in ("oldest", "newest", "largest"):
        assert [d[0] for d in decisions(state, candidate_order=order)] == [0, 1]


@given(tick_states())
def test_every_admission_is_valid_and_the_tick_is_eager(state):
    """T27/T28: nothing twice, slots respected; without KV limits min(pool, slots) dispatched."""
    made = br0().tick(state)
    ids = [a.id for a in made]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= {r.id for r in state.pool}
    for g, cap in enumerate(state.free_slots):
        assert sum(a.replica == g for a in made) <= cap
    if state.free_tokens is None:
        assert len(made) == min(len(state.pool), sum(state.free_slots))


@given(tick_states())
def test_scores_of_a_tick_add_up_to_the_change_of_imbalance(state):
    """Margins are refreshed, so the sum over single admissions telescopes exactly (T10)."""
    made = br0(max_subset=1).tick(state)
    prompts = {r.id: r.prompt_tokens for r in state.pool}
    after = [row[0] for row in state.loads]
    for a in made:
        after[a.replica] += prompts[a.id]
    assert imbalance([row[0] for row in state.loads]) - imbalance(after) == sum(
        a.score for a in made
    )


@given(tick_states(), st.integers(0, 1000))
def test_a_constant_on_all_loads_changes_no_decision(state, constant):
    raised = replace(state, loads=[[x + constant for x in row] for row in state.loads])
    assert br0().tick(raised) == br0().tick(state)


def test_extreme_tokens_are_refused_exactly_at_the_bound():
    limit = br0().weights(2).token_limit
    br0().tick(TickState([[limit], [0]], [0, 0], []))
    with pytest.raises(InputError, match="tokens"):
        br0().tick(TickState([[limit + 1], [0]], [1, 1], []))


def test_a_horizon_sees_a_departure_the_present_hides():
    """The heaviest replica is empty from h = 1 on: now the short prompt is best, ahead the long."""
    state = TickState([[9, 0, 0], [8, 8, 8]], [1, 0], pool_of(8, 1))
    # m = 0 and G = 2: F(8) = 8 - 2*8, F(1) = 1 - 2*1.
    assert decisions(replace(state, loads=[[9], [8]])) == [(1, 0, 2, -1)]
    # Margins 0, 8, 8: F(8) = 3*8 - 2*8 and F(1) = 3*1 - 2*1, times 64*1024 in fixed point.
    ahead = BalanceRouteHorizon(HorizonParams(horizon=2)).tick(state)
    assert [(a.id, a.replica, a.score) for a in ahead] == [(0, 0, 64 * 1024 * 8)]
