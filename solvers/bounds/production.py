"""Instances at production scale whose optimum can only be bracketed: 2,000 requests of a trace.

Requests are admitted as they arrive (FIFO, slots never bind), so the admission steps are the same
for every router and case (A) is the exact yardstick. What the bracket is worth depends on how much
one request weighs beside a replica's load, so the presets come in two densities: ``g8`` and ``g16``
hold 48 active requests a replica on average, ``g8-light`` and ``g16-light`` 16.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.registry import find_router
from brtheory.simulation.replay import replay
from brtheory.simulation.run import seeded
from brtheory.traces.schema import Trace
from solvers.gap.cuts import Cut, instance_from_trace

SLOTS = 64
"""Slots of a replica, and what they grow by where bursts need more."""
A0, B0 = 1.5e-7, 0.02
"""Seconds per token of the peak and per step, as of a published planner with dozens of slots."""
REQUESTS = 2000
WORKLOAD = "proprietary-surrogate"
"""Where requests come from if nothing else is asked for."""


@dataclass(frozen=True)
class Preset:
    """A kind of instance at production scale.

    Parameters
    ----------
    replicas
        G.
    active
        Mean number of active requests a replica.
    """

    replicas: int
    active: int

    def instance(self, trace: Trace, *, requests: int = REQUESTS, seed: int = 0) -> Instance:
        """The first requests of a trace as ``seed`` sees it, each ready when it arrives.

        Arrivals keep their spacing and are stretched to the mean number of active requests.

        Raises
        ------
        InputError
            If the trace has fewer requests.
        """
        if len(trace) < requests:
            raise InputError(trace.name, f"at least {requests} requests", len(trace))
        cut = Cut(
            requests=requests,
            replicas=self.replicas,
            slots=SLOTS,
            load=self.active / SLOTS,
        )
        instance = replace(
            instance_from_trace(seeded(trace, seed).head(requests), cut), a0=A0, b0=B0
        )
        most = max(count for _, count, _, _ in _active_spans(instance))
        return replace(instance, slots=SLOTS * (most // (self.replicas * SLOTS) + 1))


PRESETS = MappingProxyType(
    {
        "g8": Preset(8, 48),
        "g16": Preset(16, 48),
        "g8-light": Preset(8, 16),
        "g16-light": Preset(16, 16),
    }
)


def find_preset(name: str) -> Preset:
    """The preset of a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in PRESETS:
        raise InputError("--preset", "one of " + ", ".join(PRESETS), name)
    return PRESETS[name]


def placed_by(instance: Instance, router: str, *, seed: int) -> Assignment:
    """What a router with default parameters does online; ``br0`` takes the margin first.

    Where slots do not bind, BR-0's default key (free slots first) levels slots and not tokens: its
    margin-first order is the one meant for this regime.
    """
    spec = find_router(router)
    params = BalanceRouteParams(key_order="margin-first") if router == "br0" else spec.params()
    return replay(instance, spec.build(params, np.random.default_rng(seed)))


def effective_requests(instance: Instance) -> float:
    """How many equal requests a replica would have to hold to be as easy to level, > 0.

    With W_k and Q_k the sums of the weights of the active requests at step k and of their squares,
    each started when ready: the mean of W_k^2/(G*Q_k) over steps, step k counting W_k times (Kish's
    effective size). Equal requests give their number a replica, unequal ones less.

    Raises
    ------
    InputError
        If there is no request.
    """
    if not instance.requests:
        raise InputError("requests", "at least one request", 0)
    total = weighted = 0.0
    for length, count, weight, squares in _active_spans(instance):
        total += length * weight
        weighted += length * weight**3 / squares if count else 0.0
    return weighted / (instance.replicas * total)


def prompt_share(instance: Instance) -> float:
    """Share of the work W that prompts make, sum_i o_i*s_i / W: what a router sees at arrival.

    The rest, o_i*(o_i - 1)/2 of each request, is KV growth, of which BR-0 knows nothing.

    Raises
    ------
    InputError
        If there is no request.
    """
    if not instance.requests:
        raise InputError("requests", "at least one request", 0)
    return sum(r.prompt_tokens * r.output_tokens for r in instance.requests) / instance.total_work


def _active_spans(instance: Instance) -> Iterator[tuple[int, int, float, float]]:
    """Between events: steps, active requests, their weights' sum and sum of squares halfway."""
    events = sorted(
        event
        for r in instance.requests
        for event in (
            (r.ready, 1, r.prompt_tokens - r.ready),
            (r.ready + r.output_tokens, -1, r.prompt_tokens - r.ready),
        )
    )
    count = at_zero = squares = 0
    before = events[0][0] if events else 0
    for step, change, weight in events:
        if step > before:
            middle = (before + step - 1) / 2
            yield (
                step - before,
                count,
                at_zero + count * middle,
                squares + 2 * middle * at_zero + count * middle**2,
            )
        before = step
        count, at_zero = count + change, at_zero + change * weight
        squares += change * weight**2
