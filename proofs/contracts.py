"""Contracts of the pure functions, read by crosshair: the first assert is what they need.

Each takes plain integers or a short list, calls the product's function as it is, and asserts what
it promises; crosshair looks for integers of any size that break an assert, hypothesis tries
generated ones. ``proofs.layers.crosshair`` runs them; nothing else calls them.
"""
# ruff: noqa: S101, PT018 - asserts are what crosshair reads

from brtheory.core.fscore import (
    ScoreWeights,
    f_score,
    one_step_weights,
    positive_part,
    time_f_score,
)
from brtheory.core.horizon import NEVER, predicted_finish
from brtheory.core.imbalance import imbalance, margins, peak, spread
from brtheory.core.subsets import members
from brtheory.core.unequal import time_loads


def positive_part_is_the_larger_of_it_and_zero(value: int) -> None:
    """(x)_+ = max(x, 0)."""
    assert isinstance(value, int)
    assert positive_part(value) == max(value, 0)


def margins_measure_from_the_peak(loads: list[int]) -> None:
    """m_g = M - L_g, the least is 0."""
    assert 1 <= len(loads) <= 3
    found = margins(loads)
    assert min(found) == 0
    assert all(m + load == peak(loads) for m, load in zip(found, loads, strict=True))


def imbalance_is_the_sum_of_margins(loads: list[int]) -> None:
    """I = sum m_g, so it is 0 exactly for equal loads."""
    assert 1 <= len(loads) <= 3
    assert imbalance(loads) == sum(margins(loads))
    assert (imbalance(loads) == 0) == (spread(loads) == 0)


def imbalance_lies_between_spreads(loads: list[int]) -> None:
    """Max - min <= I <= (G - 1)(max - min)."""
    assert 2 <= len(loads) <= 3
    assert spread(loads) <= imbalance(loads) <= (len(loads) - 1) * spread(loads)


def score_is_what_it_takes_off(first: int, second: int, third: int, delta: int) -> None:
    """I(L) - I(L + x e_1) = F, three replicas, loads of any sign."""
    assert delta >= 0
    loads = [first, second, third]
    gained = imbalance(loads) - imbalance([first + delta, second, third])
    assert gained == f_score(delta, [margins(loads)[0]], one_step_weights(3))


def score_is_at_most_the_margin(replicas: int, margin: int, delta: int) -> None:
    """F <= m, and F = m exactly at Delta = m, for any number of replicas."""
    assert replicas >= 2 and margin >= 0 and delta >= 0
    found = f_score(delta, [margin], one_step_weights(replicas))
    assert found <= margin
    assert (found == margin) == (delta == margin)


def departure_changes_it_within_bounds(first: int, second: int, third: int, gone: int) -> None:
    """I - (G - 1) w <= I' <= I + w."""
    assert 0 <= gone <= first
    before, after = imbalance([first, second, third]), imbalance([first - gone, second, third])
    assert before - 2 * gone <= after <= before + gone


def window_score_adds_up(first: int, second: int, delta: int) -> None:
    """A score over two steps is the sum of those of the steps."""
    assert delta >= 0
    both = f_score(delta, [first, second], ScoreWeights(reward=2, overflow=(3, 3)))
    single = ScoreWeights(reward=1, overflow=(3,))
    assert both == f_score(delta, [first], single) + f_score(delta, [second], single)


def time_score_is_what_it_takes_off(first: int, second: int, delta: int) -> None:
    """Two replicas, 3 and 2 units a token, 1 and 4 a step."""
    assert delta >= 0
    before = time_loads([first, second], per_step=[1, 4], per_token=[3, 2])
    after = time_loads([first + delta, second], per_step=[1, 4], per_token=[3, 2])
    found = time_f_score(delta, [margins(before)[0]], one_step_weights(2), per_token=3)
    assert imbalance(before) - imbalance(after) == found


def a_finish_is_ahead_or_never(contribution: int, step: int, horizon: int) -> None:
    """Whole contributions: an anchor at H or beyond, else at least one step ahead."""
    assert 0 <= contribution <= 3 and 0 <= step <= 3 and 0 <= horizon <= 3
    found = predicted_finish(contribution, step=step, horizon=horizon)
    if contribution >= horizon:
        assert found == NEVER
    else:
        assert found == step + max(1, contribution)


def members_are_the_bits_of_a_mask(mask: int) -> None:
    """Ascending, and their powers add up to the mask."""
    assert 0 <= mask < 64
    bits = members.__wrapped__(mask)
    assert sum(1 << bit for bit in bits) == mask
    assert list(bits) == sorted(set(bits))
