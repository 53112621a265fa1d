"""N15: one more request than empty replicas: for every G the worst peak ratio is 3/2."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import z3

from brtheory.core.imbalance import peak
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import larger, reals
from proofs.layers.execution import execution
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.specification import Rule
from proofs.statement import Statement
from proofs.topics.suprema import Supremum, peak_ratio, ratio_programs

WORST = Fraction(3, 2)
BOTH_KEYS = (False, True)


def _set_goals() -> Iterator[Goal]:
    """While a replica is empty, an empty one is served: margin M, the peak so far."""
    count, top, delta, least, best, excess, in_sets = reals("G M x s B e D")
    overflow = larger(z3.RealVal(0), delta - top)
    without = larger(z3.RealVal(0), delta - least - top)
    yield Goal(
        2 * count * overflow <= delta,
        [
            count > 1,
            top >= 0,
            least > 0,
            2 * least <= delta,
            delta - count * overflow >= delta - least - count * without,
        ],
        "a set of two or more, no worse than itself without its least request, overflows by little",
    )
    # B: the best split's peak, at least every prompt. The peak is at most B + e with 2 G e <= D, D
    # the tokens placed in sets so far; a request alone changes neither.
    over = z3.Real("o")
    yield Goal(
        z3.And(
            top + over <= best + (excess + over), 2 * count * (excess + over) <= in_sets + delta
        ),
        [
            count > 1,
            over >= 0,
            top <= best + excess,
            2 * count * excess <= in_sets,
            2 * count * over <= delta,
        ],
        "overflows add up as the tokens of the sets do",
    )
    yield Goal(
        2 * top <= 3 * best,
        [
            count > 1,
            excess >= 0,
            top <= best + excess,
            2 * count * excess <= in_sets,
            in_sets <= count * best,
        ],
        "with a set no replica is used twice: 3/2",
    )


def _goals() -> Iterator[Goal]:
    yield from _set_goals()
    # One at a time: the last request z joins a, the least of the others, each on its own replica.
    # Any split has two requests on one replica, which are at least a and the lesser of a and z.
    least, last, top, best = reals("a z M B")
    lesser = z3.If(last < least, last, least)
    single = [least > 0, last > 0, top <= best, last <= best, best >= least + lesser]
    yield Goal(2 * larger(top, least + last) <= 3 * best, single, "one at a time: 3/2")
    yield Goal(
        larger(top, least + last) <= best, [*single, last <= least], "longest first: the best"
    )


def _rules(thresholds: Sequence[int]) -> Iterator[Rule]:
    for greedy, first, longest in product(thresholds, BOTH_KEYS, BOTH_KEYS):
        yield Rule(greedy=greedy, margin_first=first, longest=longest)


def _bound(rule: Rule) -> Fraction:
    """Longest first without stage 2 is the best."""
    return Fraction(1) if rule.longest and rule.greedy == 0 else WORST


def _thresholds(replicas: int) -> tuple[int, ...]:
    """Stage 1 alone, stage 2 alone, and a stage 2 that takes the last two requests."""
    slots = replicas * (replicas + 1)
    return 0, slots, slots - (replicas - 1)


def _small_cases() -> Iterator[tuple[Rule, tuple[int, ...]]]:
    for replicas, prompts in ((2, (1, 2, 3, 5)), (3, (1, 2, 4)), (4, (1, 2, 3))):
        for rule in _rules(_thresholds(replicas)):
            for sizes in product(prompts, repeat=replicas + 1):
                yield rule, sizes


def _small_holds(rule: Rule, sizes: tuple[int, ...]) -> bool:
    case = Supremum(rule, len(sizes) - 1, _bound(rule), sizes)
    return peak_ratio(case, sizes) <= case.ratio


def _witnesses() -> Iterator[tuple[Rule, int]]:
    for replicas in range(2, 6):
        for rule in _rules(_thresholds(replicas)):
            if not rule.longest:
                yield rule, replicas


def _attained(rule: Rule, replicas: int) -> bool:
    """G prompts of 1 token and then one of 2: 3 on one replica, where 2 would do."""
    sizes = (*[1] * replicas, 2)
    return peak_ratio(Supremum(rule, replicas, WORST, sizes), sizes) == WORST


N15 = Statement(
    id="N15",
    title="One more request than empty replicas",
    claim="From G >= 2 empty replicas and with G + 1 requests, the peak after BR-0's tick is at "
    "most 3/2 times the least of any split, whatever the key, the threshold and R_max, and G "
    "requests of one token before one of two attain it; longest first without stage 2 is best.",
    latex=r"\sup_{s \in \mathbb R_{>0}^{G+1}} \max_g L_g / \min_{\text{splits}} \max_g L_g "
    r"= \tfrac32",
    hypotheses=(
        "slots do not bind, equal on all replicas",
        "the tick is the specified one, T28: an empty replica first, then a least-loaded one",
    ),
    source="this project; T35 for every G",
    about=(BalanceRoute, peak),
    layers=(
        smt("every real G, any prompts, in sets and one at a time", _goals),
        execution(
            "the product's tick, G = 2, every path, all real prompts, both stages in one tick",
            lambda: ratio_programs(
                [Supremum(rule, 2, WORST, (1, 1, 2)) for rule in _rules(_thresholds(2)[2:])]
            ),
        ),
        exhaustive("the product's tick, G = 2, 3, 4, small prompts", _small_cases, _small_holds),
        exhaustive("the product's tick attains it, G = 2..5", _witnesses, _attained),
    ),
)

STATEMENTS = (N15,)
