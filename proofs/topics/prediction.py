"""T25, T26: what a prediction may be worth: the contribution c_hat, its gate, and Jensen."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp
import z3

from brtheory.core.imbalance import peak
from brtheory.prediction.contribution import GATE, contribution
from brtheory.prediction.protocol import Prediction
from proofs.formulas import largest, reals, vector
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, either, iff, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import LIST, SUMMARY
from proofs.statement import Statement

HALF = Fraction(1, 2)


def _exact(value: Any) -> Any:
    """A float the product returns for an anchor, as the exact number it is."""
    return Fraction(value) if isinstance(value, float) else value


def product_contribution(p: Any, mean: Any, *, horizon: int, gate: Fraction = HALF) -> Any:
    """c_hat of the product on any ordered number type; the gate as a fraction."""
    # The product's types say float; the code needs comparison and arithmetic only.
    prediction: Any = Prediction(p, mean)
    exact_gate: Any = gate
    return _exact(contribution(prediction, horizon=horizon, gate=exact_gate))


def _t25_goals() -> Iterator[Goal]:
    horizon, p, mean, q, longer = reals("H p mu q nu")

    def value(chance: Any, remaining: Any) -> Any:
        return (1 - chance) * horizon + chance * remaining

    def gated(chance: Any, remaining: Any) -> Any:
        return z3.If(chance < z3.Q(1, 2), horizon, value(chance, remaining))

    one = [p >= 0, p <= 1, mean >= 0, mean <= horizon]
    yield Goal(
        z3.And(
            value(p, mean) >= p * mean,
            value(p, mean) <= horizon,
            (value(p, mean) == horizon) == z3.Or(p == 0, mean == horizon),
            gated(p, mean) >= value(p, mean),
            gated(p, mean) - value(p, mean) <= p * (horizon - mean),
        ),
        one,
        "bounds",
    )
    # Calibration: p mu = E[r; r <= H], so E min(r, H) = p mu + H P(r > H).
    within = reals("A")[0]
    yield Goal(
        value(p, mean) == within + horizon * (1 - p), [*one, within == p * mean], "calibration"
    )
    yield Goal(
        gated(p, longer) >= gated(q, longer),
        [p >= 0, q <= 1, p <= q, longer >= 0, longer <= horizon],
        "no increase in p",
    )
    yield Goal(
        gated(p, mean) <= gated(p, longer), [*one, mean <= longer, longer <= horizon], "in mu"
    )


def _t25_programs() -> Iterator[Program]:
    for horizon in (1, 2, 80):
        p, mean, q = Real("p"), Real("mu"), Real("q")

        def run(p: Any = p, mean: Any = mean, q: Any = q, horizon: int = horizon) -> Obligations:
            free = product_contribution(p, mean, horizon=horizon, gate=Fraction(0))
            gated = product_contribution(p, mean, horizon=horizon)
            yield "at least p mu", free >= p * mean
            yield "at most H", free <= horizon
            yield "anchor iff", iff(free == horizon, either(p == 0, mean == horizon))
            yield "the gate only raises", gated >= free
            surer = product_contribution(q, mean, horizon=horizon)
            yield "no increase in p", gated >= surer

        known = [p >= 0, p <= q, q <= 1, mean >= 1, mean <= horizon]
        yield Program(run, known, f"H = {horizon}")


def _t25_regions() -> Iterator[Obligation]:
    for horizon in range(1, 7):
        law = sp.symbols(f"p1:{horizon + 1}", positive=True)
        within = sum(law)
        mean = sum(r * chance for r, chance in enumerate(law, 1)) / within
        # Calibration: p = P(r <= H), mu = E[r | r <= H]; P(r > H) = 1 - p.
        expected = sum(r * chance for r, chance in enumerate(law, 1)) + horizon * (1 - within)
        value = (1 - within) * horizon + within * mean
        yield zero(f"formula, H = {horizon}", sp.cancel(value - expected))
        got = product_contribution(within, mean, horizon=horizon, gate=Fraction(-1))
        yield zero(f"product, H = {horizon}", sp.cancel(got - expected))


def _t25_holds(eighths: int, mean: int, horizon: int) -> bool:
    got = contribution(Prediction(eighths / 8, float(mean)), horizon=horizon)
    want = Fraction((8 - eighths) * horizon + eighths * mean, 8)
    return Fraction(got) == (horizon if eighths < 4 else want) and GATE == HALF


T25 = Statement(
    id="T25",
    title="The contribution c_hat",
    claim="c_hat lies in [p mu, H], is H iff p = 0 or mu = H, does not increase in p; the gate "
    "only raises it, to H below p = 1/2; under calibration c_hat = E min(r, H).",
    latex=r"p\mu \le \hat c \le H;\quad \hat c = \mathbb E \min(r, H)",
    hypotheses=("0 <= p <= 1", "mu <= H", "calibration for the last part"),
    source=SUMMARY,
    about=(contribution,),
    layers=(
        symbolic("calibration: any law of r on 1..H, H = 1..6", _t25_regions, general=False),
        smt("bounds and monotonicity: every real p, mu, H", _t25_goals),
        execution("the product, H = 1, 2, 80, all real p and mu", _t25_programs),
        exhaustive(
            "the product in float64, p in eighths, mu <= H <= 8",
            lambda: (
                (p, mean, horizon)
                for p, horizon in product(range(9), range(1, 9))
                for mean in range(1, horizon + 1)
            ),
            _t25_holds,
        ),
    ),
)


def _t26_goals() -> Iterator[Goal]:
    top, other, mixed, a, b, weight, prefix = reals("M N P a b w Q")
    yield Goal(
        mixed <= weight * top + (1 - weight) * other,
        [weight >= 0, weight <= 1, a <= top, b <= other, mixed == weight * a + (1 - weight) * b],
        "two scenarios, peak of the mean attained anywhere",
    )
    # One more scenario of probability w: the peak of a sum is at most the sum of the peaks.
    yield Goal(
        mixed <= prefix + weight * top,
        [weight >= 0, a <= top, b <= prefix, mixed == b + weight * a],
        "one more scenario",
    )


def _t26_vectors() -> Iterator[Goal]:
    for count in (2, 3, 4):
        first, second = vector("A", count), vector("B", count)
        mean = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
        yield Goal(2 * largest(mean) <= largest(first) + largest(second), (), f"G = {count}")


def _t26_programs() -> Iterator[Program]:
    for count in (2, 3):
        first, second = named("A", count), named("B", count)

        def run(first: Any = first, second: Any = second) -> Obligations:
            sums = [a + b for a, b in zip(first, second, strict=True)]
            yield "barrier of the mean", peak(sums) <= peak(first) + peak(second)

        yield Program(run, (), f"G = {count}")


T26 = Statement(
    id="T26",
    title="Jensen",
    claim="The barrier of the mean loads is at most the mean barrier: planning on expected loads "
    "is optimistic.",
    latex=r"\max_g \mathbb E L_g \le \mathbb E \max_g L_g",
    source=LIST,
    about=(peak,),
    layers=(
        smt("every G, finitely many scenarios by induction", _t26_goals),
        smt("G = 2, 3, 4, two scenarios", _t26_vectors, general=False),
        execution("G = 2, 3, two equally likely scenarios, all real loads", _t26_programs),
    ),
)

STATEMENTS = (T25, T26)
