"""Instances cut from a trace: consecutive requests in steps, at an offered slot load."""

from dataclasses import dataclass, replace

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.traces.schema import Trace

A0_CUTS, B0 = 2e-6, 0.01
"""Seconds per token of the peak and per step: scenario parameters, chosen so that with these few
slots the peak takes about half of a step, as on published systems with their dozens of slots."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How to cut an instance out of a trace.

    Parameters
    ----------
    requests
        Consecutive requests in an instance, >= 1.
    replicas, slots
        G and B.
    load
        Mean number of slots asked for over G*B, > 0: the span of the ready steps is
        sum of outputs / (G*B*load).

    Raises
    ------
    InputError
        If one of them is out of range.
    """

    requests: int = 60
    replicas: int = 3
    slots: int = 4
    load: float = 1.0

    def __post_init__(self) -> None:
        for name in ("requests", "replicas", "slots"):
            if getattr(self, name) < 1:
                raise InputError(name, "a number >= 1", getattr(self, name))
        if not 0 < self.load < float("inf"):
            raise InputError("load", "a number > 0", self.load)


def random_cut(trace: Trace, cut: Cut, *, rng: np.random.Generator) -> Instance:
    """Consecutive requests of a trace from a random one on.

    Raises
    ------
    InputError
        If the trace is shorter than the cut.
    """
    if len(trace) < cut.requests:
        raise InputError(trace.name, f"at least {cut.requests} requests", len(trace))
    first = int(rng.integers(len(trace) - cut.requests + 1))
    rows = slice(first, first + cut.requests)
    part = replace(
        trace,
        arrival_s=trace.arrival_s[rows],
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        prefix_id=None,
    )
    return instance_from_trace(part, cut)


def instance_from_trace(trace: Trace, cut: Cut) -> Instance:
    """All requests of a trace in steps, spaced as their arrivals."""
    span = int(trace.output_tokens.sum() / (cut.replicas * cut.slots * cut.load))
    arrivals = trace.arrival_s - trace.arrival_s[0]
    last = float(arrivals[-1])
    ready = np.floor(arrivals * (span / last)) if last > 0 else np.zeros(len(arrivals))
    rows = zip(
        ready.astype(np.int64).tolist(),
        trace.prompt_tokens.tolist(),
        trace.output_tokens.tolist(),
        strict=True,
    )
    return Instance(
        replicas=cut.replicas,
        slots=cut.slots,
        kv_capacity=None,
        requests=tuple(OfflineRequest(i, k, s, o) for i, (k, s, o) in enumerate(rows)),
        a0=A0_CUTS,
        b0=B0,
    )
