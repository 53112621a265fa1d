"""T12 - T16': laws of I = G*M - sum L, alone, under growth, departures and placements.

A maximum is used through what characterises it: it is attained somewhere and bounds every load.
That turns laws about any number G of replicas into obligations about a few of them.
"""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import z3

from brtheory.core.imbalance import imbalance, margins, peak, spread
from proofs.formulas import (
    absolute,
    imbalance_of,
    larger,
    largest,
    reals,
    smallest,
    vector,
)
from proofs.layers.crosshair import CONTRACTS, crosshair
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.kernel import kernel
from proofs.layers.reals import Real, both, iff, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, LIST, added
from proofs.statement import Statement

INDUCTION = "every G, by induction over the replicas"
ANY_G = "every real G: maxima attained at some replica, bounding all"
WIDE = (*IMBALANCE, peak, spread)


def _pairs(entries: int, high: int) -> Iterator[tuple[Any, ...]]:
    for count in (1, 2, 3):
        for values in product(range(high), repeat=count * entries):
            yield tuple(values[k * count : (k + 1) * count] for k in range(entries))


def _t12_induction() -> Iterator[Goal]:
    count, top, low, load_sum, load = reals("k M m S L")
    invariant = _between(count, top, low, load_sum)
    grown = _between(count + 1, larger(top, load), -larger(-low, -load), load_sum + load)
    yield Goal(_between(z3.RealVal(1), top, top, top), (), "one replica")
    yield Goal(grown, [count >= 1, top >= low, invariant], "one more replica")


def _between(count: Any, top: Any, low: Any, load_sum: Any) -> Any:
    waste = count * top - load_sum
    return z3.And(
        waste >= 0,
        waste <= (count - 1) * (top - low),
        top - low <= waste,
        (waste == 0) == (top == low),
    )


def _t12_vectors() -> Iterator[Goal]:
    for count in range(2, 7):
        loads = vector("L", count)
        width = largest(loads) - smallest(loads)
        waste = imbalance_of(loads)
        equal = z3.And(*[load == loads[0] for load in loads])
        bounds = z3.And(waste >= 0, waste <= (count - 1) * width, width <= waste)
        yield Goal(z3.And(bounds, (waste == 0) == equal), (), f"G = {count}")


def _t12_programs() -> Iterator[Program]:
    for count in (1, 2, 3):
        loads = named("L", count)

        def run(loads: Any = loads) -> Obligations:
            waste, width = imbalance(loads), spread(loads)
            yield "0 <= I", waste >= 0
            yield "I <= (G-1) spread", waste <= (len(loads) - 1) * width
            yield "spread <= I", width <= waste
            yield "I = 0 iff equal", iff(waste == 0, both(*[v == loads[0] for v in loads]))
            yield "I = sum of margins", sum(margins(loads)) == waste

        yield Program(run, (), f"G = {count}")


def _t12_holds(loads: tuple[int, ...]) -> bool:
    waste, width = imbalance(loads), max(loads) - min(loads)
    bounded = 0 <= waste <= (len(loads) - 1) * width and width <= waste
    return bounded and (waste == 0) == (len(set(loads)) == 1) and sum(margins(loads)) == waste


T12 = Statement(
    id="T12",
    title="Bounds of the imbalance",
    claim="0 <= I <= (G-1)(max - min), max - min <= I, and I = 0 iff all loads are equal.",
    latex=r"\max L - \min L \le I \le (G-1)(\max L - \min L)",
    hypotheses=("G >= 1",),
    source=LIST,
    about=WIDE,
    layers=(
        smt(INDUCTION, _t12_induction),
        smt("G = 2..6, all real loads", _t12_vectors, general=False),
        execution("G = 1..3, all real loads", _t12_programs),
        exhaustive("G = 1..3, integers 0..7", lambda: _pairs(1, 8), _t12_holds),
        kernel(
            "every G, all integer loads", "Imbalance.imbalance_bounds", "Imbalance.imbalance_zero"
        ),
        crosshair(
            "G = 2, 3, all integer loads",
            CONTRACTS,
            "imbalance_lies_between_spreads",
            "imbalance_is_the_sum_of_margins",
        ),
    ),
)


def _t13_goals() -> Iterator[Goal]:
    count, top, load_sum, factor, shift, a, b = reals("G M S c d La Lb")
    loads = [a <= top, b <= top]
    # a is a peak: after scaling by c >= 0 and after shifting by d it still is, and b is below.
    yield Goal(
        z3.And(factor * b <= factor * a, b + shift <= a + shift),
        [*loads, a == top, factor >= 0],
        "the peak stays the peak",
    )
    yield Goal(
        z3.And(
            count * (factor * top) - factor * load_sum == factor * (count * top - load_sum),
            count * (top + shift) - (load_sum + count * shift) == count * top - load_sum,
        ),
        [count >= 1],
        "scale and shift",
    )
    top_k, top_mix, k, weight = reals("N P K w")
    mixed = weight * top + (1 - weight) * top_k
    yield Goal(
        top_mix <= mixed,
        [
            weight >= 0,
            weight <= 1,
            a <= top,
            k <= top_k,
            top_mix == weight * a + (1 - weight) * k,
        ],
        "the peak of a mixture is at most the mixture of the peaks",
    )
    # The sum of loads mixes linearly, so convexity of I is that of the peak, times G >= 0.
    yield Goal(
        count * top_mix - load_sum <= count * top - load_sum,
        [count >= 1, top_mix <= top],
        "convex",
    )
    eps, d, rest = reals("e g D")
    # M(L) = L_a and M(K) >= K_a, so the peaks differ by at most d = L_a - K_a; D sums the others.
    yield Goal(
        count * (top - top_k) - d - rest <= 2 * (count - 1) * eps,
        [
            count >= 1,
            top - top_k <= d,
            absolute(d) <= eps,
            absolute(rest) <= (count - 1) * eps,
        ],
        "Lipschitz",
    )


def _t13_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, others, factor, shift = named("L", count), named("K", count), Real("c"), Real("d")
        eps = Real("e")
        near = [
            bound
            for a, b in zip(loads, others, strict=True)
            for bound in (a - b <= eps, b - a <= eps)
        ]

        def rescaled(loads: Any = loads, factor: Any = factor, shift: Any = shift) -> Obligations:
            waste = imbalance(loads)
            yield "scale", imbalance([factor * load for load in loads]) == factor * waste
            yield "shift", imbalance([load + shift for load in loads]) == waste
            for order in permutations(loads):
                yield "permutation", imbalance(order) == waste

        def two(loads: Any = loads, others: Any = others, eps: Any = eps) -> Obligations:
            sums = [a + b for a, b in zip(loads, others, strict=True)]
            first, second = imbalance(loads), imbalance(others)
            yield "midpoint convex and subadditive", imbalance(sums) <= first + second
            yield "Lipschitz", first - second <= 2 * (len(loads) - 1) * eps

        yield Program(rescaled, [factor >= 0], f"one vector, G = {count}")
        yield Program(two, near, f"two vectors, G = {count}")


T13 = Statement(
    id="T13",
    title="Scale, shift, permutation, convexity, Lipschitz",
    claim="I(cL) = c I(L) for c >= 0, I(L + d) = I(L), I does not depend on the order of the "
    "replicas, is convex and subadditive, and 2(G-1)-Lipschitz in the largest change of a load.",
    latex=r"I(cL)=cI(L),\ I(L+d\mathbf 1)=I(L),\ |I(L)-I(K)| \le 2(G-1)\|L-K\|_\infty",
    hypotheses=("c >= 0",),
    source=LIST,
    about=IMBALANCE,
    layers=(
        smt(ANY_G, _t13_goals),
        execution("G = 2, 3, all real loads", _t13_programs),
    ),
)


def _t14_goals() -> Iterator[Goal]:
    count, top, top_n, after, load_sum, grow_sum, load, grow = reals("G M N P S T L n")
    yield Goal(
        count * after - (load_sum + grow_sum)
        <= (count * top - load_sum) + (count * top_n - grow_sum),
        [count >= 1, load <= top, grow <= top_n, after == load + grow],
        "peak after growth attained at one replica",
    )


def _t14_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, grows = named("L", count), named("n", count)

        def run(loads: Any = loads, grows: Any = grows) -> Obligations:
            after = [a + b for a, b in zip(loads, grows, strict=True)]
            yield "growth", imbalance(after) <= imbalance(loads) + imbalance(grows)

        yield Program(run, (), f"G = {count}")


T14 = Statement(
    id="T14",
    title="Growth",
    claim="One decode step that adds n_g tokens to replica g adds at most I(n) to the imbalance.",
    latex=r"I(L+n) \le I(L)+I(n)",
    source=LIST,
    about=IMBALANCE,
    layers=(
        smt(ANY_G, _t14_goals),
        execution("G = 2, 3, all real loads and growths", _t14_programs),
        exhaustive(
            "G = 1..3, integers 0..3",
            lambda: _pairs(2, 4),
            lambda a, b: (
                imbalance([x + y for x, y in zip(a, b, strict=True)]) <= imbalance(a) + imbalance(b)
            ),
        ),
    ),
)


def _t15_goals() -> Iterator[Goal]:
    count, load, others, rest, weight = reals("G L O S w")
    before = count * larger(others, load) - (rest + load)
    after = count * larger(others, load - weight) - (rest + load - weight)
    yield Goal(
        z3.And(before - (count - 1) * weight <= after, after <= before + weight),
        [count >= 1, weight >= 0],
        "one replica against the peak of the others",
    )


def _t15_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, weight = named("L", count), Real("w")

        def run(loads: Any = loads, weight: Any = weight) -> Obligations:
            before, after = imbalance(loads), imbalance(added(loads, 0, -weight))
            yield "rises at most w", after <= before + weight
            yield "falls at most (G-1) w", after >= before - (len(loads) - 1) * weight

        yield Program(run, [weight >= 0], f"G = {count}")


T15 = Statement(
    id="T15",
    title="Departure",
    claim="A departure of w tokens raises the imbalance by at most w and lowers it by at most "
    "(G-1) w.",
    latex=r"I-(G-1)w \le I' \le I+w",
    hypotheses=("w >= 0",),
    source=LIST,
    about=IMBALANCE,
    layers=(
        smt("every real G; O is the peak of the others", _t15_goals),
        execution("G = 2, 3, all real loads and w", _t15_programs),
        kernel("every G, all integer loads", "Imbalance.departure"),
        crosshair("G = 3, all integer loads", CONTRACTS, "departure_changes_it_within_bounds"),
    ),
)

STATEMENTS = (T12, T13, T14, T15)
