"""The F-score: identity with the change of imbalance, shape, fixed-point weights, exact bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.fscore import (
    INT64_MAX,
    ScoreWeights,
    check_token_limit,
    f_score,
    horizon_weights,
    one_step_weights,
    positive_part,
)
from brtheory.core.imbalance import imbalance, margins
from brtheory.errors import InputError

LOADS = st.lists(st.integers(0, 10**6), min_size=1, max_size=9)
TOKENS = st.integers(0, 10**6)


@given(LOADS, TOKENS, st.data())
def test_one_step_score_is_minus_the_change_of_imbalance(loads, delta, data):
    """T1, ties and the heaviest replica included."""
    g = data.draw(st.integers(0, len(loads) - 1))
    after = [load + delta * (i == g) for i, load in enumerate(loads)]
    score = f_score(delta, [margins(loads)[g]], one_step_weights(len(loads)))
    assert score == imbalance(loads) - imbalance(after)


@given(st.integers(1, 64), TOKENS, TOKENS)
def test_one_step_score_peaks_at_the_margin(replicas, delta, margin):
    """T2: F <= m, with equality at Delta = m."""
    weights = one_step_weights(replicas)
    assert f_score(delta, [margin], weights) <= margin
    assert f_score(margin, [margin], weights) == margin


@given(st.lists(TOKENS, min_size=4, max_size=4), TOKENS, st.floats(0.1, 1), st.floats(0, 50))
def test_horizon_score_is_concave(margin_row, delta, discount, beta):
    """T20, on consecutive integers."""
    weights = horizon_weights(horizon=3, discount=discount, reward_weight=1, overflow_weight=beta)
    left, middle, right = (f_score(delta + i, margin_row, weights) for i in range(3))
    assert left + right <= 2 * middle


@given(st.integers(1, 64), TOKENS, TOKENS)
def test_zero_horizon_is_a_multiple_of_the_one_step_score(replicas, delta, margin):
    """T18: H = 0, alpha = 1, beta = G; the fixed point scales by 64*1024."""
    weights = horizon_weights(horizon=0, discount=1, reward_weight=1, overflow_weight=replicas)
    one_step = f_score(delta, [margin], one_step_weights(replicas))
    assert f_score(delta, [margin], weights) == 64 * 1024 * one_step


def test_fixed_point_weights_are_rounded_once():
    # gamma = 1/2: d = 1024, 512, 256; A = round(64*1.5)*1792; w = round(64*3)*d.
    weights = horizon_weights(horizon=2, discount=0.5, reward_weight=1.5, overflow_weight=3)
    assert weights == ScoreWeights(96 * 1792, (192 * 1024, 192 * 512, 192 * 256))


def test_a_vanishing_discount_keeps_weight_one():
    weights = horizon_weights(horizon=20, discount=0.1, reward_weight=1, overflow_weight=1)
    assert weights.overflow[-1] == 64


@given(st.integers(-(10**9), 10**9))
def test_positive_part(value):
    assert positive_part(value) == max(value, 0)


def test_margins_and_weights_must_match_in_length():
    with pytest.raises(ValueError, match="longer than"):
        f_score(1, [1, 2], one_step_weights(3))


@given(st.integers(1, 1024), st.integers(0, 128))
def test_every_score_up_to_the_token_limit_fits_64_bits(replicas, horizon):
    weights = horizon_weights(
        horizon=horizon, discount=1, reward_weight=1, overflow_weight=replicas
    )
    limit = weights.token_limit
    worst = f_score(limit, [0] * (horizon + 1), weights)
    assert -INT64_MAX - 1 <= worst <= INT64_MAX
    assert weights.reward * limit <= INT64_MAX


def test_tokens_beyond_the_limit_are_refused():
    weights = one_step_weights(8)
    limit = weights.token_limit
    check_token_limit([[limit]], [limit], weights)
    with pytest.raises(InputError, match="replica 0"):
        check_token_limit([[limit + 1]], [], weights)
    with pytest.raises(InputError, match="pool"):
        check_token_limit([[0]], [limit, 1], weights)
