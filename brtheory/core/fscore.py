"""The F-score: what admitting Delta prompt tokens to a replica takes off the imbalance.

One step (BR-0):   F_g(Q) = Delta - G*(Delta - m_g)_+
Horizon (BR-H):    F_g(Q) = alpha*(1'd)*Delta - beta*((Delta*1 - m_g)_+)'d,  d = (1, gamma, ...)

Both are one integer expression, A*Delta - sum_h w_h*(Delta - m_{g,h})_+: floating sums would not
agree between backends, so the horizon's weights are rounded once to a fixed point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from brtheory.errors import InputError

DISCOUNT_SCALE = 1024
WEIGHT_SCALE = 64
INT64_MAX = 2**63 - 1
LOAD_LIMIT = 2**62


@dataclass(frozen=True)
class ScoreWeights:
    """Integer weights of an F-score.

    Parameters
    ----------
    reward
        A >= 0, the value of one admitted token.
    overflow
        w_0 .. w_H >= 0, the price of one token above the margin at each step of the horizon.
    """

    reward: int
    overflow: tuple[int, ...]

    @property
    def horizon(self) -> int:
        """H: the number of steps looked ahead."""
        return len(self.overflow) - 1

    @cached_property
    def token_limit(self) -> int:
        """Largest Delta whose score is exact in 64-bit integers.

        |F| <= max(A, sum w) * Delta, so the bound is 2^63 over that, and never above 2^62, which
        keeps load + Delta within 64 bits too. Every backend refuses states beyond it.
        """
        return min(LOAD_LIMIT, INT64_MAX // max(self.reward, sum(self.overflow), 1))


def one_step_weights(replicas: int) -> ScoreWeights:
    """BR-0's weights: A = 1, w = [G]."""
    return ScoreWeights(reward=1, overflow=(replicas,))


def horizon_weights(
    *, horizon: int, discount: float, reward_weight: float, overflow_weight: float
) -> ScoreWeights:
    """BR-H's weights in fixed point.

    d_h = max(1, round(1024*gamma^h)), A = round(64*alpha)*sum(d), w_h = round(64*beta)*d_h, with
    Python's rounding (half to even).

    Parameters
    ----------
    horizon
        H >= 0, in steps.
    discount
        gamma in (0, 1].
    reward_weight, overflow_weight
        alpha >= 0 and beta >= 0.
    """
    discounts = [max(1, round(DISCOUNT_SCALE * discount**h)) for h in range(horizon + 1)]
    price = round(WEIGHT_SCALE * overflow_weight)
    return ScoreWeights(
        reward=round(WEIGHT_SCALE * reward_weight) * sum(discounts),
        overflow=tuple(price * d for d in discounts),
    )


def positive_part(value: int) -> int:
    """(x)_+ = max(x, 0): the only branch of the score, so that proofs can replace it."""
    return value if value > 0 else 0


def f_score(delta: int, margins: Sequence[int], weights: ScoreWeights) -> int:
    """F = A*Delta - sum_h w_h*(Delta - m_h)_+ for one replica.

    Parameters
    ----------
    delta
        Delta >= 0: prompt tokens of the admitted set.
    margins
        m_0 .. m_H of the replica, in KV tokens; H + 1 entries.
    weights
        ``one_step_weights`` or ``horizon_weights``.

    Returns
    -------
    int
        With one-step weights exactly -(change of I); larger is better.
    """
    overflow = sum(
        weight * positive_part(delta - margin)
        for weight, margin in zip(weights.overflow, margins, strict=True)
    )
    return weights.reward * delta - overflow


def time_f_score(
    delta: int, margins: Sequence[int], weights: ScoreWeights, *, per_token: int
) -> int:
    """F of Delta tokens on a replica that spends A_g = ``per_token`` units of time on each.

    F_g = A*A_g*Delta - sum_h w_h*(A_g*Delta - m_h)_+, margins m_h = max T - T_g in units of time
    (``brtheory.core.unequal``); with one-step weights exactly -(change of G*max T - sum T).
    """
    return f_score(per_token * delta, margins, weights)


def check_token_limit(
    loads: Sequence[Sequence[int]], prompts: Sequence[int], weights: ScoreWeights
) -> None:
    """Refuse a tick whose scores could leave 64-bit integers.

    Raises
    ------
    InputError
        If a load or the sum of the pool's prompts exceeds ``weights.token_limit``.
    """
    limit = weights.token_limit
    for replica, row in enumerate(loads):
        if max(row) > limit:
            raise InputError(f"replica {replica}", f"loads <= {limit} tokens", max(row))
    total = sum(prompts)
    if total > limit:
        raise InputError("pool", f"at most {limit} prompt tokens in all", total)
