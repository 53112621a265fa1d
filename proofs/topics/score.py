"""T2 - T4, T30: the shape of the F-score and its arithmetic.

F_g(Delta) = Delta - G*(Delta - m_g)_+
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import sympy as sp
import z3
from hypothesis import strategies as st

from proofs.formulas import absolute, larger, positive_part_of, reals, score_of
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, both, iff
from proofs.layers.search import sampled
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, positive, symbolic, zero
from proofs.product import EVERY_REAL, LIST, SCORE, SUMMARY, score
from proofs.statement import Statement

EXACT_FLOAT = 2**53


def _t2_regions() -> Iterator[Obligation]:
    margin, step, extra = sp.symbols("m t g", positive=True)
    replicas = 1 + extra
    fits, exceeds = margin - step, margin + step
    yield zero("safe: F = Delta", score(replicas, margin, fits) - fits)
    over = score(replicas, margin, exceeds)
    yield zero("overflow: F = G m - (G-1) Delta", over - (replicas * margin - extra * exceeds))
    yield positive("safe: F < m", margin - score(replicas, margin, fits))
    yield zero("Delta = m: F = m", margin - score(replicas, margin, margin))
    yield positive("overflow: F < m", margin - over)
    slope_safe = sp.diff(score(replicas, margin, fits), step) * -1
    slope_over = sp.diff(over, step)
    yield positive("slope falls at m by G: concave", slope_safe - slope_over)
    yield zero("slope +1 below m", slope_safe - 1)
    yield zero("slope -(G-1) above m", slope_over + extra)


def _t2_goals() -> Iterator[Goal]:
    replicas, m1, m2, x, y, weight = reals("G m n x y t")

    def f(margin: Any, delta: Any) -> Any:
        return score_of(replicas, margin, delta)

    yield Goal(
        z3.And(
            z3.Implies(x <= m1, f(m1, x) == x),
            z3.Implies(x >= m1, f(m1, x) == replicas * m1 - (replicas - 1) * x),
        ),
        [replicas >= 1, m1 >= 0],
        "zones",
    )
    # Both overflows lie above 0 and above x - m, y - m; so does their mixture above the mixed one.
    above, over, mixed = reals("p o q")
    yield Goal(
        weight * above + (1 - weight) * over >= 0,
        [weight >= 0, weight <= 1, above >= 0, over >= 0],
        "a mixture of non-negative gaps is one: the overflow is convex",
    )
    yield Goal(
        x - replicas * over >= x - replicas * mixed,
        [replicas >= 0, over <= mixed],
        "so F is concave in Delta",
    )
    yield Goal(
        2 * f((m1 + m2) / 2, (x + y) / 2) >= f(m1, x) + f(m2, y),
        [replicas >= 0],
        "concave jointly, midpoints",
    )
    yield Goal(
        z3.And(f(m1, x) <= m1, (f(m1, x) == m1) == (x == m1)),
        [replicas > 1, m1 >= 0],
        "at most m",
    )


def _t2_program() -> Iterator[Program]:
    replicas, m1, m2, x, half = (Real(name) for name in ("G", "m", "n", "x", "u"))

    def run() -> Obligations:
        value = score(replicas, m1, x)
        yield "zones", value == (x if x <= m1 else replicas * m1 - (replicas - 1) * x)
        yield "at most m", value <= m1
        yield "equality", iff(value == m1, x == m1)

    def concave() -> Obligations:
        ends = score(replicas, m1, x) + score(replicas, m1 + 2 * m2, x + 2 * half)
        yield "joint midpoint", 2 * score(replicas, m1 + m2, x + half) >= ends

    yield Program(run, [replicas > 1, m1 >= 0], "zones")
    yield Program(concave, [replicas >= 1], "concave")


T2 = Statement(
    id="T2",
    title="Zones, concavity and the peak at the margin",
    claim="F = Delta up to the margin and G m - (G-1) Delta beyond; F is concave in Delta and "
    "jointly in (Delta, m); F <= m with equality exactly at Delta = m.",
    latex=r"F(x) = x\ (x \le m),\quad F(x) = Gm-(G-1)x\ (x \ge m),\quad F \le m,\ "
    r"F = m \iff x = m",
    hypotheses=("G > 1 for the equality case", "m >= 0"),
    source=SUMMARY,
    about=SCORE,
    layers=(
        symbolic("every G > 1, by regions", _t2_regions),
        smt(EVERY_REAL, _t2_goals),
        execution(EVERY_REAL, _t2_program, general=True),
    ),
)


def _t3_goals() -> Iterator[Goal]:
    replicas, margin, delta = reals("G m x")
    gains = score_of(replicas, margin, delta) > 0
    yield Goal(
        gains == z3.And(delta > 0, (replicas - 1) * delta < replicas * margin),
        [replicas > 1, margin >= 0, delta >= 0],
        "break-even",
    )


def _t3_program() -> Iterator[Program]:
    replicas, margin, delta = Real("G"), Real("m"), Real("x")

    def run() -> Obligations:
        inside = both(delta > 0, (replicas - 1) * delta < replicas * margin)
        yield "iff", iff(score(replicas, margin, delta) > 0, inside)

    yield Program(run, [replicas > 1, margin >= 0, delta >= 0])


def _t3_regions() -> Iterator[Obligation]:
    margin, step, extra = sp.symbols("m t g", positive=True)
    replicas = 1 + extra
    root = replicas * margin / extra
    yield positive("the root lies above m", root - margin)
    line = score(replicas, margin, margin + step)
    yield zero("F vanishes at G m / (G-1)", line.subs(step, root - margin))
    yield positive("below it, beyond m, F > 0", _between(line, step, root - margin))
    # Beyond the root by u: F = -(G-1) u.
    beyond = sp.Symbol("u", positive=True)
    yield positive("above it F < 0", -line.subs(step, root - margin + beyond))


def _between(line: Any, step: Any, end: Any) -> Any:
    """The line at end*a/(a + b), a point strictly inside (0, end); a, b > 0."""
    a, b = sp.symbols("a b", positive=True)
    return sp.factor(sp.simplify(line.subs(step, end * a / (a + b))))


T3 = Statement(
    id="T3",
    title="Break-even",
    claim="An admission gains iff 0 < (G-1) Delta < G m: a little overflow is still worth it.",
    latex=r"F(x) > 0 \iff 0 < (G-1)x < Gm",
    hypotheses=("G > 1", "m >= 0", "Delta >= 0"),
    source=LIST,
    about=SCORE,
    layers=(
        symbolic("every G > 1, around the root", _t3_regions),
        smt(EVERY_REAL, _t3_goals),
        execution(EVERY_REAL, _t3_program, general=True),
    ),
)


def _t4_goals() -> Iterator[Goal]:
    replicas, m, n, x, y, eps = reals("G m n x y eps")

    def f(margin: Any, delta: Any) -> Any:
        return score_of(replicas, margin, delta)

    steep = larger(replicas - 1, z3.RealVal(1))
    yield Goal(
        z3.And(f(m, x) <= f(n, x), f(n, x) - f(m, x) <= replicas * (n - m)),
        [replicas >= 1, m <= n],
        "in m",
    )
    yield Goal(absolute(f(m, x) - f(m, y)) <= steep * absolute(x - y), [replicas >= 1], "in Delta")
    seen_m, seen_n = reals("p q")
    yield Goal(
        f(m, x) >= f(n, y) - 4 * replicas * eps,
        [
            replicas >= 1,
            eps >= 0,
            absolute(m - seen_m) <= 2 * eps,
            absolute(n - seen_n) <= 2 * eps,
            f(seen_m, x) >= f(seen_n, y),
        ],
        "stale loads",
    )


def _t4_program() -> Iterator[Program]:
    replicas, m, x, rise, eps = (Real(name) for name in ("G", "m", "x", "d", "eps"))

    def run() -> Obligations:
        low, high = score(replicas, m, x), score(replicas, m + rise, x)
        yield "monotone in m", low <= high
        yield "Lipschitz in m", high - low <= replicas * rise
        longer = score(replicas, m, x + rise)
        yield "rises at most 1", longer - low <= rise
        yield "falls at most G-1", longer - low >= -(replicas - 1) * rise

    def stale() -> Obligations:
        n, seen_m, seen_n, y = (Real(name) for name in ("n", "p", "q", "y"))
        if score(replicas, seen_m, x) >= score(replicas, seen_n, y):
            best = score(replicas, n, y)
            yield "regret", score(replicas, m, x) >= best - 4 * replicas * eps

    off = [Real(a) - Real(b) for a, b in (("m", "p"), ("n", "q"))]
    near = [bound for d in off for bound in (d <= 2 * eps, d >= -2 * eps)]
    yield Program(run, [replicas >= 1, rise >= 0], "Lipschitz")
    yield Program(stale, [replicas >= 1, eps >= 0, *near], "stale loads")


T4 = Statement(
    id="T4",
    title="Monotone, Lipschitz, and the price of stale loads",
    claim="F does not fall as the margin grows, is G-Lipschitz in m and max(1, G-1)-Lipschitz in "
    "Delta; deciding on loads wrong by at most eps costs at most 4 G eps.",
    latex=r"0 \le F_{m'}(x)-F_m(x) \le G(m'-m);\quad \text{regret} \le 4 G \varepsilon",
    hypotheses=("G >= 1", "loads off by eps make margins off by at most 2 eps"),
    source=LIST,
    about=SCORE,
    layers=(
        smt(EVERY_REAL, _t4_goals),
        execution(EVERY_REAL, _t4_program, general=True),
    ),
)


def _t30_goals() -> Iterator[Goal]:
    replicas, margin, delta = reals("G m x")
    over = positive_part_of(delta - margin)
    limit = z3.RealVal(EXACT_FLOAT)
    yield Goal(
        z3.And(
            *[absolute(v) <= limit for v in (delta - margin, over, replicas * over)],
            absolute(delta - replicas * over) <= limit,
        ),
        [replicas >= 1, replicas <= 1024, *_within(margin), *_within(delta)],
        "every intermediate value",
    )


def _within(tokens: Any) -> Iterable[Any]:
    return (tokens >= 0, tokens <= 2**40)


def _t30_holds(replicas: int, margin: int, delta: int) -> bool:
    exact = score(replicas, margin, delta)
    return bool(Fraction(score(float(replicas), float(margin), float(delta))) == exact)


T30 = Statement(
    id="T30",
    title="float64 is exact for the score",
    claim="For integers G <= 1024 and m, Delta <= 2^40 tokens every intermediate value of F stays "
    "within 2^53, so float64 computes F exactly.",
    latex=r"G \le 2^{10},\ m, x \le 2^{40} \Rightarrow \mathrm{fl}(F) = F",
    hypotheses=("integers", "IEEE 754 binary64: integers up to 2^53 are exact"),
    source=LIST,
    about=SCORE,
    layers=(
        smt("all G, m, Delta within the limits", _t30_goals),
        sampled(
            "integers within the limits, the limits themselves included",
            st.tuples(
                st.integers(1, 1024) | st.just(1024),
                st.integers(0, 2**40) | st.sampled_from([0, 2**40]),
                st.integers(0, 2**40) | st.sampled_from([0, 2**40 - 1, 2**40]),
            ),
            _t30_holds,
        ),
    ),
)


STATEMENTS = (T2, T3, T4, T30)
