"""T22 - T24: where the horizon score is exact, by how much it errs, and the exact one.

    F_H(x) = A*x - sum_h w_h*(x - m_h)_+,   A = alpha*(1'd),  w_h = beta*d_h

Claims about every H go by induction over the steps: a window is a prefix and one more step.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import sympy as sp
import z3

from brtheory.core.fscore import f_score
from brtheory.core.growing_score import growing_score, step_rewards, tokens_ahead
from brtheory.core.imbalance import imbalance, margins
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from proofs.formulas import larger, positive_part_of, reals, score_of
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import IMBALANCE, LIST, added, score
from proofs.statement import Statement
from proofs.topics.horizon import HORIZON, STEPWISE, weights_of


def discounts_of(weights: Any, replicas: int) -> list[int]:
    """d_h in units in which one step's score is F: w_h / G."""
    return [price // replicas for price in weights.overflow]


def _t22_goals() -> Iterator[Goal]:
    replicas, top, load, rest, delta, prefix, gained, d = reals("G M L S x P W d")
    before = replicas * top - rest
    after = replicas * larger(top, load + delta) - (rest + delta)
    step = d * delta - replicas * d * positive_part_of(delta - (top - load))
    yield Goal(
        prefix + step == gained + d * (before - after),
        [delta >= 0, top >= load, prefix == gained],
        "one more step",
    )


def _t22_programs() -> Iterator[Program]:
    for horizon, replicas in ((1, 2), (2, 2), (1, 3)):
        rows = [named(f"L{h}_", replicas) for h in range(horizon + 1)]
        delta, weights = Real("x"), weights_of(replicas, horizon, 0.9)

        def run(rows: Any = rows, delta: Any = delta, weights: Any = weights) -> Obligations:
            window = [margins(row)[0] for row in rows]
            gained: Any = 0
            for d, row in zip(discounts_of(weights, len(rows[0])), rows, strict=True):
                gained += d * (imbalance(row) - imbalance(added(row, 0, delta)))
            yield "the discounted change", f_score(delta, window, weights) == gained

        yield Program(run, [delta >= 0], f"H = {horizon}, G = {replicas}")


T22 = Statement(
    id="T22",
    title="Exact without growth and completion of the admitted set",
    claim="If what is admitted neither grows nor completes within the horizon, F_H is the "
    "discounted change of imbalance, whatever the other loads do.",
    latex=r"F_H(x) = -\sum_h d_h\, \Delta I(k+h)",
    hypotheses=("alpha = 1, beta = G", "Delta >= 0, constant over the horizon"),
    source=LIST,
    about=(*HORIZON, *IMBALANCE),
    layers=(
        smt(STEPWISE, _t22_goals),
        execution("G = 2, H = 1, 2 and G = 3, H = 1, all real load trajectories", _t22_programs),
    ),
)


def _t23_goals() -> Iterator[Goal]:
    replicas, margin, x, grown, d, error, bound = reals("G m x g d E S")
    change = score_of(replicas, margin, x + grown) - score_of(replicas, margin, x)
    # E: discounted error of the prefix; S: its sum of d_h * growth.
    yield Goal(
        z3.And(change <= grown, change >= -(replicas - 1) * grown),
        [replicas >= 1, grown >= 0],
        "one step",
    )
    moved = reals("c")[0]
    yield Goal(
        z3.And(
            error + d * moved <= bound + d * grown,
            error + d * moved >= -(replicas - 1) * (bound + d * grown),
        ),
        [
            d >= 0,
            grown >= 0,
            moved <= grown,
            moved >= -(replicas - 1) * grown,
            error <= bound,
            error >= -(replicas - 1) * bound,
        ],
        "discounted steps add up",
    )


def _t23_regions() -> Iterator[Obligation]:
    replicas, margin, t, k, d = sp.symbols("G m t k d", positive=True)
    h = sp.Symbol("h", positive=True, integer=True)
    fits, exceeds = margin - t, margin + t
    small = score(replicas, fits + k * h + t, fits + k * h) - score(
        replicas, fits + k * h + t, fits
    )
    yield zero("all steps fit: the error is + k h d", d * small - d * k * h)
    large = score(replicas, margin, exceeds + k * h) - score(replicas, margin, exceeds)
    yield zero("all steps overflow: it is -(G-1) k h d", d * large + (replicas - 1) * d * k * h)


def _t23_programs() -> Iterator[Program]:
    for horizon in (1, 2):
        window, x, count = named("m", horizon + 1), Real("x"), Real("k")
        weights = weights_of(8, horizon, 0.9)

        def run(
            window: Any = window, weights: Any = weights, x: Any = x, count: Any = count
        ) -> Obligations:
            discounts = discounts_of(weights, 8)
            steps = list(enumerate(zip(discounts, window, strict=True)))
            exact: Any = sum(d * score(8, m, x + h * count) for h, (d, m) in steps)
            error = exact - f_score(x, window, weights)
            growth = sum(h * d for h, d in enumerate(discounts))
            yield "at most k S", error <= growth * count
            yield "at least -(G-1) k S", error >= -(7 * growth) * count

        yield Program(run, [count >= 0], f"G = 8, H = {horizon}")


T23 = Statement(
    id="T23",
    title="What ignoring growth costs",
    claim="With k growing requests the exact windowed score differs from F_H by between "
    "-(G-1) k S and k S, S = sum_h h d_h; both ends are attained.",
    latex=r"-(G-1)kS \le \sum_h d_h F_0(m_h, x+kh) - F_H(x) \le kS",
    hypotheses=("alpha = 1, beta = G", "none of the k completes within the horizon"),
    source=LIST,
    about=HORIZON,
    layers=(
        symbolic("both ends attained, every G, by regions", _t23_regions),
        smt("one step, every real G, and discounted sums", _t23_goals),
        execution("the product's weights, G = 8, H = 1, 2, all real margins, x, k", _t23_programs),
    ),
)


def _t24_goals() -> Iterator[Goal]:
    replicas, top, load, rest, x_h, prefix, gained, d = reals("G M L S xh P W d")
    after = replicas * larger(top, load + x_h) - (rest + x_h)
    yield Goal(
        prefix + d * score_of(replicas, top - load, x_h)
        == gained + d * ((replicas * top - rest) - after),
        [x_h >= 0, top >= load, prefix == gained],
        "one more step with its own increment",
    )


def _t24_programs() -> Iterator[Program]:
    for horizon, replicas in ((1, 2), (2, 2), (1, 3)):
        rows = [named(f"L{h}_", replicas) for h in range(horizon + 1)]
        tokens, weights = named("x", horizon + 1), weights_of(replicas, horizon, 0.9)

        def run(rows: Any = rows, tokens: Any = tokens, weights: Any = weights) -> Obligations:
            rewards = step_rewards(horizon=weights.horizon, discount=0.9, reward_weight=1.0)
            window = [margins(row)[0] for row in rows]
            gained: Any = 0
            for d, row, x in zip(rewards, rows, tokens, strict=True):
                gained += d * (imbalance(row) - imbalance(added(row, 0, x)))
            exact = growing_score(tokens, window, rewards, weights.overflow)
            yield "the discounted change", exact == gained

        yield Program(run, [x >= 0 for x in tokens], f"H = {horizon}, G = {replicas}")


def _t24_holds(sizes: tuple[int, ...], outputs: tuple[int, ...], replica: int) -> bool:
    """The product's score of what Q weighs at each step, against the judge with and without Q."""
    background = (OfflineRequest(90, 0, 3, 4), OfflineRequest(91, 0, 1, 2))
    admitted = [
        OfflineRequest(i, 0, s, o) for i, (s, o) in enumerate(zip(sizes, outputs, strict=True))
    ]
    at = [Placement(90, 0, 0), Placement(91, 1, 0)]
    wastes = []
    for extra in ((), admitted):
        instance = Instance(2, 9, None, 1.0, 1.0, (*background, *extra))
        places = (*at, *[Placement(r.id, replica, 0) for r in extra])
        wastes.append(evaluate(instance, places).imbalance_total or 0)
    horizon = max(4, *outputs) - 1
    window = []
    for h in range(horizon + 1):
        loads = [sum(r.prompt_tokens + h for r in background if r.id == 90 + g
                     and h < r.output_tokens) for g in (0, 1)]  # fmt: skip
        window.append(margins(loads)[replica])
    ahead = [
        tokens_ahead(r.prompt_tokens, steps_present=r.output_tokens, horizon=horizon)
        for r in admitted
    ]
    tokens = [sum(column) for column in zip(*ahead, strict=True)]
    rewards = step_rewards(horizon=horizon, discount=1.0, reward_weight=1.0)
    exact = growing_score(tokens, window, rewards, weights_of(2, horizon).overflow)
    return exact == rewards[0] * (wastes[0] - wastes[1])


def _t24_cases() -> Iterator[tuple[Any, ...]]:
    for count in (1, 2):
        for sizes in product((1, 2, 5), repeat=count):
            for outputs in product((1, 3, 6), repeat=count):
                for replica in (0, 1):
                    yield sizes, outputs, replica


T24 = Statement(
    id="T24",
    title="The exact horizon score",
    claim="sum_h d_h F_0(m_h, x_h) with x_h = sum_i (s_i + h)[h < c_i] is the true discounted "
    "change of imbalance, growth and completions of the admitted set included.",
    latex=r"\sum_h d_h F_0(m_h, x_h) = -\sum_h d_h\, \Delta I(k+h)",
    hypotheses=("c_i is the true remaining length",),
    source=LIST,
    about=(growing_score, step_rewards, tokens_ahead, *IMBALANCE, evaluate),
    layers=(
        smt(STEPWISE, _t24_goals),
        execution(
            "the product's score, G = 2, H = 1, 2 and G = 3, H = 1, all real loads and x_h",
            _t24_programs,
        ),
        exhaustive("the judge, G = 2, one or two admitted requests", _t24_cases, _t24_holds),
    ),
)

STATEMENTS = (T22, T23, T24)
