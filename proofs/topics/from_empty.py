"""N15, N18, R22: worst peak ratios of one tick from empty replicas, for every G.

T35 finds exact suprema for small G and few requests on every path of the product. Here they follow
for every G from what a tick does: where a request or a set goes, and that a set gains.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import z3

from brtheory.core.imbalance import peak
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import larger, reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real
from proofs.layers.search import exhaustive, replayed, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.specification import Rule
from proofs.statement import Statement, Verdict
from proofs.topics.suprema import Supremum, loads_after, peak_ratio, ratio_programs

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


def _n18_goals() -> Iterator[Goal]:
    count, top, low, placed, delta, best = reals("G M L W x B")
    overflow = larger(z3.RealVal(0), delta - (top - low))
    # W: tokens placed so far, G*L <= W for a least load; B: the best split's peak.
    least_loaded = [
        count >= 2,
        delta > 0,
        top >= low,
        count * low <= placed,
        count * top <= placed + (count - 1) * best,
    ]
    after = placed + delta + (count - 1) * best
    yield Goal(
        count * larger(top, low + delta) <= after,
        [*least_loaded, delta <= best],
        "one request on a least-loaded replica: no prompt is above the best split's peak",
    )
    yield Goal(
        count * larger(top, low + delta) <= after,
        [*least_loaded, delta - count * overflow > 0],
        "a set that gains, of any size: it overflows by less than x/G",
    )
    yield Goal(
        count * top <= (2 * count - 1) * best,
        [count >= 2, count * top <= placed + (count - 1) * best, placed <= count * best],
        "in the end no more is placed than the best split carries: 2 - 1/G",
    )


def graham(replicas: int) -> Fraction:
    """2 - 1/G."""
    return 2 - Fraction(1, replicas)


def _within(rule: Rule, replicas: int, sizes: tuple[int, ...]) -> bool:
    """Whether the tick's peak is at most 2 - 1/G times the best split's."""
    case = Supremum(rule, replicas, graham(replicas), sizes)
    return peak_ratio(case, sizes) <= case.ratio


def _margin_first_rules(slots: int) -> list[Rule]:
    return [rule for rule in _rules((0, slots, slots // 2)) if rule.margin_first]


def _n18_cases() -> Iterator[tuple[Any, ...]]:
    for replicas, requests, prompts in ((2, 4, (1, 2, 3, 5)), (2, 5, (1, 3, 9)), (3, 5, (1, 2, 5))):
        for rule in _margin_first_rules(replicas * requests):
            for sizes in product(prompts, repeat=requests):
                yield rule, replicas, sizes


def _graham_cases() -> Iterator[tuple[Any, ...]]:
    for replicas in range(2, 8):
        for first, greedy in product(BOTH_KEYS, (0, 10**6)):
            yield Rule(greedy=greedy, margin_first=first), replicas


def _graham_attained(rule: Rule, replicas: int) -> bool:
    """G (G-1) requests of 1 token, then one of G: G - 1 below it, where G on each would do."""
    sizes = (*[1] * (replicas * (replicas - 1)), replicas)
    even = [[1] * replicas] * (replicas - 1) + [[replicas]]
    case = Supremum(rule, replicas, graham(replicas), sizes)
    return Fraction(peak(loads_after(case, sizes)), max(map(sum, even))) == case.ratio


N18 = Statement(
    id="N18",
    title="Margin first, one tick from empty keeps Graham's bound",
    claim="From G >= 2 empty replicas, with any number of requests, BR-0's tick with the "
    "margin-first key peaks at most 2 - 1/G times the least of any split, in sets too, whatever "
    "the threshold, R_max and stage-1 rule; G (G - 1) requests of one token before one of G attain "
    "it by score.",
    latex=r"\sup_{n,\, s \in \mathbb R_{>0}^n} \max_g L_g / \min_{\text{splits}} \max_g L_g "
    r"= 2 - \tfrac1G",
    hypotheses=(
        "slots do not bind",
        "the tick is the specified one, T28",
    ),
    source="this project; Graham's bound for list scheduling, with sets",
    about=(BalanceRoute, peak),
    layers=(
        smt("every real G, any number of requests and sets, by induction", _n18_goals),
        execution(
            "the product's tick, G = 2, 3 requests, every path, all real prompts",
            lambda: ratio_programs(
                [Supremum(rule, 2, graham(2), (1, 1, 2)) for rule in _margin_first_rules(6)]
            ),
        ),
        exhaustive("the product's tick, G = 2, 3, up to 5 requests", _n18_cases, _within),
        exhaustive("the product's tick attains it, G = 2..7", _graham_cases, _graham_attained),
    ),
)


SLOTS_FIRST = Rule(greedy=99)
"""Stage 2 alone."""


def _by_sum_cases() -> Iterator[tuple[Any, ...]]:
    for sizes in sorted(product((1, 3, 5, 9), repeat=6), key=sum):
        yield SLOTS_FIRST, 2, sizes


def _long_prompt_programs() -> Iterator[Program]:
    long = Real("s")

    def run() -> Obligations:
        sizes = (long, 3, 5, long, 1, 1)
        case = Supremum(SLOTS_FIRST, 2, graham(2), (9, 3, 5, 9, 1, 1))
        highest = peak(loads_after(case, sizes))
        yield "2 - 1/G", 2 * highest <= 3 * (long + 5)

    yield Program(run, [long >= 8, long <= 10], "two requests of about 9")


def _beside_a_split(sizes: tuple[int, ...], split: tuple[tuple[int, ...], ...]) -> bool:
    """Whether the tick's peak is at most 2 - 1/G times that of this split of the same prompts."""
    case = Supremum(SLOTS_FIRST, len(split), graham(len(split)), sizes)
    same = sorted(sizes) == sorted(size for part in split for size in part)
    return not same or peak(loads_after(case, sizes)) <= case.ratio * max(map(sum, split))


R22 = Statement(
    id="R22",
    title="Slots first keeps that bound",
    claim="False: with the slots-first key, too, and in sets (S_greedy above all slots), BR-0's "
    "tick from G empty replicas peaks at most 2 - 1/G times the least of any split. (N18 is of "
    "margin first.)",
    latex=r"\max_g L_g \le (2 - 1/G) \min_{\text{splits}} \max_g L_g",
    source="this project; N18 with the other key",
    about=(BalanceRoute, peak),
    expected=Verdict.REFUTED,
    layers=(
        # A replica that takes a set of small requests has fewer slots, so the others take the long
        # ones that follow, however loaded they are.
        smallest_counterexample(
            "G = 2, six requests of 1, 3, 5 or 9 tokens, by sum",
            _by_sum_cases,
            _within,
            expected=(SLOTS_FIRST, 2, (3, 5, 5, 9, 1, 1)),
        ),
        execution("G = 2, six requests, two of 8 to 10 tokens", _long_prompt_programs),
        replayed(
            "G = 4, eleven requests: 49 against 22, above 2",
            _beside_a_split,
            case=(
                (10, 1, 19, 19, 1, 11, 1, 1, 2, 1, 20),
                ((20, 2), (19, 1, 1, 1), (19, 1, 1), (11, 10)),
            ),
        ),
    ),
)

STATEMENTS = (N15, N18, R22)
