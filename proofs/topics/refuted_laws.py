"""R15 - R18: further claims about the score that are false, each with its counterexample.

The smt layer states the claim and both solvers refute it over the reals; the search layer replays
the smallest integer counterexample on the product, and where the literature names another one,
that too.
"""

from collections.abc import Iterator
from typing import Any

import z3

from brtheory.core.imbalance import imbalance, margins
from proofs.formulas import (
    imbalance_of,
    largest,
    reals,
    score_of,
    vector,
    with_added,
)
from proofs.layers.search import by_sum, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, SCORE, added, score
from proofs.statement import Statement, Verdict
from proofs.topics.refuted_score import REALS


def _r15_goals() -> Iterator[Goal]:
    loads, (x,) = vector("L", 2), reals("x")
    yield Goal(
        imbalance_of(loads) - imbalance_of(with_added(loads, 0, x))
        == score_of(2, largest(loads) - loads[0], x),
        [x < 0, loads[0] + x >= 0, loads[1] >= 0],
        "G = 2",
    )


def _r15_holds(loads: tuple[int, ...], gone: int) -> bool | None:
    if gone < 1 or gone > loads[0]:
        return None
    gain = imbalance(loads) - imbalance(added(loads, 0, -gone))
    return bool(gain == score(len(loads), margins(loads)[0], -gone))


R15 = Statement(
    id="R15",
    title="The identity does not hold for completions",
    claim="False: the score of -w is what a completion of w tokens takes off the imbalance. (Only "
    "where another replica is at least as loaded, T1'.)",
    latex=r"I(L) - I(L - w e_g) = F_g(-w)",
    source="this project",
    about=(*SCORE, *IMBALANCE),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r15_goals),
        smallest_counterexample(
            "smallest loads of two replicas and departure",
            lambda: ((c[:2], c[2]) for c in by_sum(3, low=0, high=3)),
            _r15_holds,
            expected=((1, 0), 1),
        ),
    ),
)


def _gain(loads: tuple[int, ...], extra: tuple[int, ...]) -> int:
    after = [load + more for load, more in zip(loads, extra, strict=True)]
    return imbalance(loads) - imbalance(after)


def _joint_goal(*, sub: bool) -> Iterator[Goal]:
    loads, (x, y) = vector("L", 2), reals("x y")
    zero = z3.RealVal(0)

    def gain(extra: Any) -> Any:
        after = [load + more for load, more in zip(loads, extra, strict=True)]
        return imbalance_of(loads) - imbalance_of(after)

    assumed = [x >= 1, y >= 1, *[load >= 0 for load in loads]]
    if sub:
        claim = gain([x, zero]) + gain([zero, y]) >= gain([x, y])
    else:
        claim = gain([x, zero]) + gain([y, zero]) <= gain([x + y, zero])
    yield Goal(claim, assumed, "G = 2")


def _submodular(loads: tuple[int, ...], x: int, y: int) -> bool:
    return _gain(loads, (x, 0)) + _gain(loads, (0, y)) >= _gain(loads, (x, y))


def _supermodular(loads: tuple[int, ...], x: int, y: int) -> bool:
    return _gain(loads, (x, 0)) + _gain(loads, (y, 0)) <= _gain(loads, (x + y, 0))


def _loads_and_two() -> Iterator[tuple[Any, ...]]:
    for case in by_sum(4, low=0, high=4):
        if min(case[2:]) >= 1:
            yield case[:2], case[2], case[3]


R16 = Statement(
    id="R16",
    title="The joint gain is not submodular across replicas",
    claim="False: the gain of admitting to two replicas is at most the sum of the gains alone.",
    latex=r"g(x, 0) + g(0, y) \ge g(x, y)",
    source="this project",
    about=IMBALANCE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, lambda: _joint_goal(sub=True)),
        smallest_counterexample(
            "smallest loads and sizes", _loads_and_two, _submodular, expected=((0, 0), 1, 1)
        ),
    ),
)

R17 = Statement(
    id="R17",
    title="The joint gain is not supermodular either",
    claim="False: the gain of a set on one replica is at least the sum of the gains alone.",
    latex=r"g(x) + g(y) \le g(x + y)",
    source="this project",
    about=IMBALANCE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, lambda: _joint_goal(sub=False)),
        smallest_counterexample(
            "smallest loads and sizes", _loads_and_two, _supermodular, expected=((0, 1), 1, 1)
        ),
    ),
)


def _r18_goals() -> Iterator[Goal]:
    m1, m2, x, y = reals("m1 m2 x y")
    yield Goal(
        score_of(3, m1, x) >= score_of(3, m2, y),
        [m1 >= 0, m2 >= 0, x >= 1, y >= 1, score_of(2, m1, x) > score_of(2, m2, y)],
        "G falls from 3 to 2, beta stays 3",
    )


def _r18_holds(m1: int, m2: int, x: int, y: int) -> bool | None:
    if min(x, y) < 1 or score(2, m1, x) <= score(2, m2, y):
        return None
    return bool(score(3, m1, x) >= score(3, m2, y))


R18 = Statement(
    id="R18",
    title="beta must follow failures",
    claim="False: an overflow price of 3 still prefers the right admission once one of three "
    "replicas has failed.",
    latex=r"F^{G=2}_1 > F^{G=2}_2 \Rightarrow F^{\beta=3}_1 \ge F^{\beta=3}_2",
    source="this project; model-and-routers, section 3",
    about=SCORE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r18_goals),
        smallest_counterexample(
            "smallest margins and sizes",
            lambda: by_sum(4, low=0, high=6),
            _r18_holds,
            expected=(3, 0, 6, 1),
        ),
    ),
)

STATEMENTS = (R15, R16, R17, R18)
