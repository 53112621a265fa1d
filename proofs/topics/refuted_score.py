"""R1 - R5: claims about the score that are false, each with its counterexample.

The smt layer states the claim and both solvers refute it over the reals; the search layer replays
the smallest integer counterexample on the product, and where the literature names another one,
that too.
"""

from collections.abc import Iterator
from typing import Any

import z3

from brtheory.core.imbalance import imbalance, margins
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import (
    imbalance_of,
    largest,
    reals,
    score_of,
    total,
    vector,
)
from proofs.layers.search import by_sum, replayed, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, SCORE, added, product_tick, score
from proofs.specification import Rule
from proofs.statement import Statement, Verdict

CLAIMS = "summary of the paper; exact-and-proofs, section 2"
REALS = "over the reals"


def _r1_goals() -> Iterator[Goal]:
    margin, x, y = reals("m x y")
    longer_is_better = score_of(2, margin, x) >= score_of(2, margin, y)
    yield Goal(longer_is_better, [margin >= 0, x > y, y >= 1], "G = 2")


def _r1_holds(replicas: int, margin: int, short: int, longer: int) -> bool | None:
    if longer <= short:
        return None
    return bool(score(replicas, margin, longer) >= score(replicas, margin, short))


def _r1_cases() -> Iterator[tuple[Any, ...]]:
    for case in by_sum(4, low=0, high=6):
        if case[0] >= 2 and case[2] >= 1:
            yield case


R1 = Statement(
    id="R1",
    title="The longest prompt is not always best",
    claim="False: F is largest for the longest prompt. (True only while prompts fit the margin.)",
    latex=r"s_i > s_j \Rightarrow F(s_i) \ge F(s_j)",
    source=CLAIMS,
    about=SCORE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r1_goals),
        smallest_counterexample(
            "smallest G + m + s + s', at the heaviest replica of two",
            _r1_cases,
            _r1_holds,
            expected=(2, 0, 1, 2),
        ),
        replayed("as published: F(2) = -2 > F(3) = -3", _r1_holds, case=(2, 0, 2, 3)),
    ),
)


def _r2_goals() -> Iterator[Goal]:
    margin, x = reals("m x")
    yield Goal(score_of(8, margin, x) < 0, [margin >= 1, x > margin], "G = 8")


def _r2_holds(replicas: int, margin: int, delta: int) -> bool | None:
    return bool(score(replicas, margin, delta) < 0) if delta > margin else None


def _r2_cases() -> Iterator[tuple[Any, ...]]:
    for case in by_sum(3, low=0, high=8):
        if case[0] >= 2:
            yield case


R2 = Statement(
    id="R2",
    title="Just past the margin an admission may still gain",
    claim="False: any overflow makes the imbalance worse at once. (F > 0 up to G m/(G-1), T3.)",
    latex=r"x > m \Rightarrow F(x) < 0",
    source=CLAIMS,
    about=SCORE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r2_goals),
        # Past m = 1 by one token G = 2 breaks even, F(2) = 0: not worse either.
        smallest_counterexample("smallest G + m + Delta", _r2_cases, _r2_holds, expected=(2, 1, 2)),
        replayed("as published: G = 8, m = 100, F(101) = 93", _r2_holds, case=(8, 100, 101)),
    ),
)


def _r3_goals() -> Iterator[Goal]:
    loads = vector("L", 3)
    some = z3.Or(*[largest(loads) - load > 0 for load in loads])
    yield Goal(some, [load >= 0 for load in loads], "G = 3, however many slots are free")


def _r3_holds(loads: tuple[int, ...], slots: int) -> bool | None:
    """With abundant free slots some replica has room below the peak."""
    return any(margin > 0 for margin in margins(loads)) if slots > 0 else None


R3 = Statement(
    id="R3",
    title="Free slots are not a safe zone",
    claim="False: with many free slots some replica is in its safe zone. (Equal loads: every "
    "margin is 0.)",
    latex=r"S_{\mathrm{tot}} > S_{\mathrm{greedy}} \Rightarrow \exists g: m_g > 0",
    source=CLAIMS,
    about=IMBALANCE,
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r3_goals),
        smallest_counterexample(
            "smallest loads of two replicas, 1000 free slots each",
            lambda: ((loads, 1000) for loads in by_sum(2, low=0, high=3)),
            _r3_holds,
            expected=((0, 0), 1000),
        ),
    ),
)


def _final_imbalance(loads: Any, slots: Any, sizes: Any, *, margin_first: bool) -> int:
    now = list(loads)
    rule = Rule(greedy=len(now), margin_first=margin_first)
    for a in product_tick(now, slots, sizes, rule=rule):
        now = added(now, a.replica, sizes[a.id])
    return imbalance(now)


def _r4_goals() -> Iterator[Goal]:
    m1, m2, x = reals("m1 m2 x")
    c1, c2 = z3.Ints("c1 c2")
    yield Goal(
        score_of(2, m1, x) >= score_of(2, m2, x),
        [c1 > c2, c2 >= 1, x >= 1, m1 >= 0, m2 >= 0, z3.Or(m1 == 0, m2 == 0)],
        "more slots, at least the score",
    )


def _r4_holds(loads: tuple[int, ...], slots: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    by_slots = _final_imbalance(loads, slots, sizes, margin_first=False)
    return by_slots <= _final_imbalance(loads, slots, sizes, margin_first=True)


def _r4_cases() -> Iterator[tuple[Any, ...]]:
    for first, second, size, more, less in by_sum(5, low=0, high=3):
        if size >= 1 and more > less >= 1:
            yield (first, second), (more, less), (size,)


def _r4_published(before: int, by_slots: int, by_margin: int) -> bool:
    case = (10_000, 500), (7, 3), (900,) * 6
    found = [_final_imbalance(*case, margin_first=first) for first in (False, True)]
    return not (imbalance(case[0]) == before and found == [by_slots, by_margin])


R4 = Statement(
    id="R4",
    title="The replica with most free slots is not the best one",
    claim="False: taking the replica with most free slots first is at least as good as taking the "
    "one with the largest margin.",
    latex=r"\mathrm{cap}_1 > \mathrm{cap}_2 \Rightarrow F_1(x) \ge F_2(x)",
    source=CLAIMS,
    about=(*SCORE, *IMBALANCE, BalanceRoute),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r4_goals),
        smallest_counterexample(
            "smallest loads, slots and one request, the product's tick with both keys",
            _r4_cases,
            _r4_holds,
            expected=((1, 0), (2, 1), (1,)),
        ),
        replayed(
            "as published: L = (10000, 500), slots (7, 3), six of 900: I 9500 -> 13100, margin "
            "first 9500",
            _r4_published,
            case=(9500, 13_100, 9500),
        ),
    ),
)


def _frozen_sum(loads: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    pairs = zip(margins(loads), sizes, strict=True)
    return sum(score(len(loads), margin, size) for margin, size in pairs)


def _r5_goals() -> Iterator[Goal]:
    loads, sizes = vector("L", 2), vector("x", 2)
    top = largest(loads)
    frozen = total(score_of(2, top - a, x) for a, x in zip(loads, sizes, strict=True))
    after = [a + x for a, x in zip(loads, sizes, strict=True)]
    yield Goal(
        frozen == imbalance_of(loads) - imbalance_of(after),
        [*[x >= 1 for x in sizes], *[load >= 0 for load in loads]],
        "G = 2",
    )


def _r5_holds(loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    after = [load + size for load, size in zip(loads, sizes, strict=True)]
    return _frozen_sum(loads, sizes) == imbalance(loads) - imbalance(after)


R5 = Statement(
    id="R5",
    title="Scores of a tick do not add up at frozen margins",
    claim="False: the scores of a tick's admissions add up to its gain with margins taken once. "
    "(Margins must be refreshed, T10.)",
    latex=r"\sum_g F_g(x_g) = I(L) - I(L + x)",
    source=CLAIMS,
    about=(*SCORE, *IMBALANCE),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r5_goals),
        smallest_counterexample(
            "smallest loads and one request for each of two replicas",
            lambda: ((c[:2], c[2:]) for c in by_sum(4, low=0, high=3) if min(c[2:]) >= 1),
            _r5_holds,
            expected=((0, 0), (1, 1)),
        ),
        replayed("as published, times 4: L = (3/4, 0)", _r5_holds, case=((3, 0), (4, 4))),
    ),
)


STATEMENTS = (R1, R2, R3, R4, R5)
