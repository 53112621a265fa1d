"""T9: choosing the best subset of an unbounded pool decides SUBSET-SUM."""

from collections.abc import Iterator
from itertools import combinations

import sympy as sp

from brtheory.routers.reference import BalanceRoute
from proofs.formulas import reals, score_of
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, positive, symbolic, zero
from proofs.product import LIST, SCORE, score
from proofs.statement import Statement
from proofs.topics.choice import loads_with_margin, stage_2_set, subset_cases


def _t9_regions() -> Iterator[Obligation]:
    target, gap, extra = sp.symbols("B t g", positive=True)
    replicas = 1 + extra
    yield zero("a set that sums to the target scores it", score(replicas, target, target) - target)
    yield positive("a smaller sum scores less", target - score(replicas, target, target - gap))
    yield positive("a larger sum scores less", target - score(replicas, target, target + gap))


def _t9_goals() -> Iterator[Goal]:
    replicas, target, total = reals("G B x")
    yield Goal(
        (score_of(replicas, target, total) >= target) == (total == target),
        [replicas > 1, target >= 0],
        "reduction",
    )


def _t9_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool:
    """The product's stage 2, window as wide as the pool, answers subset sum."""
    chosen, best = stage_2_set(sizes, loads_with_margin(margin, replicas), replica=0)
    sums = {sum(q) for k in range(1, len(sizes) + 1) for q in combinations(sizes, k)}
    return (best == margin) == (margin in sums) and (best != margin or sum(chosen) == margin)


T9 = Statement(
    id="T9",
    title="Unwindowed stage 2 is subset-sum hard",
    claim="A set with F >= m exists iff some subset of the pool sums to exactly m, so choosing the "
    "best subset of an unbounded pool decides SUBSET-SUM (reduction identity).",
    latex=r"\max_Q F(Q) = m \iff \exists Q: \sum_{i \in Q} s_i = m",
    hypotheses=("G > 1", "m >= 0"),
    source=LIST,
    about=(*SCORE, BalanceRoute),
    layers=(
        symbolic("every G > 1, by regions", _t9_regions),
        smt("every real G > 1 and target", _t9_goals),
        exhaustive(
            "stage 2 as a subset-sum solver: up to 3 sizes 1..5, targets 0..9",
            subset_cases,
            _t9_holds,
        ),
    ),
)

STATEMENTS = (T9,)
