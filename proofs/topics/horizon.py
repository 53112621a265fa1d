"""T18 - T21: the horizon score, where it equals BR-0, its shape and its maximisers.

    F_H(x) = A*x - sum_h w_h*(x - m_h)_+,   A = alpha*(1'd),  w_h = beta*d_h

Claims about every H go by induction over the steps: a window is a prefix and one more step.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp
import z3

from brtheory.core.fscore import f_score, horizon_weights, one_step_weights
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams, HorizonParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from proofs.formulas import positive_part_of, reals, score_of
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import LIST, SUMMARY, score, window_score
from proofs.statement import Statement

HORIZON = (f_score, horizon_weights, one_step_weights)
STEPWISE = "every H by induction over its steps, every real G, d, m"


def weights_of(replicas: int, horizon: int, discount: float = 1.0) -> Any:
    """The product's horizon weights with alpha = 1, beta = G."""
    return horizon_weights(
        horizon=horizon, discount=discount, reward_weight=1.0, overflow_weight=replicas
    )


def _t18_regions() -> Iterator[Obligation]:
    replicas, margin, step, scale = sp.symbols("G m t u", positive=True)
    for delta in (margin - step, margin, margin + step):
        wide = window_score(scale, [scale * replicas], [margin], delta)
        yield zero(f"Delta = {delta}", wide - scale * score(replicas, margin, delta))


def _t18_programs() -> Iterator[Program]:
    for replicas in (1, 2, 3, 8, 1024):
        margin, delta = Real("m"), Real("x")
        weights = weights_of(replicas, 0)

        def run(
            replicas: int = replicas, weights: Any = weights, margin: Any = margin, x: Any = delta
        ) -> Obligations:
            one = score(replicas, margin, x)
            yield "a multiple", f_score(x, [margin], weights) == weights.reward * one

        yield Program(run, (), f"G = {replicas}")


def _t18_ticks() -> Iterator[tuple[Any, ...]]:
    for loads in product(range(4), repeat=2):
        for slots in ((1, 1), (2, 1), (2, 2)):
            for sizes in product((1, 2, 4), repeat=3):
                yield loads, slots, sizes


def _t18_holds(loads: Any, slots: Any, sizes: Any) -> bool:
    pool = [Request(id=i, prompt_tokens=s) for i, s in enumerate(sizes)]
    state = TickState([[load] for load in loads], slots, pool)
    plain = BalanceRoute(BalanceRouteParams()).tick(state)
    wide = BalanceRouteHorizon(HorizonParams(horizon=0)).tick(state)
    return [(a.id, a.replica, a.stage) for a in plain] == [(a.id, a.replica, a.stage) for a in wide]


T18 = Statement(
    id="T18",
    title="Degeneration at H = 0",
    claim="With H = 0, alpha = 1, beta = G the horizon score is a fixed positive multiple of the "
    "one-step score, and BR-H decides as BR-0.",
    latex=r"F_{H=0,\alpha=1,\beta=G} = c F_0,\ c > 0",
    source=SUMMARY,
    about=(*HORIZON, BalanceRouteHorizon),
    layers=(
        symbolic("every G and scale, by regions", _t18_regions),
        execution("the product's weights, G = 1, 2, 3, 8, 1024, all real m, Delta", _t18_programs),
        exhaustive("both routers, G = 2, 3 requests, integers", _t18_ticks, _t18_holds),
    ),
)


def _t19_goals() -> Iterator[Goal]:
    replicas, margin, delta, mass, prefix, d = reals("G m x D P d")
    one = score_of(replicas, margin, delta)
    step = d * delta - replicas * d * positive_part_of(delta - margin)
    yield Goal(prefix + step == (mass + d) * one, [prefix == mass * one], "one more step")


def _t19_programs() -> Iterator[Program]:
    for replicas, horizon, discount in ((2, 1, 1.0), (8, 80, 1.0), (8, 80, 0.95), (1024, 16, 0.5)):
        margin, delta = Real("m"), Real("x")
        weights = weights_of(replicas, horizon, discount)

        def run(
            replicas: int = replicas, weights: Any = weights, margin: Any = margin, x: Any = delta
        ) -> Obligations:
            wide = f_score(x, [margin] * len(weights.overflow), weights)
            yield "a multiple", wide == weights.reward * score(replicas, margin, x)

        yield Program(run, (), f"G = {replicas}, H = {horizon}, gamma = {discount}")


def _t19_holds(replicas: int, horizon: int, hundredths: int) -> bool:
    """The fixed point: w_h / (64 G) is 1024 gamma^h to the nearest integer, at least 1."""
    weights = weights_of(replicas, horizon, hundredths / 100)
    exact = [1024 * Fraction(hundredths, 100) ** h for h in range(horizon + 1)]
    rounded = [Fraction(price, 64 * replicas) for price in weights.overflow]
    near = (
        d == 1 if e < Fraction(1, 2) else abs(d - e) <= Fraction(1, 2) + Fraction(1, 10**9)
        for d, e in zip(rounded, exact, strict=True)
    )
    return all(near) and weights.reward == 64 * sum(rounded)


T19 = Statement(
    id="T19",
    title="Constant margins",
    claim="Where a replica's margin is the same at every step of the horizon, F_H = (1'd) F_0: "
    "the ranking is BR-0's.",
    latex=r"m_h \equiv m \Rightarrow F_H = (\mathbf 1^\top d) F_0",
    hypotheses=("alpha = 1, beta = G",),
    source=LIST,
    about=HORIZON,
    layers=(
        smt(STEPWISE, _t19_goals),
        execution("the product's weights up to H = 80, all real m, Delta", _t19_programs),
        exhaustive(
            "the fixed point is the discount to the nearest 1/1024",
            lambda: product((1, 8), (0, 1, 5, 80), (1, 50, 90, 99, 100)),
            _t19_holds,
        ),
    ),
)


def _t20_goals() -> Iterator[Goal]:
    low, middle, high, price, margin, x, half, rise = reals("A B C w m x u e")

    def cost(delta: Any, at: Any = margin) -> Any:
        return price * positive_part_of(delta - at)

    # A, B, C: the prefix at x, x + u, x + 2u.
    yield Goal(
        2 * (middle - cost(x + half)) >= (low - cost(x)) + (high - cost(x + 2 * half)),
        [price >= 0, 2 * middle >= low + high],
        "concave: one more step",
    )
    yield Goal(
        high - cost(x, margin + rise) >= low - cost(x),
        [price >= 0, rise >= 0, high >= low],
        "monotone in the margins: one more step",
    )


def _t20_programs() -> Iterator[Program]:
    for horizon in (0, 1, 2):
        window, rises = named("m", horizon + 1), named("e", horizon + 1)
        x, half = Real("x"), Real("u")
        weights = weights_of(8, horizon, 0.9)

        def run(
            window: Any = window, weights: Any = weights, x: Any = x, half: Any = half
        ) -> Obligations:
            ends = f_score(x, window, weights) + f_score(x + 2 * half, window, weights)
            yield "midpoint", 2 * f_score(x + half, window, weights) >= ends

        def rising(
            window: Any = window, weights: Any = weights, x: Any = x, rises: Any = rises
        ) -> Obligations:
            higher = [m + e for m, e in zip(window, rises, strict=True)]
            yield "monotone", f_score(x, higher, weights) >= f_score(x, window, weights)

        yield Program(run, [half >= 0], f"concave, H = {horizon}")
        yield Program(rising, [e >= 0 for e in rises], f"monotone, H = {horizon}")


T20 = Statement(
    id="T20",
    title="The horizon score is concave",
    claim="F_H is concave in Delta and does not fall as any margin grows.",
    latex=r"F_H \text{ concave in } x,\ \partial F_H / \partial m_h \ge 0",
    hypotheses=("w_h >= 0",),
    source=LIST,
    about=HORIZON,
    layers=(
        smt("every H by induction over its steps, every real w >= 0, m", _t20_goals),
        execution("the product's weights, H = 0, 1, 2, all real margins", _t20_programs),
    ),
)


def _t21_goals() -> Iterator[Goal]:
    x, y, rise, below, upto, price, margin = reals("x y P lo hi w m")
    cost = price * (positive_part_of(y - margin) - positive_part_of(x - margin))
    more_upto = upto + z3.If(margin <= x, price, z3.RealVal(0))
    more_below = below + z3.If(margin < x, price, z3.RealVal(0))
    # P: overflow cost at y minus at x, over the prefix; lo, hi: its prices with m_h < x, <= x.
    yield Goal(
        rise + cost >= (y - x) * more_upto,
        [y >= x, price >= 0, rise >= (y - x) * upto],
        "larger Delta: one more step",
    )
    yield Goal(
        rise + cost >= (y - x) * more_below,
        [y <= x, price >= 0, rise >= (y - x) * below],
        "smaller Delta: one more step",
    )
    reward = z3.Real("A")
    quantile = [below <= reward, reward <= upto]
    yield Goal(
        reward * y - rise <= reward * x,
        [
            *quantile,
            z3.Or(z3.And(y >= x, rise >= (y - x) * upto), z3.And(y <= x, rise >= (y - x) * below)),
        ],
        "so x is best",
    )
    # Just above x, up to the next margin, and just below: the cost is linear, so no other x is.
    yield Goal(
        rise + cost == (y - x) * more_upto,
        [y > x, z3.Or(margin <= x, margin >= y), rise == (y - x) * upto],
        "just above: one more step",
    )
    yield Goal(
        rise + cost == (y - x) * more_below,
        [y < x, z3.Or(margin >= x, margin <= y), rise == (y - x) * below],
        "just below: one more step",
    )
    up, down = reals("u v")
    yield Goal(
        reward * up - rise > 0, [up > 0, rise == up * upto, upto < reward], "so x is too small"
    )
    yield Goal(
        -reward * down - rise > 0,
        [down > 0, rise == -down * below, below > reward],
        "or x is too large",
    )


def _t21_programs() -> Iterator[Program]:
    for horizon in (0, 1, 2):
        window, x, y = named("m", horizon + 1), Real("x"), Real("y")
        weights = weights_of(3, horizon, 0.5)

        def run(
            window: Any = window, weights: Any = weights, x: Any = x, y: Any = y
        ) -> Obligations:
            pairs = list(zip(weights.overflow, window, strict=True))
            below = sum(price for price, margin in pairs if margin < x)
            upto = sum(price for price, margin in pairs if margin <= x)
            if below <= weights.reward <= upto:
                best = f_score(x, window, weights)
                yield "no other Delta is better", f_score(y, window, weights) <= best

        yield Program(run, (), f"H = {horizon}")


def _t21_holds(window: tuple[int, ...]) -> bool:
    """The maximisers of the product's score over integers are the weighted quantiles."""
    weights = weights_of(3, len(window) - 1, 0.5)
    values = [f_score(x, window, weights) for x in range(-1, 8)]
    for x in range(7):
        below = sum(p for p, m in zip(weights.overflow, window, strict=True) if m < x)
        upto = sum(p for p, m in zip(weights.overflow, window, strict=True) if m <= x)
        if (below <= weights.reward <= upto) != (values[x + 1] == max(values)):
            return False
    return True


T21 = Statement(
    id="T21",
    title="Newsvendor",
    claim="Delta maximises F_H iff it is an A-quantile of the margins weighted by w: the prices "
    "of the margins below it sum to at most A, those up to it to at least A.",
    latex=r"x \in \arg\max F_H \iff \sum_{m_h<x} w_h \le A \le \sum_{m_h\le x} w_h",
    hypotheses=("w_h >= 0",),
    source=LIST,
    about=HORIZON,
    layers=(
        smt("every H by induction over its steps, every real A, w >= 0, m", _t21_goals),
        execution("the product's weights, H = 0, 1, 2, all real margins", _t21_programs),
        exhaustive(
            "H = 0, 1, 2, margins 0..5, both directions",
            lambda: ((w,) for n in (1, 2, 3) for w in product(range(6), repeat=n)),
            _t21_holds,
        ),
    ),
)


STATEMENTS = (T18, T19, T20, T21)
