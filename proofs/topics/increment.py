"""T1, T1', T10, T11: the F-score is the change of imbalance, alone, in sequence and jointly.

F_g(Q) = Delta - G*(Delta - m_g)_+ = -(change of I)
"""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import sympy as sp
import z3

from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState
from proofs.formulas import (
    imbalance_of,
    larger,
    largest,
    positive_part_of,
    reals,
    score_of,
    total,
    vector,
)
from proofs.layers.crosshair import CONTRACTS, crosshair
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.kernel import kernel
from proofs.layers.reals import Real, both, either, iff, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import IMBALANCE, LIST, SCORE, SUMMARY, added, score
from proofs.statement import Statement


def _t1_regions() -> Iterator[Obligation]:
    replicas, top, margin, rest = sp.symbols("G M m S", positive=True)
    step = sp.Symbol("t", positive=True)
    before = replicas * top - rest
    fits, exceeds = margin - step, margin + step
    after = replicas * top - (rest + fits)
    yield zero("Delta = m - t", before - after - score(replicas, margin, fits))
    after = replicas * top - (rest + margin)
    yield zero("Delta = m", before - after - score(replicas, margin, margin))
    after = replicas * (top - margin + exceeds) - (rest + exceeds)
    yield zero("Delta = m + t", before - after - score(replicas, margin, exceeds))


def _t1_any_number() -> Iterator[Goal]:
    replicas, top, load, rest, delta = reals("G M L S x")
    new_top = larger(top, load + delta)
    change = (replicas * new_top - (rest + delta)) - (replicas * top - rest)
    yield Goal(
        change == replicas * positive_part_of(delta - (top - load)) - delta,
        [top >= load, delta >= 0, replicas >= 1],
        "increment",
    )
    yield _peak_after_admission()


def _peak_after_admission() -> Goal:
    """Over any index set, max(M, L_g + x) is the maximum of the updated loads."""
    loads = z3.Function("L", z3.IntSort(), z3.RealSort())
    is_replica = z3.Function("replica", z3.IntSort(), z3.BoolSort())
    j, at_peak, chosen = z3.Ints("j k g")
    top, delta = reals("M x")
    new_top = larger(top, loads(chosen) + delta)

    def updated(index: Any) -> Any:
        return z3.If(index == chosen, loads(index) + delta, loads(index))

    return Goal(
        z3.And(
            z3.ForAll([j], z3.Implies(is_replica(j), updated(j) <= new_top)),
            z3.Exists([j], z3.And(is_replica(j), updated(j) == new_top)),
        ),
        [
            is_replica(chosen),
            delta >= 0,
            z3.ForAll([j], z3.Implies(is_replica(j), loads(j) <= top)),
            is_replica(at_peak),
            loads(at_peak) == top,
        ],
        "peak",
    )


def _t1_programs() -> Iterator[Program]:
    for count, replica in [(n, g) for n in (1, 2, 3) for g in range(n)]:
        loads, delta = named("L", count), Real("x")

        def run(loads: Any = loads, replica: int = replica, delta: Any = delta) -> Obligations:
            gain = imbalance(loads) - imbalance(added(loads, replica, delta))
            yield "gain == F", gain == score(len(loads), margins(loads)[replica], delta)

        yield Program(run, [delta >= 0], f"G = {count}, replica {replica}")


def _t1_cases() -> Iterator[tuple[Any, ...]]:
    for count in (1, 2, 3, 4):
        for *loads, delta in product(range(5), repeat=count + 1):
            yield tuple(loads), delta


def _t1_holds(loads: tuple[int, ...], delta: int) -> bool:
    return all(
        imbalance(loads) - imbalance(added(loads, g, delta)) == score(len(loads), margin, delta)
        for g, margin in enumerate(margins(loads))
    )


T1 = Statement(
    id="T1",
    title="The score is the change of imbalance",
    claim="Admitting Delta >= 0 to replica g changes the imbalance by exactly -F_g(Delta), ties "
    "and g itself the heaviest replica included.",
    latex=r"I(L) - I(L + x e_g) = x - G (x - m_g)_+",
    hypotheses=("G >= 1", "Delta >= 0"),
    source=SUMMARY,
    about=(*SCORE, *IMBALANCE),
    layers=(
        symbolic("every G, by regions of Delta against the margin", _t1_regions),
        smt("every real G; any index set", _t1_any_number),
        execution("G = 1..3, all real loads", _t1_programs),
        exhaustive("G = 1..4, integers 0..4", _t1_cases, _t1_holds),
        kernel("every G, all integer loads", "Imbalance.increment"),
        crosshair("G = 3, all integer loads", CONTRACTS, "score_is_what_it_takes_off"),
    ),
)


def _t1_signed_goal() -> Iterator[Goal]:
    replicas, load, others, delta = reals("G L O x")
    change = replicas * (larger(others, load + delta) - larger(others, load)) - delta
    formula = replicas * positive_part_of(delta - (larger(others, load) - load)) - delta
    yield Goal((change == formula) == z3.Or(delta >= 0, others >= load), [replicas > 1], "signed")


def _t1_signed_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, delta = named("L", count), Real("x")

        def run(loads: Any = loads, delta: Any = delta) -> Obligations:
            gain = imbalance(loads) - imbalance(added(loads, 0, delta))
            same = gain == score(len(loads), margins(loads)[0], delta)
            yield "iff", iff(same, either(delta >= 0, *[load >= loads[0] for load in loads[1:]]))

        yield Program(run, (), f"G = {count}")


T1_SIGNED = Statement(
    id="T1'",
    title="Where the identity holds for departures",
    claim="For a signed change x of replica g the identity holds iff x >= 0 or some other replica "
    "is at least as loaded as g.",
    latex=r"I(L) - I(L + x e_g) = F_g(x) \iff x \ge 0 \lor \exists j \ne g: L_j \ge L_g",
    hypotheses=("G >= 2",),
    source=LIST,
    about=(*SCORE, *IMBALANCE),
    layers=(
        smt("every real G > 1; O is the peak of the others", _t1_signed_goal),
        execution("G = 2, 3, all real loads and x", _t1_signed_programs),
    ),
)


def _t10_goals() -> Iterator[Goal]:
    replicas, margin, x, y = reals("G m x y")
    refreshed = larger(margin, x) - x
    assumed = [replicas >= 1, margin >= 0, x >= 0, y >= 0]
    alone = score_of(replicas, margin, x)
    together = score_of(replicas, margin, x + y)
    yield Goal(
        together <= alone + score_of(replicas, margin, y), assumed, "submodular on one replica"
    )
    yield Goal(
        alone + score_of(replicas, refreshed, y) == together, assumed, "refreshed scores telescope"
    )


def _t10_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads = named("L", count)
        sizes = named("s", 2)

        def run(loads: Any = loads, sizes: Any = sizes) -> Obligations:
            first, second = (Request(id=i, prompt_tokens=s) for i, s in enumerate(sizes))
            state = TickState([[load] for load in loads], [2] * len(loads), [first, second])
            ledger, before, gained = TickLedger(state), imbalance(loads), 0
            for request, replica in ((first, 0), (second, 1)):
                gained += score(len(loads), ledger.margin(replica), request.prompt_tokens)
                ledger.admit([request], replica)
            after = imbalance([row[0] for row in ledger.rows])
            yield "refreshed scores add up to the change", gained == before - after

        def same_replica(loads: Any = loads, sizes: Any = sizes) -> Obligations:
            margin = margins(loads)[0]
            together = score(len(loads), margin, sizes[0] + sizes[1])
            alone = [score(len(loads), margin, size) for size in sizes]
            yield "submodular", together <= alone[0] + alone[1]

        positive = [size >= 0 for size in sizes]
        yield Program(run, positive, f"G = {count}, two replicas")
        yield Program(same_replica, positive, f"G = {count}, one replica")


T10 = Statement(
    id="T10",
    title="Submodular on one replica; refreshed margins telescope",
    claim="On one replica F of a union is at most the sum of the F's; with margins refreshed after "
    "each admission the scores of a tick add up exactly to the fall of the imbalance.",
    latex=r"F_m(x+y) \le F_m(x)+F_m(y);\quad F_m(x)+F_{m'}(y)=F_m(x+y),\ m'=\max(m,x)-x",
    hypotheses=("G >= 1", "m >= 0", "x, y >= 0"),
    source=LIST,
    about=(*SCORE, *IMBALANCE, TickLedger),
    layers=(
        smt("every real G, m, x, y", _t10_goals),
        execution("G = 2, 3, all real loads and sizes, the product's ledger", _t10_programs),
    ),
)


def _t11_goals() -> Iterator[Goal]:
    for count in range(2, 6):
        loads, sizes = vector("L", count), vector("x", count)
        top = largest(loads)
        over = [size - (top - load) for load, size in zip(loads, sizes, strict=True)]
        after = [load + size for load, size in zip(loads, sizes, strict=True)]
        gain = imbalance_of(loads) - imbalance_of(after)
        frozen = total(
            score_of(count, top - load, size) for load, size in zip(loads, sizes, strict=True)
        )
        one = z3.And(*[z3.Or(a <= 0, b <= 0) for a, b in combinations(over, 2)])
        joint = total(sizes) - count * largest([positive_part_of(part) for part in over])
        yield Goal(
            z3.And(gain == joint, frozen <= gain, (frozen == gain) == one),
            [size >= 0 for size in sizes],
            f"G = {count}",
        )


def _t11_any_number() -> Iterator[Goal]:
    """Induction over the replicas: prefix sum P and maximum Q of the overflows, n of them > 0."""
    prefix, highest, overflow, count = reals("P Q o n")
    counts = z3.And(count >= 0, z3.Or(count == 0, count >= 1))
    invariant = _sum_against_maximum(prefix, highest, count)
    new = (
        prefix + overflow,
        larger(highest, overflow),
        z3.If(overflow > 0, count + 1, count),
    )
    yield Goal(_sum_against_maximum(z3.RealVal(0), z3.RealVal(0), z3.RealVal(0)), (), "no replica")
    yield Goal(_sum_against_maximum(*new), [invariant, counts, overflow >= 0], "one more")
    # The peak rises by the largest overflow: a is a peak after, b overflows most, c was a peak.
    old, peak, most = reals("M N K")
    loads, sizes = (
        dict(zip("abc", vector("L", 3), strict=True)),
        dict(zip("abc", vector("x", 3), strict=True)),
    )
    within = [z3.And(loads[g] <= old, loads[g] + sizes[g] <= peak, sizes[g] >= 0) for g in "abc"]
    over = [positive_part_of(sizes[g] - (old - loads[g])) for g in "abc"]
    attained = [loads["a"] + sizes["a"] == peak, over[1] == most, loads["c"] == old]
    yield Goal(peak - old == most, [*within, *attained, *[o <= most for o in over]], "peak")


def _sum_against_maximum(prefix: Any, highest: Any, count: Any) -> Any:
    return z3.And(
        highest >= 0,
        prefix >= highest,
        (prefix == highest) == (count <= 1),
        (highest == 0) == (count == 0),
    )


def _t11_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, sizes = named("L", count), named("x", count)

        def run(loads: Any = loads, sizes: Any = sizes) -> Obligations:
            margin = margins(loads)
            after = [load + size for load, size in zip(loads, sizes, strict=True)]
            gain = imbalance(loads) - imbalance(after)
            frozen = sum(score(len(loads), m, x) for m, x in zip(margin, sizes, strict=True))
            pairs = combinations(range(len(loads)), 2)
            one = both(*[either(sizes[a] <= margin[a], sizes[b] <= margin[b]) for a, b in pairs])
            yield "lower bound", frozen <= gain
            yield "exact iff one overflows", iff(frozen == gain, one)

        yield Program(run, [size >= 0 for size in sizes], f"G = {count}")


def _t11_holds(loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    margin = margins(loads)
    gain = imbalance(loads) - imbalance([a + b for a, b in zip(loads, sizes, strict=True)])
    frozen = sum(score(len(loads), m, x) for m, x in zip(margin, sizes, strict=True))
    overflowing = sum(x > m for m, x in zip(margin, sizes, strict=True))
    return bool(frozen <= gain) and bool(frozen == gain) == (overflowing <= 1)


def _t11_cases() -> Iterator[tuple[Any, ...]]:
    for count in (2, 3):
        for entries in product(range(4), repeat=2 * count):
            yield entries[:count], entries[count:]


T11 = Statement(
    id="T11",
    title="Frozen margins are a lower bound",
    claim="The sum of scores at frozen margins is at most the joint gain, with equality iff at "
    "most one replica overflows.",
    latex=r"\sum_g F_g(x_g) \le I(L) - I(L+x) = \sum_g x_g - G \max_g (x_g - m_g)_+",
    hypotheses=("x_g >= 0",),
    source=LIST,
    about=(*SCORE, *IMBALANCE),
    layers=(
        smt("every G, by induction over the replicas", _t11_any_number),
        smt("G = 2..5, all real loads and sizes", _t11_goals, general=False),
        execution("G = 2, 3, all real loads and sizes", _t11_programs),
        exhaustive("G = 2, 3, integers 0..3", _t11_cases, _t11_holds),
    ),
)

STATEMENTS = (T1, T1_SIGNED, T10, T11)
