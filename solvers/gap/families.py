"""Families of instances for the gap report; each request fits an empty replica by construction."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import generate_workload, workload_names
from solvers.gap.cuts import B0, Cut, instance_from_trace, random_cut

A0_SHAPES = 1e-5
"""Seconds per token of the peak, larger than in cuts of traces because the prompts are smaller."""


@dataclass(frozen=True)
class Family:
    """A recipe for instances.

    Parameters
    ----------
    name, summary
        As listed.
    make
        An instance from a random generator.
    synthetic
        Whether its requests are generated.
    """

    name: str
    summary: str
    make: Callable[[np.random.Generator], Instance]
    synthetic: bool = True


def families() -> dict[str, Family]:
    """All families by name: synthetic shapes first, then cuts of the embedded workloads."""
    shapes = (
        Family("tiny", "8 requests on 2 replicas of 2 slots", _uniform(8, 2, 2)),
        Family("small", "40 requests on 2 replicas of 4 slots", _uniform(40, 2, 4)),
        Family("wide", "60 requests on 4 replicas of 3 slots", _uniform(60, 4, 3)),
        Family("long", "300 requests on 2 replicas of 6 slots", _uniform(300, 2, 6)),
        Family("heavy-tailed", "60 requests, Pareto prompts and outputs, 3 x 4", _heavy_tailed),
        Family("adversarial", "each third request long, 3 replicas of 4 slots", _adversarial),
    )
    cuts = (
        Family(name, f"60 requests cut from the synthetic workload {name}, 3 x 4", _cut(name))
        for name in workload_names()
    )
    return {family.name: family for family in (*shapes, *cuts)}


def find_family(name: str) -> Family:
    """Look a family up.

    Raises
    ------
    InputError
        If there is none of this name; the message lists them.
    """
    known = families()
    if name not in known:
        raise InputError("family", "one of " + ", ".join(known), repr(name))
    return known[name]


def trace_family(trace: Trace, cut: Cut) -> Family:
    """Cuts of a trace, each from another random request on.

    Raises
    ------
    InputError
        If the trace is shorter than the cut.
    """
    if len(trace) < cut.requests:
        raise InputError(trace.name, f"at least {cut.requests} requests", len(trace))
    summary = f"{cut.requests} requests cut from {trace.name}, {cut.replicas} x {cut.slots}"
    return Family(
        trace.name, summary, lambda rng: random_cut(trace, cut, rng=rng), synthetic=trace.synthetic
    )


def _uniform(requests: int, replicas: int, slots: int) -> Callable[[np.random.Generator], Instance]:
    longest_output = 16
    span = int(requests * longest_output / 2 / (replicas * slots))
    return lambda rng: random_instance(
        rng,
        requests=requests,
        replicas=replicas,
        slots=slots,
        longest_prompt=400,
        longest_output=longest_output,
        latest_ready=max(1, span),
        a0=A0_SHAPES,
        b0=B0,
    )


def _heavy_tailed(rng: np.random.Generator) -> Instance:
    """Pareto tails of index 1.5, cut at 100 times the least."""
    count = 60
    prompts = np.minimum(50 * (1 + rng.pareto(1.5, count)), 5000).astype(np.int64)
    outputs = np.minimum(4 * (1 + rng.pareto(1.5, count)), 400).astype(np.int64)
    span = int(outputs.sum() / (3 * 4))
    ready = np.sort(rng.integers(0, span + 1, count))
    return _instance(ready, prompts, outputs, replicas=3, slots=4)


def _adversarial(rng: np.random.Generator) -> Instance:
    """Rounds of three: two short requests and a long one, which count-based routers stack up."""
    rounds = 16
    outputs = np.tile([40, 2, 2], rounds) + rng.integers(0, 2, 3 * rounds)
    prompts = np.tile([200, 20, 20], rounds) + rng.integers(0, 5, 3 * rounds)
    ready = np.repeat(np.arange(rounds) * 10, 3)
    return _instance(ready, prompts, outputs, replicas=3, slots=4)


def _cut(name: str) -> Callable[[np.random.Generator], Instance]:
    def make(rng: np.random.Generator) -> Instance:
        cut = Cut()
        trace = generate_workload(name, requests=cut.requests, seed=int(rng.integers(2**31)))
        return instance_from_trace(trace, cut)

    return make


def _instance(
    ready: NDArray[np.int64],
    prompts: NDArray[np.int64],
    outputs: NDArray[np.int64],
    *,
    replicas: int,
    slots: int,
) -> Instance:
    rows = zip(ready.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
    return Instance(
        replicas=replicas,
        slots=slots,
        kv_capacity=None,
        requests=tuple(OfflineRequest(i, k, s, o) for i, (k, s, o) in enumerate(rows)),
        a0=A0_SHAPES,
        b0=B0,
    )
