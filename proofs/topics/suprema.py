"""T35: exact suprema over all real prompts, from the paths of the product's own tick.

From empty replicas, the peak load after a tick over the least peak any admission of the same
requests could have. On each path of the tick the loads are linear in the prompts, so the largest
ratio is a linear program; the ratios below are its exact values, shown on every path, and each
has an instance that attains it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from brtheory.core.imbalance import peak
from brtheory.routers.reference import BalanceRoute
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, either, named
from proofs.layers.search import exhaustive
from proofs.product import LIST, added, product_tick, sane
from proofs.specification import Rule
from proofs.statement import Statement


@dataclass(frozen=True, slots=True)
class Supremum:
    """The worst ratio of a variant of the tick on G replicas, and prompts that show it.

    Parameters
    ----------
    rule, replicas, ratio
        The variant, G and the exact supremum.
    witness
        Prompts that attain it, or
    vanishing
        if True, that approach it as all but the last grow: the supremum is not attained.
    """

    rule: Rule
    replicas: int
    ratio: Fraction
    witness: tuple[int, ...]
    vanishing: bool = False

    @property
    def slots(self) -> tuple[int, ...]:
        """Enough for every request on every replica."""
        return (len(self.witness),) * self.replicas


def _variants(greedy: int) -> list[Rule]:
    return [Rule(greedy=greedy, margin_first=first) for first in (False, True)]


SCORED, SETS = _variants(0), _variants(99)
LONGEST = [Rule(greedy=0, margin_first=first, longest=True) for first in (False, True)]

# Stage 1 by score and stage 2 meet an even split first, then the long prompt: 3/2.
THREE = (
    *[Supremum(rule, 2, Fraction(3, 2), (1, 1, 2)) for rule in (*SCORED, *SETS)],
    *[Supremum(rule, 2, Fraction(1), (2, 1, 1)) for rule in LONGEST],
)
# Longest first in rounds of equal slots puts the fourth beside the longest; margin first does not.
FOUR = (
    *[Supremum(rule, 2, Fraction(3, 2), (1, 1, 2, 1), vanishing=True) for rule in (*SCORED, *SETS)],
    Supremum(LONGEST[0], 2, Fraction(4, 3), (3, 1, 1, 1)),
    Supremum(LONGEST[1], 2, Fraction(1), (2, 1, 1, 2)),
)
# With as many replicas as requests every variant is best; one more request is T35 again.
THREE_ON_THREE = tuple(
    Supremum(rule, 3, Fraction(1), (1, 1, 1)) for rule in (*SCORED, *SETS, *LONGEST)
)
FOUR_ON_THREE = (
    *[Supremum(rule, 3, Fraction(3, 2), (1, 1, 1, 2)) for rule in (*SCORED, *SETS)],
    *[Supremum(rule, 3, Fraction(1), (2, 1, 1, 1)) for rule in LONGEST],
)
FOUR_ON_FOUR = tuple(
    Supremum(rule, 4, Fraction(1), (1, 1, 1, 1)) for rule in (*SCORED, *SETS, *LONGEST)
)
FIVE_ON_FOUR = (Supremum(LONGEST[0], 4, Fraction(1), (2, 1, 1, 1, 1)),)
# Attained; that nothing exceeds it is N15's proof, not shown on every path of the product here.
AT_LEAST = tuple(Supremum(rule, 4, Fraction(3, 2), (1, 1, 1, 1, 2)) for rule in (*SCORED, *SETS))
ALL = (*THREE, *FOUR, *THREE_ON_THREE, *FOUR_ON_THREE, *FOUR_ON_FOUR, *FIVE_ON_FOUR)


def ratio_programs(cases: Sequence[Supremum], *, strict: bool = False) -> Iterator[Program]:
    """Programs that show that no prompts exceed the ratio, or that none reach it."""
    for case in cases:
        sizes = named("s", len(case.witness))

        def run(sizes: Any = sizes, case: Supremum = case) -> Obligations:
            loads = loads_after(case, sizes)
            highest = peak(loads)
            for other in _splits(sizes, case.replicas):
                # The least peak is some split's: the ratio holds against every split, that is
                # against one of its loads. Said so, the comparison takes no branch.
                limits = [case.ratio * load for load in other if isinstance(load, Real)]
                within = [highest < m if strict else highest <= m for m in limits]
                yield "ratio", either(*within)

        yield Program(run, sane((), sizes), f"{case.rule}, {len(case.witness)} requests")


def loads_after(case: Supremum, sizes: Sequence[Any]) -> list[Any]:
    """Loads after the tick, from empty."""
    loads: list[Any] = [0] * case.replicas
    for a in product_tick(loads, case.slots, sizes, rule=case.rule):
        loads = added(loads, a.replica, sizes[a.id])
    return loads


def peak_ratio(case: Supremum, sizes: Sequence[int]) -> Fraction:
    """Peak load after the tick over the least peak of any split of these prompts."""
    loads = loads_after(case, sizes)
    return Fraction(peak(loads), _least_peak(tuple(sizes), case.replicas))


@cache
def _least_peak(sizes: tuple[int, ...], replicas: int) -> int:
    return min(peak(loads) for loads in _splits(sizes, replicas))


def _splits(sizes: Sequence[Any], replicas: int) -> Iterator[list[Any]]:
    """Loads of every split over empty replicas, each once up to the replicas' names."""
    for split in product(range(replicas), repeat=len(sizes)):
        if all(g <= len({*split[:i]}) for i, g in enumerate(split)):
            loads: list[Any] = [0] * replicas
            for size, replica in zip(sizes, split, strict=True):
                loads = added(loads, replica, size)
            yield loads


def _shown(case: Supremum) -> bool:
    """Whether the witness attains the ratio, or its scaled versions come within 1/scale of it."""
    if not case.vanishing:
        return peak_ratio(case, case.witness) == case.ratio
    *grown, last = case.witness
    scales = (10, 100, 1000)
    return all(
        case.ratio - peak_ratio(case, (*[scale * size for size in grown], last))
        <= Fraction(1, scale)
        for scale in scales
    )


T35 = Statement(
    id="T35",
    title="Exact suprema of one tick from empty",
    claim="From two empty replicas and with 3 or 4 requests, the worst peak ratio of a tick is "
    "exactly 3/2 for stage 1 by score and for stage 2, with either key; with longest-first "
    "stage 1 it is 1 for 3 requests, and for 4 it is 4/3 slots first and 1 margin first. From "
    "three empty replicas it is 1 for 3 requests, and for 4 it is 3/2, 3/2 and 1. From four it is "
    "1 for 4 requests, and for 5 it is 3/2 by score and in sets (not more: N15), 1 longest first.",
    latex=r"\sup_{s \in \mathbb R_{\ge 1}^n} \max_g L_g / \min_{\text{splits}} \max_g L_g",
    hypotheses=("slots do not bind", "empty replicas"),
    source=LIST,
    about=(BalanceRoute, peak),
    layers=(
        execution("G = 2, 3 requests, every path, all real prompts", lambda: ratio_programs(THREE)),
        execution(
            "G = 2, 3, 4, 3 to 5 requests, every path, all real prompts",
            lambda: ratio_programs(ALL),
            general=True,
            quick=False,
        ),
        exhaustive(
            "the ratios are attained or approached, on the product",
            lambda: ((case,) for case in (*ALL, *AT_LEAST)),
            _shown,
        ),
    ),
)

STATEMENTS = (T35,)
