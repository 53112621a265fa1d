"""T5 - T8, N3: which set, which request and which replica the F-score prefers."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import z3

from brtheory.core.fscore import f_score, one_step_weights
from brtheory.core.imbalance import margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import positive_part_of, reals, score_of
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, iff, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import EVERY_REAL, IMBALANCE, LIST, SCORE, score
from proofs.statement import Statement

REPLICAS = (2, 3, 5)


def stage_2_set(
    sizes: Sequence[int], loads: Sequence[int], *, replica: int
) -> tuple[list[int], int]:
    """Sizes the product's stage 2 admits first to ``replica``, its only open one, and their F."""
    caps = [len(sizes) if g == replica else 0 for g in range(len(loads))]
    pool = [Request(id=i, prompt_tokens=s) for i, s in enumerate(sizes)]
    params = BalanceRouteParams(greedy_threshold=len(sizes), max_subset=len(sizes))
    state = TickState([[load] for load in loads], caps, pool)
    admitted = BalanceRoute(params).tick(state)
    first = admitted[0].score or 0
    # Requests of the first decision share its score; a later decision with the same one is told
    # apart by its margin being used up, so the prefix sum that reproduces the score is the set.
    margin = margins(loads)[replica]
    for count in range(1, len(admitted) + 1):
        chosen = [sizes[a.id] for a in admitted[:count]]
        if score(len(loads), margin, sum(chosen)) == first:
            return chosen, first
    message = "no prefix of the admissions has the score they state"
    raise AssertionError(message)


def subset_cases() -> Iterator[tuple[Any, ...]]:
    """Up to three sizes, a margin, and G."""
    for count in (1, 2, 3):
        for sizes in product(range(1, 6), repeat=count):
            for margin, replicas in product(range(10), REPLICAS):
                yield sizes, margin, replicas


def loads_with_margin(margin: int, replicas: int) -> list[int]:
    """Replica 0 empty, the others at its margin."""
    return [0] + [margin] * (replicas - 1)


def _t5_goals() -> Iterator[Goal]:
    replicas, margin, delta, size = reals("G m x s")
    better = score_of(replicas, margin, delta) >= score_of(replicas, margin, delta - size)
    yield Goal(
        replicas * positive_part_of(delta - margin) <= size,
        [replicas > 1, margin >= 0, size > 0, delta >= size, better],
        "against the set without one request",
    )


def _t5_program() -> Iterator[Program]:
    replicas, margin, delta, size = (Real(name) for name in ("G", "m", "x", "s"))

    def run() -> Obligations:
        if score(replicas, margin, delta) >= score(replicas, margin, delta - size):
            yield "overflow <= s/G", replicas * (delta - margin) <= size

    yield Program(run, [replicas > 1, margin >= 0, size > 0, delta >= size])


def _t5_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool:
    weights = one_step_weights(replicas)
    sums = [sum(q) for k in range(len(sizes) + 1) for q in combinations(sizes, k)]
    best = max(f_score(total, [margin], weights) for total in sums)
    return all(
        replicas * max(sum(q) - margin, 0) <= min(q)
        for k in range(1, len(sizes) + 1)
        for q in combinations(sizes, k)
        if f_score(sum(q), [margin], weights) == best
    )


T5 = Statement(
    id="T5",
    title="An optimal set overflows by at most a G-th of its smallest request",
    claim="If a set is F-optimal (or only not beaten by itself without its smallest request), it "
    "overflows the margin by at most min_i s_i / G.",
    latex=r"F(Q) \ge F(Q \setminus \{i\}) \Rightarrow (\Delta - m)_+ \le s_i / G",
    hypotheses=("G > 1", "m >= 0", "s_i > 0", "the empty set competes"),
    source=LIST,
    about=SCORE,
    layers=(
        smt(EVERY_REAL, _t5_goals),
        execution(EVERY_REAL, _t5_program, general=True),
        exhaustive("up to 3 requests of 1..5, m = 0..9, G = 2, 3, 5", subset_cases, _t5_holds),
    ),
)


def _t6_goals() -> Iterator[Goal]:
    replicas, margin, x, y = reals("G m x y")
    fx, fy = score_of(replicas, margin, x), score_of(replicas, margin, y)
    assumed = [replicas > 1, margin >= 0]
    yield Goal(fx <= fy, [*assumed, x <= y, y <= margin], "largest that fits")
    yield Goal(fx <= fy, [*assumed, margin <= y, y <= x], "smallest that does not")


def _t6_program() -> Iterator[Program]:
    replicas, margin, x, y = (Real(name) for name in ("G", "m", "x", "y"))

    def run() -> Obligations:
        fx, fy = score(replicas, margin, x), score(replicas, margin, y)
        if x <= y:
            if y <= margin:
                yield "largest that fits", fx <= fy
            if x >= margin:
                yield "smallest that does not", fx >= fy

    yield Program(run, [replicas > 1, margin >= 0])


def _t6_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool:
    """Stage 1 of the product, which scans the pool, against two bisections."""
    pool = [Request(id=i, prompt_tokens=s) for i, s in enumerate(sizes)]
    loads = [[load] for load in loads_with_margin(margin, replicas)]
    caps = [1] + [0] * (replicas - 1)
    params = BalanceRouteParams(greedy_threshold=0)
    (admission,) = BalanceRoute(params).tick(TickState(loads, caps, pool))
    fitting = [size for size in sizes if size <= margin]
    exceeding = [size for size in sizes if size > margin]
    two = ([max(fitting)] if fitting else []) + ([min(exceeding)] if exceeding else [])
    return bool(admission.score == max(score(replicas, margin, size) for size in two))


T6 = Statement(
    id="T6",
    title="Two candidates suffice for one request",
    claim="The best single request is the largest that fits the margin or the smallest that does "
    "not: two bisections of a sorted pool.",
    latex=r"\arg\max_i F(s_i) \in \{\max\{s_i \le m\}, \min\{s_i \ge m\}\}",
    hypotheses=("G > 1", "m >= 0"),
    source=LIST,
    about=(*SCORE, BalanceRoute),
    layers=(
        smt(EVERY_REAL, _t6_goals),
        execution(EVERY_REAL, _t6_program, general=True),
        exhaustive(
            "stage 1, up to 3 requests of 1..5, m = 0..9, G = 2, 3, 5", subset_cases, _t6_holds
        ),
    ),
)


def _t7_goals() -> Iterator[Goal]:
    replicas, margin, x, y = reals("G m x y")
    whole, part = score_of(replicas, margin, x), score_of(replicas, margin, y)
    yield Goal(part >= whole, [replicas >= 1, margin >= 0, y > 0, y <= x, whole <= 0], "a member")


def _t7_program() -> Iterator[Program]:
    replicas, margin, x, y = (Real(name) for name in ("G", "m", "x", "y"))

    def run() -> Obligations:
        if score(replicas, margin, x) <= 0:
            yield "a member is as good", score(replicas, margin, y) >= score(replicas, margin, x)

    yield Program(run, [replicas >= 1, margin >= 0, y > 0, y <= x])


def _t7_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool:
    """What the product's stage 2 admits scores as much as the best of all non-empty subsets."""
    _, admitted = stage_2_set(sizes, loads_with_margin(margin, replicas), replica=0)
    subsets = (q for k in range(1, len(sizes) + 1) for q in combinations(sizes, k))
    return bool(admitted == max(score(replicas, margin, sum(q)) for q in subsets))


T7 = Statement(
    id="T7",
    title="The starvation guard is lossless",
    claim="If every non-empty set scores at most 0, a single request is among the best sets.",
    latex=r"0 < y \le x,\ F(x) \le 0 \Rightarrow F(y) \ge F(x)",
    hypotheses=("G >= 1", "m >= 0"),
    source=LIST,
    about=(*SCORE, BalanceRoute),
    layers=(
        smt(EVERY_REAL, _t7_goals),
        execution(EVERY_REAL, _t7_program, general=True),
        exhaustive(
            "stage 2, up to 3 requests of 1..5, m = 0..9, G = 2, 3, 5", subset_cases, _t7_holds
        ),
    ),
)


def _t8_goals() -> Iterator[Goal]:
    replicas, top, light, heavy, delta = reals("G M L K x")
    better = score_of(replicas, top - light, delta)
    worse = score_of(replicas, top - heavy, delta)
    yield Goal(
        z3.And(better >= worse, (better == worse) == (delta <= top - heavy)),
        [replicas > 0, top >= light, top >= heavy, light < heavy, delta >= 0],
        "two replicas",
    )


def _t8_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, size = named("L", count), Real("s")

        def scores(loads: Any = loads, size: Any = size) -> Obligations:
            margin = margins(loads)
            first, second = (score(len(loads), margin[g], size) for g in (0, 1))
            if loads[0] < loads[1]:
                yield "lighter is as good", first >= second
                yield "equal in the common safe zone", iff(first == second, size <= margin[1])

        def tick(loads: Any = loads, size: Any = size) -> Obligations:
            state = TickState([[v] for v in loads], [1] * len(loads), [Request(0, size)])
            router = BalanceRoute(BalanceRouteParams(key_order="margin-first"))
            (admission,) = router.tick(state)
            chosen = loads[admission.replica]
            for replica, load in enumerate(loads):
                yield "least tokens", chosen <= load
                if replica < admission.replica:
                    yield "ties to the lower index", chosen < load

        sane = [*[load >= 0 for load in loads], *[load <= 2**40 for load in loads]]
        yield Program(scores, [size >= 0], f"scores, G = {count}")
        yield Program(tick, [*sane, size >= 1, size <= 2**40], f"margin-first tick, G = {count}")


def _n3_goals() -> Iterator[Goal]:
    replicas, margin, x, y = reals("G m x y")
    whole, part = score_of(replicas, margin, x), score_of(replicas, margin, y)
    yield Goal(
        part > whole, [replicas > 1, margin >= 0, y > 0, y < x, whole <= 0], "any proper part"
    )


def _n3_program() -> Iterator[Program]:
    replicas, margin, x, y = (Real(name) for name in ("G", "m", "x", "y"))

    def run() -> Obligations:
        if score(replicas, margin, x) <= 0:
            yield "a part is better", score(replicas, margin, y) > score(replicas, margin, x)

    yield Program(run, [replicas > 1, margin >= 0, y > 0, y < x])


def _n3_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool | None:
    """Where no set gains, the best of all non-empty sets is single without any guard."""
    subsets = [q for k in range(1, len(sizes) + 1) for q in combinations(sizes, k)]
    best = max(score(replicas, margin, sum(q)) for q in subsets)
    if best > 0:
        return None
    return all(len(q) == 1 for q in subsets if score(replicas, margin, sum(q)) == best)


N3 = Statement(
    id="N3",
    title="For two or more replicas the guard changes nothing",
    claim="For G > 1, where the best set scores at most 0 every best set is a single request: "
    "BR-0 with and without its starvation guard are the same router. (G = 1 differs: F = 0.)",
    latex=r"G > 1,\ 0 < y < x,\ F(x) \le 0 \Rightarrow F(y) > F(x)",
    hypotheses=("G > 1", "m >= 0", "one-step score"),
    source="this project; sharpens T7",
    about=SCORE,
    layers=(
        smt(EVERY_REAL, _n3_goals),
        execution(EVERY_REAL, _n3_program, general=True),
        exhaustive("up to 3 requests of 1..5, m = 0..9, G = 2, 3, 5", subset_cases, _n3_holds),
    ),
)


T8 = Statement(
    id="T8",
    title="One request goes to a least-loaded replica",
    claim="For one request F is largest at a least-loaded replica, and as large elsewhere only "
    "where it fits both: with single arrivals BR-0 (margin first) is least-tokens.",
    latex=r"L_1 < L_2 \Rightarrow F_1(x) \ge F_2(x),\ F_1(x) = F_2(x) \iff x \le m_2",
    hypotheses=("G > 0", "Delta >= 0", "margin-first key for the router"),
    source=LIST,
    about=(*SCORE, *IMBALANCE, BalanceRoute),
    layers=(
        smt("every real G, any two replicas", _t8_goals),
        execution("G = 2, 3, all real loads; the product's tick", _t8_programs),
    ),
)


STATEMENTS = (T5, T6, T7, N3, T8)
