"""The production functions the statements speak of, called the same way from every layer.

They accept any ordered number type: integers in searches, sympy expressions with decided signs in
the symbolic layer, symbolic reals in the execution layer.
"""

from collections.abc import Sequence
from typing import Any

from brtheory.core.fscore import ScoreWeights, f_score, one_step_weights
from brtheory.core.imbalance import imbalance, margins

SUMMARY = "summary of the paper, design 1"
LIST = "exact-and-proofs, section 1"
EVERY_REAL = "every real G, m and Delta"
SCORE = (f_score, one_step_weights)
IMBALANCE = (imbalance, margins)


def score(replicas: Any, margin: Any, delta: Any) -> Any:
    """One-step score of Delta at a replica with this margin."""
    return f_score(delta, [margin], one_step_weights(replicas))


def window_score(reward: Any, prices: Sequence[Any], window: Sequence[Any], delta: Any) -> Any:
    """Horizon score A*Delta - sum_h w_h*(Delta - m_h)_+, one price and one margin a step."""
    return f_score(delta, window, ScoreWeights(reward=reward, overflow=tuple(prices)))


def added(loads: Sequence[Any], replica: int, delta: Any) -> list[Any]:
    """Loads after delta has been added to one replica."""
    return [load + delta if g == replica else load for g, load in enumerate(loads)]
