"""R13, R14: what the reported figures do not show.

The figures are those of the summary's tables, in its own units.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import sympy as sp

from brtheory.analysis.extremes import (
    expected_max_exponential,
    expected_max_normal,
    expected_max_uniform,
)
from proofs.layers.search import replayed
from proofs.layers.symbolic import Obligation, nonnegative, symbolic, zero
from proofs.statement import Statement, Verdict
from proofs.topics.refuted_score import CLAIMS

REPLICAS = (4, 8, 16)
JSQ_IMBALANCE = (75_326, 215_110, 675_607)
"""Reported mean imbalance of JSQ in tokens at G = 4, 8, 16."""

THROUGHPUT = {
    "proprietary": {
        "random": 811,
        "round-robin": 847,
        "p2c": 836,
        "jsq": 843,
        "br0": 943,
        "brh-survival": 979,
        "brh-exact-match": 977,
        "brh-oracle": 1029,
    },
    "azure-2024": {
        "random": 706,
        "round-robin": 771,
        "p2c": 794,
        "jsq": 785,
        "br0": 854,
        "brh-survival": 893,
        "brh-exact-match": 909,
        "brh-oracle": 957,
    },
}
"""Reported tokens per second."""
BASELINES = ("random", "round-robin", "p2c", "jsq")
GAINS = {
    ("proprietary", "br0"): Fraction("11.8"),
    ("azure-2024", "br0"): Fraction("8.8"),
    ("azure-2024", "brh-survival"): Fraction("13.8"),
    ("azure-2024", "brh-exact-match"): Fraction("15.8"),
    ("azure-2024", "brh-oracle"): Fraction("21.9"),
}
"""Reported gains in percent, said to be 'over the best baseline'."""


def excess_growth(law: str) -> list[Fraction]:
    """I(2G)/I(G) at G = 4, 8 where I = G*(E max - mean) of G iid loads of a light-tailed law."""
    laws: dict[str, Callable[[int], Fraction]] = {
        "exponential": lambda g: expected_max_exponential(g) - 1,
        "uniform": lambda g: expected_max_uniform(g) - Fraction(1, 2),
        "normal": lambda g: Fraction(expected_max_normal(g)),
    }
    waste = [g * laws[law](g) for g in REPLICAS]
    return [waste[1] / waste[0], waste[2] / waste[1]]


def _r13_holds(law: str) -> bool:
    """Whether the law's growth rises from one doubling to the next, as the reported one does."""
    reported = [Fraction(JSQ_IMBALANCE[i + 1], JSQ_IMBALANCE[i]) for i in (0, 1)]
    theory = excess_growth(law)
    return reported[1] > reported[0] and theory[1] >= theory[0]


def _r13_regions() -> Iterator[Obligation]:
    laws: dict[str, Callable[[int], Any]] = {
        "exponential": lambda g: sp.harmonic(g) - 1,
        "uniform": lambda g: sp.Rational(g, g + 1) - sp.Rational(1, 2),
    }
    for name, excess in laws.items():
        waste = [g * excess(g) for g in REPLICAS]
        yield nonnegative(name, waste[2] / waste[1] - waste[1] / waste[0])


R13 = Statement(
    id="R13",
    title="The growth with G does not match the theory of light tails",
    claim="False: the reported growth of the imbalance from G = 4 to 16 (ratios 2.86, then 3.14) "
    "is that of iid light-tailed loads. (Their ratios fall from one doubling to the next.)",
    latex=r"I(16)/I(8) \ge I(8)/I(4)",
    source=CLAIMS,
    about=(expected_max_exponential, expected_max_uniform, expected_max_normal),
    expected=Verdict.REFUTED,
    layers=(
        symbolic("exact values, exponential and uniform", _r13_regions),
        replayed("the product, normal loads", _r13_holds, case=("normal",)),
        replayed("the product, exponential loads", _r13_holds, case=("exponential",)),
        replayed("the product, uniform loads", _r13_holds, case=("uniform",)),
    ),
)


def gain_over(baseline: Any, *, data: str, router: str) -> Fraction:
    """Reported gain in throughput in percent."""
    return Fraction(100 * (THROUGHPUT[data][router] - baseline), baseline)


def _r14_holds(data: str) -> bool:
    """Whether every reported gain is, to its last digit, one over the best baseline."""
    best = max(THROUGHPUT[data][name] for name in BASELINES)
    return all(
        abs(gain_over(best, data=data, router=router) - said) < Fraction(1, 10)
        for (where, router), said in GAINS.items()
        if where == data
    )


def _r14_regions() -> Iterator[Obligation]:
    for (data, router), said in GAINS.items():
        speeds = THROUGHPUT[data]
        best = max(speeds[name] for name in BASELINES)
        claimed = sp.Rational(said.numerator, said.denominator)
        gain = sp.Rational(100 * (speeds[router] - best), best)
        yield zero(f"{data}, {router}", (gain - claimed).round(1))


R14 = Statement(
    id="R14",
    title="The gains are not over the best baseline",
    claim="False: the reported gains in throughput are over the best baseline. (They are over "
    "JSQ; over the best they are 11.3, 7.6, 12.5, 14.5 and 20.5 %.)",
    latex=r"\text{gain} = 100\,(\mathrm{BR}/\max_b b - 1)",
    source=CLAIMS,
    expected=Verdict.REFUTED,
    layers=(
        symbolic("the reported tables", _r14_regions),
        replayed("proprietary data: round-robin is best", _r14_holds, case=("proprietary",)),
        replayed("Azure 2024: power of two is best", _r14_holds, case=("azure-2024",)),
    ),
)

STATEMENTS = (R13, R14)
