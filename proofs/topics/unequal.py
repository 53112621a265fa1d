"""N2: the increment identity where replicas differ in speed, and the tick that decides by it."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

from brtheory.core.admission import Admission
from brtheory.core.fscore import one_step_weights, time_f_score
from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.core.unequal import Paces, Replica, paces_of, time_loads
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import larger, positive_part_of, reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import IMBALANCE, added, router, sane, score, sets_decided
from proofs.specification import Rule
from proofs.statement import Statement

PACES = Paces(per_step=(1, 4), per_token=(3, 2), unit_s=Fraction(1, 1000))
"""The first replica is quick a step and slow a token, the second the other way round."""
RULES = (Rule(greedy=0), Rule(greedy=9), Rule(greedy=9, margin_first=True))


def _unequal_regions() -> Iterator[Obligation]:
    replicas, top, margin, rest, speed = sp.symbols("G M m S c", positive=True)
    step = sp.Symbol("t", positive=True)
    before = replicas * top - rest
    for region, weighted, peak in (
        ("c Delta = m - t", margin - step, top),
        ("c Delta = m + t", margin + step, top + step),
    ):
        delta = weighted / speed
        after = replicas * peak - (rest + speed * delta)
        yield zero(region, before - after - score(replicas, margin, speed * delta))


def _unequal_goals() -> Iterator[Goal]:
    replicas, top, load, rest, speed, delta = reals("G M L S c x")
    weighted = speed * delta
    after = replicas * larger(top, load + weighted) - (rest + weighted)
    yield Goal(
        after - (replicas * top - rest)
        == replicas * positive_part_of(weighted - (top - load)) - weighted,
        [replicas >= 1, speed > 0, delta >= 0, top >= load],
        "weighted load L of the replica",
    )


def _identity_programs() -> Iterator[Program]:
    """The product's own time score, loads in time and margins, all real paces or fixed ones."""
    for count in (2, 3):
        loads, delta = named("L", count), Real("x")
        per_step, per_token = named("B", count), named("A", count)

        def run(
            loads: Any = loads, delta: Any = delta, steps: Any = per_step, tokens: Any = per_token
        ) -> Obligations:
            before = time_loads(loads, per_step=steps, per_token=tokens)
            after = time_loads(added(loads, 0, delta), per_step=steps, per_token=tokens)
            found = time_f_score(
                delta, [margins(before)[0]], one_step_weights(len(loads)), per_token=tokens[0]
            )
            yield "gain", imbalance(before) - imbalance(after) == found

        # Two replicas with free paces, three with paces 1, 2, 3: the latter stays linear.
        fixed = [] if count == 2 else [a == g + 1 for g, a in enumerate(per_token)]
        positive = [value >= 0 for value in (*per_token, *per_step)]
        yield Program(run, [delta >= 0, *positive, *fixed], f"G = {count}")


def _unequal_tick(loads: Sequence[Any], sizes: Sequence[Any], rule: Rule) -> list[Admission]:
    pool = [Request(id=i, prompt_tokens=size) for i, size in enumerate(sizes)]
    slots = [len(sizes)] * len(loads)
    return router(rule).tick(TickState([[load] for load in loads], slots, pool, paces=PACES))


def _wastes(
    loads: Sequence[Any], sizes: Sequence[Any], rule: Rule
) -> Iterator[tuple[list[Admission], Any]]:
    """Each set that a tick decides, and what it takes off G*max T - sum T."""
    now = list(loads)
    for group in sets_decided(_unequal_tick(loads, sizes, rule)):
        then = added(now, group[0].replica, sum(sizes[a.id] for a in group))
        yield group, imbalance(_timed(now)) - imbalance(_timed(then))
        now = then


def _timed(loads: Sequence[Any]) -> list[Any]:
    return time_loads(loads, per_step=PACES.per_step, per_token=PACES.per_token)


def _tick_programs() -> Iterator[Program]:
    for rule in RULES:
        loads, sizes = named("L", 2), named("s", 2)

        def run(loads: Any = loads, sizes: Any = sizes, rule: Any = rule) -> Obligations:
            for group, gained in _wastes(loads, sizes, rule):
                yield "the set's score is what it gains", gained == group[0].score

        yield Program(run, sane(loads, sizes), f"{rule}")


def _tick_cases() -> Iterator[tuple[Any, ...]]:
    for greedy, margin_first in product((0, 9), (False, True)):
        rule = Rule(greedy=greedy, window=1, margin_first=margin_first)
        for loads in product((0, 1, 4, 9), repeat=2):
            for sizes in product((1, 2, 5), repeat=3):
                yield loads, sizes, rule


def _tick_holds(loads: Sequence[int], sizes: Sequence[int], rule: Rule) -> bool:
    """Single requests, one after the other: their scores add up to what the tick takes off."""
    now, gained = list(loads), 0
    for a in _unequal_tick(loads, sizes, rule):
        now, gained = added(now, a.replica, sizes[a.id]), gained + (a.score or 0)
    return imbalance(_timed(loads)) - imbalance(_timed(now)) == gained


def _pace_cases() -> Iterator[tuple[Any, ...]]:
    speeds, own = (0.1, 0.5, 1.0, 3.0), (None, 0.0, 2e-7)
    for first, second in product(speeds, repeat=2):
        for a0, b0 in product(own, (None, 0.001)):
            yield (Replica(4, speed=first), Replica(8, speed=second, a0=a0, b0=b0)), 3e-7, 0.03


def _paces_exact(replicas: Sequence[Replica], a0: float, b0: float) -> bool | None:
    """u*(B_g + A_g*L) is the step time in exact decimals, and u the largest unit that allows it."""
    paces = paces_of(replicas, a0=a0, b0=b0)
    if paces is None:
        return all(r.speed == 1 and r.a0 is None and r.b0 is None for r in replicas)
    for g, replica in enumerate(replicas):
        token, step = (
            Fraction(str(shared if own is None else own)) / Fraction(str(replica.speed))
            for own, shared in ((replica.a0, a0), (replica.b0, b0))
        )
        loads = [0] * g + [7]
        found = time_loads(
            loads, per_step=paces.per_step[: g + 1], per_token=paces.per_token[: g + 1]
        )
        if paces.unit_s * found[g] != step + 7 * token:
            return False
    return math.gcd(*paces.per_step, *paces.per_token) == 1


N2 = Statement(
    id="N2",
    title="The identity for unequal replicas",
    claim="If replica g takes B_g units of time a step and A_g a token, the idle time at the "
    "barrier is I_T = G max T - sum T, T_g = B_g + A_g L_g, and admitting Delta to g lowers it by "
    "exactly the F-score of A_g Delta at margin max T - T_g; the product's tick decides by it.",
    latex=r"I_T(L) - I_T(L + x e_g) = A_g x - G(A_g x - m_g)_+,\quad m_g = \max_j T_j - T_g",
    hypotheses=("A_g, B_g >= 0", "Delta >= 0", "all replicas step together, idle ones too"),
    source="this project; the identity for heterogeneous replicas",
    about=(time_f_score, time_loads, paces_of, one_step_weights, *IMBALANCE, BalanceRoute),
    layers=(
        symbolic("every G, by regions", _unequal_regions),
        smt("every real G and A", _unequal_goals),
        execution(
            "the product's score, G = 2 all real A, B; G = 3 with A = 1, 2, 3", _identity_programs
        ),
        execution(
            "the product's tick, two unequal replicas, 2 requests, all real loads", _tick_programs
        ),
        exhaustive(
            "the product's tick, two unequal replicas, 3 requests", _tick_cases, _tick_holds
        ),
        exhaustive(
            "exact units of time of two replicas, every case of 96", _pace_cases, _paces_exact
        ),
    ),
)

STATEMENTS = (N2,)
