"""Instances at production scale whose optimum can only be bracketed: 2,000 requests of a workload.

Requests are admitted as they arrive (FIFO, slots never bind), so the admission steps are the same
for every router and case (A) is the exact yardstick. What the bracket is worth depends on how much
one request weighs beside a replica's load, so the presets come in two densities: ``g8`` and ``g16``
fill three quarters of 64 slots, ``g8-light`` and ``g16-light`` one quarter.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.registry import find_router
from brtheory.simulation.replay import replay
from brtheory.traces.workloads import generate_workload
from solvers.gap.cuts import Cut, instance_from_trace

SLOTS = 64
A0, B0 = 1.5e-7, 0.02
"""Seconds per token of the peak and per step, as of a published planner with dozens of slots."""


@dataclass(frozen=True)
class Preset:
    """A kind of instance at production scale.

    Parameters
    ----------
    replicas
        G.
    active
        Mean number of active requests a replica, < ``SLOTS``.
    requests
        Requests in all.
    workload
        Where prompts, outputs and the spacing of arrivals come from.
    """

    replicas: int
    active: int
    requests: int = 2000
    workload: str = "proprietary-surrogate"

    def instance(self, seed: int) -> Instance:
        """The instance of a seed: another sample of the workload."""
        trace = generate_workload(self.workload, requests=self.requests, seed=seed)
        cut = Cut(
            requests=self.requests,
            replicas=self.replicas,
            slots=SLOTS,
            load=self.active / SLOTS,
        )
        return replace(instance_from_trace(trace, cut), a0=A0, b0=B0)


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
