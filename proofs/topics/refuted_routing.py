"""R10 - R12, R19: claims about the guard, stage 2, look-ahead and sets that are false."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import z3

from brtheory.core.imbalance import imbalance
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import (
    imbalance_of,
    larger,
    largest,
    reals,
    score_of,
    vector,
    with_added,
)
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import named
from proofs.layers.search import by_sum, replayed, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, added, product_tick, sane
from proofs.specification import Rule
from proofs.statement import Statement, Verdict
from proofs.topics.refuted_score import CLAIMS, REALS
from proofs.topics.worst_cases import DETERMINISTIC, ROUTERS, placed_at_once


def _r10_programs() -> Iterator[Program]:
    big, small = named("s", 2)
    sizes = [big, small, small]

    def run() -> Obligations:
        admissions = product_tick([0, 0], (1, 1), sizes, rule=Rule(greedy=2))
        yield "the oldest request leaves the pool", 0 in [a.id for a in admissions]

    yield Program(run, [*sane((), [big, small]), big > 2 * small], "one slot each, from empty")


def _r10_holds(ticks: int) -> bool:
    """Whether the 1000 leaves: each tick two fresh 50s, one slot each, one-step requests."""
    pool = [Request(id=0, prompt_tokens=1000)]
    router = BalanceRoute(BalanceRouteParams())
    for tick in range(ticks):
        fresh = [Request(id=1 + 2 * tick + i, prompt_tokens=50) for i in (0, 1)]
        pool += fresh
        admitted = {a.id for a in router.tick(TickState([[0], [0]], [1, 1], pool))}
        pool = [request for request in pool if request.id not in admitted]
        # The pool is again the 1000 alone, so the same tick repeats for ever.
        if [request.id for request in pool] != [0]:
            return True
    return False


R10 = Statement(
    id="R10",
    title="The guard does not prevent stranding",
    claim="False: with the starvation guard every request is dispatched in the end. (The guard "
    "admits someone; an age limit is needed for everyone.)",
    latex=r"\forall i\ \exists k: t_i = k",
    source=CLAIMS,
    about=(BalanceRoute,),
    expected=Verdict.REFUTED,
    layers=(
        execution("one tick, all real sizes: the state that repeats", _r10_programs),
        replayed("as published: capacity 1 each, two fresh 50s a tick", _r10_holds, case=(500,)),
    ),
)


def _first_score(sizes: Sequence[int], *, window: int) -> int:
    """F of the first set stage 2 admits to an empty replica with margin 100, G = 2."""
    rule = Rule(greedy=99, window=window)
    return product_tick([0, 100], (len(sizes), 0), sizes, rule=rule)[0].score or 0


def _r11_window(small: int, large: int) -> bool:
    sizes = [small] * 4 + [large]
    return _first_score(sizes, window=4) >= _first_score(sizes, window=5)


def _r11_joint(loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Replica by replica, margin first, against the best split of the same requests."""
    slots = (len(sizes),) * len(loads)
    now = list(loads)
    for a in product_tick(loads, slots, sizes, rule=Rule(greedy=99, margin_first=True)):
        now = added(now, a.replica, sizes[a.id])
    splits = product(range(len(loads)), repeat=len(sizes))
    best = min(imbalance(_placed(loads, sizes, split)) for split in splits)
    return imbalance(now) <= best


def _placed(loads: Sequence[int], sizes: Sequence[int], split: Sequence[int]) -> list[int]:
    now = list(loads)
    for size, replica in zip(sizes, split, strict=True):
        now = added(now, replica, size)
    return now


def _r11_cases() -> Iterator[tuple[Any, ...]]:
    for case in by_sum(4, low=0, high=6):
        if min(case[2:]) >= 1:
            yield case[:2], case[2:]


def _r11_published(found: int, feasible: int) -> bool:
    loads, sizes, now = (100_000, 99_000), (1500, 501), [100_000, 99_000]
    for a in product_tick(loads, (2, 2), sizes, rule=Rule(greedy=2, margin_first=True)):
        now = added(now, a.replica, sizes[a.id])
    best = imbalance(_placed(loads, sizes, (1, 0)))
    return not (imbalance(now) == found and best == feasible)


def _r11_programs() -> Iterator[Program]:
    loads: Any = named("L", 2)
    sizes: Any = named("s", 2)

    def run() -> Obligations:
        now = list(loads)
        for a in product_tick(now, (2, 2), sizes, rule=Rule(greedy=2, margin_first=True)):
            now = added(now, a.replica, sizes[a.id])
        for split in product((0, 1), repeat=2):
            other = list(loads)
            for size, replica in zip(sizes, split, strict=True):
                other = added(other, replica, size)
            yield f"not beaten by {split}", imbalance(now) <= imbalance(other)

    yield Program(run, sane(loads, sizes), "G = 2, 2 requests, margin first")


R11 = Statement(
    id="R11",
    title="Stage 2 does not find the best admissions",
    claim="False: stage 2 admits the best set. (Not beyond its window, and replica by replica is "
    "not jointly best.)",
    latex=r"Q^\star = \arg\max_Q F(Q)\ \text{over the pool, jointly over replicas}",
    source=CLAIMS,
    about=(BalanceRoute, *IMBALANCE),
    expected=Verdict.REFUTED,
    layers=(
        execution("G = 2, 2 requests, all real loads and prompts, margin first", _r11_programs),
        smallest_counterexample(
            "smallest loads and two requests, margin first",
            _r11_cases,
            _r11_joint,
            expected=((0, 1), (1, 2)),
        ),
        replayed("window: 28 against 100, four 7s before a 100", _r11_window, case=(7, 100)),
        replayed(
            "as published: L = (100000, 99000), sizes 1500, 501: I = 1001 where 1 is feasible",
            _r11_published,
            case=(1001, 1),
        ),
    ),
)


def _r12_goals() -> Iterator[Goal]:
    # The adversary of T32: on one replica G*j requests that stay T steps after the look-ahead e.
    count, stay, early = reals("G T e")
    ours = count * (1 + stay)
    best = z3.If(count * (1 + early) >= 1 + stay, count * (1 + early), 1 + stay)
    yield Goal(
        count * ours <= (2 * count - 1) * best,
        [count == 3, early >= 1, stay >= 1],
        "within 2 - 1/G for G = 3, whatever is seen of the first e steps",
    )


def _r12_holds(index: int, replicas: int, early: int) -> bool:
    """Whether a router of the product stays within 2 - 1/G of an even split."""
    requests = replicas * replicas
    chosen = placed_at_once(ROUTERS[index](), requests, replicas=replicas)
    on_one = max(chosen.count(g) for g in range(replicas))
    stay = (replicas - 1) + replicas * early + 1
    ours = on_one * (1 + early + stay)
    even = max(replicas * (1 + early), 1 + early + stay)
    return replicas * ours <= (2 * replicas - 1) * even


R12 = Statement(
    id="R12",
    title="A short horizon is not nearly optimal in the worst case",
    claim="False: seeing the next H steps perfectly keeps the peak within 2 - 1/G of optimal. "
    "(With growth the ratio is G for every H, T32.)",
    latex=r"\exists H: \max M \le (2 - 1/G) \max M^*",
    source=CLAIMS,
    about=DETERMINISTIC,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r12_goals),
        replayed("JSQ, G = 3, e = 80 steps seen", _r12_holds, case=(0, 3, 80)),
        replayed("least tokens, G = 2, e = 80 steps seen", _r12_holds, case=(1, 2, 80)),
    ),
)


def _r19_goals() -> Iterator[Goal]:
    loads, (first, second) = vector("L", 4), reals("s1 s2")
    margin, both = largest(loads) - loads[0], first + second
    chosen = score_of(4, margin, both)
    waste = imbalance_of(with_added(loads, 0, both))
    longest = larger(first, second)
    yield Goal(
        z3.Or(waste <= imbalance_of(loads) - both, waste <= 3 * longest),
        [
            *[load >= 0 for load in loads],
            *[loads[0] <= load for load in loads[1:]],
            first >= 1,
            second >= 1,
            chosen > 0,
            *[chosen >= score_of(4, margin, single) for single in (first, second)],
        ],
        "G = 4, an F-optimal pair on a least-loaded replica",
    )


def _r19_holds(loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    now, rule = list(loads), Rule(greedy=99, margin_first=True)
    for a in product_tick(loads, (2,) * len(loads), sizes, rule=rule):
        now = added(now, a.replica, sizes[a.id])
    waste = imbalance(now)
    return waste <= imbalance(loads) - sum(sizes) or waste <= (len(loads) - 1) * max(sizes)


def _r19_cases() -> Iterator[tuple[Any, ...]]:
    for heaviest, first, second in by_sum(3, low=1, high=9):
        yield (0, 0, 0, heaviest), (first, second)


R19 = Statement(
    id="R19",
    title="The bound for single requests does not hold for sets",
    claim="False: stage 2 with sets keeps I' <= max(I - X, (G-1) s_max), margin first. (T16' and "
    "N1 say what remains.)",
    latex=r"I' \le \max(I - X, (G-1)s_{\max})",
    source="this project",
    about=(BalanceRoute, *IMBALANCE),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r19_goals),
        smallest_counterexample(
            "smallest load and request pair on G = 4, three replicas empty",
            _r19_cases,
            _r19_holds,
            expected=((0, 0, 0, 7), (4, 4)),
        ),
    ),
)

STATEMENTS = (R10, R11, R12, R19)
