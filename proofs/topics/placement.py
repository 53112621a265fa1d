"""T16, T16', N1: what placements guarantee, one at a time and in sets.

Placing on a least-loaded replica, sum of the others >= (G-1) L_min; that is all the bounds need.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import z3

from brtheory.core.imbalance import imbalance
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import (
    imbalance_of,
    larger,
    reals,
    score_of,
    vector,
    with_added,
)
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.kernel import kernel
from proofs.layers.reals import either, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import (
    IMBALANCE,
    LIST,
    SCORE,
    added,
    product_tick,
    sane,
    score,
    sets_decided,
)
from proofs.specification import Rule
from proofs.statement import Statement

SINGLES = Rule(greedy=0, window=1, margin_first=True)
SETS = Rule(greedy=99, margin_first=True)
TICK = (*IMBALANCE, BalanceRoute)


def _chain() -> Goal:
    """One placement's bound repeated: I1 <= max(I - X, c), I2 <= max(I1 - x, c)."""
    before, first, second, placed, more, floor = reals("I I1 I2 X x c")
    return Goal(
        z3.Or(second <= before - (placed + more), second <= floor),
        [
            placed >= 0,
            more >= 0,
            z3.Or(first <= before - placed, first <= floor),
            z3.Or(second <= first - more, second <= floor),
        ],
        "placements chain",
    )


def _least_loaded() -> Goal:
    """One request on a least-loaded replica, any number of replicas."""
    count, top, low, rest, delta = reals("G M L S x")
    before = count * top - (rest + low)
    after = count * larger(top, low + delta) - (rest + low + delta)
    return Goal(
        z3.Or(after <= before - delta, after <= (count - 1) * delta),
        [count >= 1, delta >= 0, top >= low, rest >= (count - 1) * low],
        "one request",
    )


def _t16_goals() -> Iterator[Goal]:
    yield _least_loaded()
    yield _chain()
    # One decode step: placements, then growth (T14) and a departure of w (T15).
    before, placed, step, floor, growth, gone, tokens = reals("I I1 I2 c N w X")
    yield Goal(
        step <= larger(before - tokens, floor) + growth + gone,
        [
            z3.Or(placed <= before - tokens, placed <= floor),
            step <= placed + growth + gone,
            growth >= 0,
            gone >= 0,
        ],
        "a decode step",
    )


def _t16_vectors() -> Iterator[Goal]:
    for count in range(2, 9):
        loads, (delta,) = vector("L", count), reals("x")
        after = imbalance_of(with_added(loads, 0, delta))
        yield Goal(
            z3.Or(after <= imbalance_of(loads) - delta, after <= (count - 1) * delta),
            [delta >= 0, *[loads[0] <= load for load in loads[1:]]],
            f"G = {count}",
        )


def _bound_programs(rule: Rule, *, share: int, shapes: Any) -> Iterator[Program]:
    """Of a tick's X admitted tokens at least X/share come off I, or I' <= (G-1) s_max."""
    for count, requests in shapes:
        loads, sizes = named("L", count), named("s", requests)

        def run(loads: Any = loads, sizes: Any = sizes) -> Obligations:
            slots = [len(sizes)] * len(loads)
            after, admitted = list(loads), 0
            for a in product_tick(loads, slots, sizes, rule=rule):
                after = added(after, a.replica, sizes[a.id])
                admitted += sizes[a.id]
            waste, floor = imbalance(after), len(loads) - 1
            falls = share * waste <= share * imbalance(loads) - admitted
            yield "bound", either(falls, *[waste <= floor * size for size in sizes])

        yield Program(run, sane(loads, sizes), f"G = {count}, {requests} requests")


def _ticks() -> Iterator[tuple[Any, ...]]:
    for count, requests in ((2, 1), (2, 2), (2, 3), (3, 1), (3, 2)):
        for loads in product(range(5), repeat=count):
            for sizes in product((1, 2, 5), repeat=requests):
                yield loads, sizes


def _bound_holds(rule: Rule, share: int, loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    after = list(loads)
    for a in product_tick(loads, [len(sizes)] * len(loads), sizes, rule=rule):
        after = added(after, a.replica, sizes[a.id])
    waste, admitted = imbalance(after), sum(sizes)
    falls = share * waste <= share * imbalance(loads) - admitted
    return falls or waste <= (len(loads) - 1) * max(sizes)


T16 = Statement(
    id="T16",
    title="Reflected-walk bound",
    claim="Placing requests one at a time, each on a least-loaded replica with a free slot, "
    "leaves I' <= max(I - X, (G-1) s_max); a decode step then adds at most I(n) for the growth "
    "and w for each departure, so over time I is dominated by a reflected walk.",
    latex=r"I' \le \max(I - X, (G-1)s_{\max});\quad I_{k+1} \le \max(I_k - X_k, (G-1)s_{\max}) "
    r"+ I(n_k) + W_k",
    hypotheses=("margin-first key", "a free slot on a least-loaded replica", "X is all placed"),
    source=LIST,
    about=TICK,
    layers=(
        smt("every real G, any number of placements by induction", _t16_goals),
        smt("G = 2..8, all real loads", _t16_vectors, general=False),
        execution(
            "the product's margin-first tick, R_max = 1, G = 2, 3, 1 and 2 requests",
            lambda: _bound_programs(SINGLES, share=1, shapes=((2, 1), (2, 2), (3, 1))),
        ),
        exhaustive(
            "the product's tick, G = 2, 3, integers",
            _ticks,
            lambda loads, sizes: _bound_holds(SINGLES, 1, loads, sizes),
        ),
        kernel(
            "every G, all integer loads, any placements, departures and steps",
            "Imbalance.reflected",
            "Imbalance.decode_step",
            "Imbalance.reflected_walk",
        ),
    ),
)


def _set_goals() -> Iterator[Goal]:
    replicas, margin, delta, least, members = reals("G m x s q")
    better = score_of(replicas, margin, delta) >= score_of(replicas, margin, delta - least)
    sizes = [least > 0, members >= 2, members * least <= delta]
    yield Goal(
        members * score_of(replicas, margin, delta) >= (members - 1) * delta,
        [replicas > 1, margin >= 0, better, *sizes],
        "a set of q requests",
    )


def _half_goals() -> Iterator[Goal]:
    replicas, margin, delta, least = reals("G m x s")
    better = score_of(replicas, margin, delta) >= score_of(replicas, margin, delta - least)
    yield Goal(
        2 * score_of(replicas, margin, delta) >= delta,
        [replicas > 1, margin >= 0, better, least > 0, 2 * least <= delta],
        "a set of two or more",
    )
    yield _least_loaded()
    yield _chain()


T16_SETS = Statement(
    id="T16'",
    title="Reflected-walk bound for sets",
    claim="With margin-first stage 2 and sets of any size, I' <= max(I - X/2, (G-1) s_max).",
    latex=r"I' \le \max(I - X/2, (G-1)s_{\max})",
    hypotheses=("margin-first key", "a free slot on a least-loaded replica", "G > 1"),
    source=LIST,
    about=(*SCORE, *TICK),
    layers=(
        smt("every real G, sets of any size, any number of decisions", _half_goals),
        execution(
            "the product's margin-first stage 2, G = 2, 1 and 2 requests",
            lambda: _bound_programs(SETS, share=2, shapes=((2, 1), (2, 2))),
        ),
        execution(
            "the product's margin-first stage 2, G = 2, 3 requests; G = 3, 2 requests",
            lambda: _bound_programs(SETS, share=2, shapes=((2, 3), (3, 2))),
            quick=False,
        ),
        exhaustive(
            "the product's stage 2, G = 2, 3, integers",
            _ticks,
            lambda loads, sizes: _bound_holds(SETS, 2, loads, sizes),
        ),
    ),
)


def _set_programs() -> Iterator[Program]:
    for rule in (SETS, Rule(greedy=99)):
        loads, sizes = named("L", 2), named("s", 2)

        def run(loads: Any = loads, sizes: Any = sizes, rule: Any = rule) -> Obligations:
            now = list(loads)
            for decided in sets_decided(product_tick(now, (2, 1), sizes, rule=rule)):
                members, delta = len(decided), sum(sizes[a.id] for a in decided)
                after = added(now, decided[0].replica, delta)
                if members >= 2:
                    gain = imbalance(now) - imbalance(after)
                    yield "gain", members * gain >= (members - 1) * delta
                now = after

        yield Program(run, sane(loads, sizes), str(rule))


def _set_holds(sizes: tuple[int, ...], margin: int, replicas: int) -> bool | None:
    loads = [0] + [margin] * (replicas - 1)
    slots = [len(sizes)] + [0] * (replicas - 1)
    admissions = product_tick(loads, slots, sizes, rule=SETS)
    best = admissions[0].score or 0
    # The first set is the longest prefix that has its own score (a guard decision is single).
    for count in range(len(sizes), 1, -1):
        delta = sum(sizes[a.id] for a in admissions[:count])
        together = {a.score for a in admissions[:count]} == {best}
        if together and score(replicas, margin, delta) == best and best > 0:
            return count * best >= (count - 1) * delta
    return None


def _set_cases() -> Iterator[tuple[Any, ...]]:
    for count in (2, 3, 4):
        for sizes in product((1, 2, 3, 6), repeat=count):
            for margin, replicas in product(range(16), (2, 4)):
                yield sizes, margin, replicas


N1 = Statement(
    id="N1",
    title="A chosen set of q requests gains all but a q-th of its tokens",
    claim="If stage 2 chooses a set of q >= 2 requests with X tokens, the imbalance falls by at "
    "least (1 - 1/q) X, on any replica and for any key order. (Sharpens T16'.)",
    latex=r"q = |Q| \ge 2 \Rightarrow I - I' \ge (1 - 1/q) X",
    hypotheses=("G > 1", "Q is not beaten by Q without its smallest request"),
    source="this project; an open target of exact-and-proofs, section 1",
    about=(*SCORE, *TICK),
    layers=(
        smt("every real G, m; sets of any size q", _set_goals),
        execution("the product's stage 2, G = 2, 2 requests, both keys", _set_programs),
        exhaustive(
            "the product's stage 2, 2 to 4 requests, m = 0..15, G = 2, 4", _set_cases, _set_holds
        ),
    ),
)


STATEMENTS = (T16, T16_SETS, N1)
