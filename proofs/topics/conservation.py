"""T17: conservation of work, so that minimising imbalance is minimising barrier time."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import sympy as sp

from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from proofs.formulas import reals
from proofs.layers.kernel import kernel
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.layers.symbolic import Obligation, symbolic, zero
from proofs.product import LIST
from proofs.statement import Statement


def _regions() -> Iterator[Obligation]:
    prompt = sp.Symbol("s", positive=True)
    output, age = sp.symbols("o a", positive=True, integer=True)
    weighed = sp.summation(prompt + age, (age, 0, output - 1))
    yield zero("one request", weighed - (output * prompt + output * (output - 1) / 2))


def _goals() -> Iterator[Goal]:
    prompt, age, done, idle, peaks, work, count, peak, load = reals("s a w Isum Msum W G M L")
    closed = 2 * done == 2 * age * prompt + age * (age - 1)
    grown = 2 * (done + prompt + age) == 2 * (age + 1) * prompt + (age + 1) * age
    yield Goal(grown, [closed, age >= 0], "one request: one more step")
    # A step's loads are what its active requests weigh, wherever they run: W grows by their sum.
    yield Goal(
        idle + (count * peak - load) == count * (peaks + peak) - (work + load),
        [idle == count * peaks - work],
        "all requests: one more step",
    )


def _instances() -> Iterator[tuple[Any, ...]]:
    for prompts in product((1, 4), repeat=3):
        for outputs in product((1, 2, 5), repeat=3):
            for replicas in ((0, 0, 0), (0, 1, 0), (0, 1, 2)):
                for steps in ((0, 0, 0), (0, 3, 1), (0, 1, 9)):
                    yield prompts, outputs, replicas, steps


def _holds(prompts: Any, outputs: Any, replicas: Any, steps: Any) -> bool:
    """The judge against a step-by-step sum, and both against the conserved work."""
    requests = tuple(
        OfflineRequest(i, 0, s, o) for i, (s, o) in enumerate(zip(prompts, outputs, strict=True))
    )
    instance = Instance(3, 3, None, 1.0, 1.0, requests)
    places = tuple(Placement(i, g, k) for i, (g, k) in enumerate(zip(replicas, steps, strict=True)))
    found = evaluate(instance, places)
    peaks = 0
    for k in range(max(k + o for k, o in zip(steps, outputs, strict=True))):
        loads = [0, 0, 0]
        for i, g, start in zip(range(3), replicas, steps, strict=True):
            if start <= k < start + outputs[i]:
                loads[g] += prompts[i] + k - start
        peaks += max(loads)
    work = sum(o * s + o * (o - 1) // 2 for s, o in zip(prompts, outputs, strict=True))
    return (
        found.sum_load == work == instance.total_work
        and found.sum_peak == peaks
        and found.imbalance_total == 3 * peaks - work
    )


T17 = Statement(
    id="T17",
    title="Conservation of work",
    claim="For every sticky schedule the loads of all steps and replicas sum to "
    "W = sum_i (o_i s_i + o_i (o_i - 1)/2); so total imbalance = G sum_k M(k) - W, and minimising "
    "it is minimising total barrier time.",
    latex=r"\sum_{k,g} L_g(k) = \sum_i \left(o_i s_i + \tfrac{o_i(o_i-1)}2\right),\quad "
    r"\sum_k I = G \sum_k M - W",
    hypotheses=("every request runs its o_i steps on one replica",),
    source=LIST,
    about=(evaluate, OfflineRequest),
    layers=(
        symbolic("every prompt and output length", _regions),
        smt("any number of requests and steps, by induction", _goals),
        exhaustive("the judge, G = 3, three requests", _instances, _holds),
        kernel(
            "every G and schedule, all integer prompts",
            "Conservation.conservation",
            "Conservation.imbalance_is_barrier_time",
        ),
    ),
)

STATEMENTS = (T17,)
