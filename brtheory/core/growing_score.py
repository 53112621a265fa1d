"""The exact horizon score: what admitting requests that grow and end takes off the imbalance.

    F = sum_h (a_h*x_h - w_h*(x_h - m_h)_+),   x_h = sum_i (s_i + h)[h < c_i]

with a_h = round(64*alpha)*d_h and w_h, d_h as ``horizon_weights`` has them. With alpha = 1 and
beta = G it is -64*sum_h d_h times the change of I(k + h) (T24); where every x_h is Delta, and at
H = 0, it is the score of ``f_score``.
"""

from collections.abc import Sequence
from functools import cache

from brtheory.core.fscore import horizon_weights, positive_part


@cache
def step_rewards(*, horizon: int, discount: float, reward_weight: float) -> tuple[int, ...]:
    """a_0 .. a_H: the value of one admitted token at each step of the horizon.

    Their sum is the reward A of ``horizon_weights``.

    Parameters
    ----------
    horizon
        H >= 0, in steps.
    discount
        gamma in (0, 1].
    reward_weight
        alpha >= 0.
    """
    # alpha in beta's place: w_h = round(64*alpha)*d_h are the rewards of the single steps.
    return horizon_weights(
        horizon=horizon,
        discount=discount,
        reward_weight=reward_weight,
        overflow_weight=reward_weight,
    ).overflow


def tokens_ahead(
    prompt_tokens: int, *, steps_present: int, horizon: int, growth: int = 1
) -> list[int]:
    """(s + h)[h < c] for h = 0 .. H: what a request admitted now weighs at each step.

    Parameters
    ----------
    prompt_tokens
        s >= 1.
    steps_present
        c >= 1, steps at which it counts as present; beyond H + 1 it is there throughout.
    horizon
        H >= 0.
    growth
        Tokens it gains a step: 1, or 0 where completions alone change the loads.

    Returns
    -------
    list of int
        H + 1 entries.
    """
    present = min(steps_present, horizon + 1)
    weights = [prompt_tokens + growth * h for h in range(present)]
    return weights + [0] * (horizon + 1 - present)


def growing_score(
    tokens: Sequence[int], margins: Sequence[int], rewards: Sequence[int], prices: Sequence[int]
) -> int:
    """F = sum_h (a_h*x_h - w_h*(x_h - m_h)_+) for one replica.

    Parameters
    ----------
    tokens
        x_0 .. x_H >= 0: what the admitted set weighs at each step.
    margins
        m_0 .. m_H of the replica, in the unit of ``tokens``.
    rewards, prices
        a_0 .. a_H of ``step_rewards`` and w_0 .. w_H of ``ScoreWeights.overflow``.

    Returns
    -------
    int
        Larger is better.
    """
    return sum(
        reward * x - price * positive_part(x - margin)
        for x, margin, reward, price in zip(tokens, margins, rewards, prices, strict=True)
    )
