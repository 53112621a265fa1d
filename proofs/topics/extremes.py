"""T36, T37: how large the largest of G loads is, exactly and without independence."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import comb

import sympy as sp

from brtheory.analysis.extremes import (
    expected_max_exponential,
    expected_max_normal,
    expected_max_sample,
    expected_max_uniform,
    log_bound_max_normal,
)
from proofs.formulas import larger, reals
from proofs.layers.kernel import kernel
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, positive, symbolic, zero
from proofs.product import LIST
from proofs.statement import Statement


def _t36_regions() -> Iterator[Obligation]:
    count = sp.Symbol("G", positive=True, integer=True)
    u = sp.Symbol("u", positive=True)
    # Exponential: with u = 1 - exp(-x), E max = int_0^1 (1 - u^G)/(1 - u) du; one more replica
    # adds int_0^1 u^G du.
    gain = sp.integrate(u**count, (u, 0, 1))
    yield zero("exponential: E max grows by 1/(G+1)", gain - 1 / (count + 1))
    first = sp.integrate(u * sp.exp(-u), (u, 0, sp.oo))
    yield zero("exponential: one replica, H_1 = 1", first - 1)
    mean = sp.integrate(u * count * u ** (count - 1), (u, 0, 1))
    yield zero("uniform: E max = G/(G+1)", mean - count / (count + 1))
    yield zero("uniform: idle share", 1 - sp.Rational(1, 2) / mean - (count - 1) / (2 * count))


def _t36_direct() -> Iterator[Obligation]:
    x = sp.Symbol("x", positive=True)
    for replicas in range(1, 6):
        tail = sp.expand(1 - (1 - sp.exp(-x)) ** replicas)
        yield zero(f"G = {replicas}", sp.integrate(tail, (x, 0, sp.oo)) - sp.harmonic(replicas))


def _t36_holds(replicas: int) -> bool:
    # Inclusion-exclusion: E max = sum_j C(G, j) (-1)^(j+1) / j.
    expected = sum(Fraction((-1) ** (j + 1) * comb(replicas, j), j) for j in range(1, replicas + 1))
    uniform = expected_max_uniform(replicas)
    return (
        expected_max_exponential(replicas) == expected
        and uniform == Fraction(replicas, replicas + 1)
        and 1 - Fraction(1, 2) / uniform == Fraction(replicas - 1, 2 * replicas)
    )


T36 = Statement(
    id="T36",
    title="Expected maxima",
    claim="E max of G iid exponentials is H_G, of G iid uniforms G/(G+1); the idle shares are "
    "1 - 1/H_G and (G-1)/(2G).",
    latex=r"\mathbb E\max = H_G,\ \tfrac{G}{G+1};\quad 1 - 1/H_G,\ \tfrac{G-1}{2G}",
    hypotheses=("independent, mean 1 or on [0, 1]",),
    source=LIST,
    about=(expected_max_exponential, expected_max_uniform),
    layers=(
        symbolic("every G, by induction over the replicas", _t36_regions),
        symbolic("direct integration, G = 1..5", _t36_direct, general=False),
        exhaustive(
            "the product's exact fractions, G = 1..60",
            lambda: ((g,) for g in range(1, 61)),
            _t36_holds,
        ),
        kernel(
            "every G, from the integrals of tail and density",
            "Extremes.primitive_is_one",
            "Extremes.tail_is_geometric",
            "Extremes.exponential_maximum",
            "Extremes.weighted_density_is",
            "Extremes.uniform_maximum",
            "Extremes.exponential_idle",
            "Extremes.uniform_idle",
        ),
    ),
)


def _t37_regions() -> Iterator[Obligation]:
    y, at, gap = sp.symbols("y c d", positive=True)
    # ln lies below its tangent at c, so E ln Y <= ln c + (E Y - c)/c <= ln c once E Y <= c.
    excess = sp.log(at) + (y - at) / at - sp.log(y)
    yield zero("tangent touches at c", excess.subs(y, at))
    slope = sp.diff(excess, y)
    yield positive("and lies above to the right", sp.factor(slope.subs(y, at + gap)))
    below = sp.factor(sp.simplify(-slope.subs(at, y + gap)))
    yield positive("and to the left", below)
    sigma, log_count, t = sp.symbols("sigma l t", positive=True)
    bound = log_count / t + sigma**2 * t / 2
    best = sp.sqrt(2 * log_count) / sigma
    yield zero("the bound at its best t", bound.subs(t, best) - sigma * sp.sqrt(2 * log_count))
    rest = bound - sigma * sp.sqrt(2 * log_count)
    square = (sp.sqrt(log_count / t) - sigma * sp.sqrt(t / 2)) ** 2
    yield zero("and elsewhere it exceeds that by a square", sp.simplify(sp.expand(rest - square)))


def _t37_goals() -> Iterator[Goal]:
    # Pointwise union bound: with e_i = exp(t x_i) > 0 the largest is at most their sum.
    highest, total_, one_more = reals("m s e")
    yield Goal(
        larger(highest, one_more) <= total_ + one_more,
        [highest <= total_, highest > 0, one_more > 0],
        "union bound: one more replica",
    )
    # Expectation of the sum: each term has mean at most b, dependence does not matter.
    mean, count, bound, term = reals("E k b f")
    yield Goal(
        mean + term <= (count + 1) * bound, [mean <= count * bound, term <= bound], "means add up"
    )


def _t37_normal(replicas: int) -> bool:
    return expected_max_normal(replicas) <= log_bound_max_normal(replicas)


def _t37_signs(values: tuple[int, ...]) -> bool:
    """Fair signs are 1-sub-Gaussian; G dependent ones, each a product of a few fair coins."""
    coins = 3
    outcomes = list(product((-1, 1), repeat=coins))
    maxima = []
    for outcome in outcomes:
        signs = []
        for mask in values:
            sign = 1
            for bit in range(coins):
                if mask >> bit & 1:
                    sign *= outcome[bit]
            signs.append(sign)
        maxima.append(max(signs))
    mean = Fraction(sum(maxima), len(outcomes))
    return float(mean) <= log_bound_max_normal(len(values))


T37 = Statement(
    id="T37",
    title="Sub-Gaussian maxima without independence",
    claim="If each of G loads is sub-Gaussian about a common mean with parameter sigma, the "
    "expected maximum exceeds the mean by at most sigma sqrt(2 ln G), dependent or not.",
    latex=r"\mathbb E \max_g (L_g - \mu) \le \sigma\sqrt{2 \ln G}",
    hypotheses=("E exp(t (L_g - mu)) <= exp(sigma^2 t^2 / 2) for all t > 0", "G >= 2"),
    source=LIST,
    about=(log_bound_max_normal, expected_max_normal),
    layers=(
        symbolic("every sigma and G: Jensen's tangent and the best t", _t37_regions),
        smt("any number of replicas: union bound and means", _t37_goals),
        exhaustive(
            "standard normals, G = 2..400", lambda: ((g,) for g in range(2, 401)), _t37_normal
        ),
        exhaustive(
            "dependent signs, G = 2, 3, 4",
            lambda: ((v,) for n in (2, 3, 4) for v in product(range(1, 8), repeat=n)),
            _t37_signs,
        ),
    ),
)


def _n4_regions() -> Iterator[Obligation]:
    # E max of G = const + int (1 - F^G), so differences in G act on 1 - F^G at each point, with
    # F = a/(a + b) strictly between 0 and 1; where F is 0 or 1 every difference vanishes.
    a, b = sp.symbols("a b", positive=True)
    count = sp.Symbol("G", positive=True, integer=True)
    chance, rest = a / (a + b), b / (a + b)
    tail = [1 - chance**count * chance**step for step in (0, 1, 2)]
    rise = sp.factor(sp.simplify((tail[1] - tail[0]) / chance**count))
    yield positive("the difference, over F^G > 0", rise)
    yield zero("it is 1 - F", sp.simplify(rise - rest))
    bend = sp.factor(sp.simplify((2 * tail[1] - tail[0] - tail[2]) / chance**count))
    yield positive("minus the second difference, over F^G > 0", bend)
    yield zero("it is (1 - F)^2", sp.simplify(bend - rest**2))


def _n4_goals() -> Iterator[Goal]:
    power, chance, rise, rest = reals("p F q r")
    yield Goal(
        power * rest >= 0, [power >= 0, rest >= 0], "p = F^G times r = 1 - F: the difference"
    )
    yield Goal(rise * rest >= 0, [rise >= 0, rest >= 0], "and once more: minus the second one")
    bend = power - 2 * (power * chance) + power * chance * chance
    yield Goal(bend == power * (1 - chance) * (1 - chance), (), "which is that second difference")


def _n4_holds(law: str, count: int) -> bool:
    values = {
        "exponential": expected_max_exponential,
        "uniform": expected_max_uniform,
    }[law]
    low, middle, high = (values(g) for g in (count, count + 1, count + 2))
    return low <= middle <= high and middle - low >= high - middle


def _n4_sample(*sample: int) -> bool:
    # The product sums in float64: allow its rounding, nothing else.
    values = [expected_max_sample(list(sample), g) for g in range(1, 8)]
    steps = [after - before for before, after in pairwise(values)]
    return min(steps) >= -1e-9 and all(a >= b - 1e-9 for a, b in pairwise(steps))


N4 = Statement(
    id="N4",
    title="Idle time per replica grows with G, ever more slowly",
    claim="For G iid loads of any law with a finite mean, E[I_G]/G = E max - mean is "
    "nondecreasing and concave in G.",
    latex=r"0 \le e_{G+2}-e_{G+1} \le e_{G+1}-e_G,\quad e_G = \mathbb E[I_G]/G",
    hypotheses=("iid loads with a finite mean", "E max_G = c + int (1 - F^G)"),
    source="this project; an open target of exact-and-proofs, section 1",
    about=(expected_max_exponential, expected_max_uniform, expected_max_sample),
    layers=(
        symbolic("every law, every G: the integrand", _n4_regions),
        smt("every value of the distribution function", _n4_goals),
        exhaustive(
            "the product's exact values, two laws, G = 1..60",
            lambda: product(("exponential", "uniform"), range(1, 61)),
            _n4_holds,
        ),
        exhaustive(
            "the product's empirical laws, samples of 1 to 4 values 0..5, G = 1..7",
            lambda: (s for n in (1, 2, 3, 4) for s in product(range(6), repeat=n)),
            _n4_sample,
        ),
    ),
)

STATEMENTS = (T36, T37, N4)
