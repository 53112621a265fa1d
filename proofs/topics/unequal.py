"""N2: the increment identity where replicas differ in speed."""

from collections.abc import Iterator
from typing import Any

import sympy as sp

from brtheory.core.imbalance import imbalance, margins
from proofs.formulas import (
    larger,
    positive_part_of,
    reals,
)
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.executor import Real, named
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import (
    IMBALANCE,
    SCORE,
    added,
    score,
)
from proofs.statement import Statement


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


def _unequal_programs() -> Iterator[Program]:
    for count in (2, 3):
        loads, speeds, delta = named("L", count), named("c", count), Real("x")

        def run(loads: Any = loads, speeds: Any = speeds, delta: Any = delta) -> Obligations:
            weighted = [c * load for c, load in zip(speeds, loads, strict=True)]
            after = added(weighted, 0, speeds[0] * delta)
            gain = imbalance(weighted) - imbalance(after)
            yield "gain", gain == score(len(loads), margins(weighted)[0], speeds[0] * delta)

        # Two replicas with free speeds, three with the speeds 1, 2, 3: the latter stays linear.
        fixed = [] if count == 2 else [c == g + 1 for g, c in enumerate(speeds)]
        positive = [c > 0 for c in speeds]
        yield Program(run, [delta >= 0, *positive, *fixed], f"G = {count}")


N2 = Statement(
    id="N2",
    title="The identity for unequal replicas",
    claim="If replica g takes c_g seconds a token, the idle time at the barrier is "
    "I_c = G max_g c_g L_g - sum_g c_g L_g, and admitting Delta to g lowers it by exactly the "
    "F-score of c_g Delta at margin max_j c_j L_j - c_g L_g.",
    latex=r"I_c(L) - I_c(L + x e_g) = c_g x - G(c_g x - m^c_g)_+",
    hypotheses=("c_g > 0", "Delta >= 0"),
    source="this project; the identity for heterogeneous replicas",
    about=(*SCORE, *IMBALANCE),
    layers=(
        symbolic("every G, by regions", _unequal_regions),
        smt("every real G and c", _unequal_goals),
        execution("G = 2 all real c, G = 3 with c = 1, 2, 3", _unequal_programs),
    ),
)

STATEMENTS = (N2,)
