"""Random tiny problems with admission steps that slots allow, for the tests of exact methods."""

import numpy as np

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance
from brtheory.routers.baselines import PoolFifo
from brtheory.simulation.replay import replay


def tiny_instance(
    seed: int,
    *,
    requests: int = 6,
    kv: bool = False,
    latest_ready: int = 5,
    longest_output: int = 6,
    replicas: int | None = None,
    slots: int | None = None,
) -> Instance:
    """An instance of 1 .. ``requests`` requests on 1 .. 4 replicas with 1 .. 3 slots."""
    rng = np.random.default_rng(seed)
    return random_instance(
        rng,
        requests=int(rng.integers(1, requests + 1)),
        replicas=int(rng.integers(1, 5)) if replicas is None else replicas,
        slots=int(rng.integers(1, 4)) if slots is None else slots,
        longest_output=longest_output,
        latest_ready=latest_ready,
        kv_headroom=float(rng.uniform(1.0, 2.5)) if kv else None,
    )


def fifo_steps(instance: Instance) -> dict[int, int]:
    """Admission steps of the pooled FIFO router: feasible in case A by construction."""
    return {p.id: p.step for p in replay(instance, PoolFifo())}


def tiny_tick(seed: int, *, horizon: int = 0, kv: bool = False) -> TickState:
    """A tick of 1 .. 3 replicas, up to 2 free slots each and 1 .. 5 pooled requests."""
    rng = np.random.default_rng(seed)
    replicas = int(rng.integers(1, 4))
    prompts = rng.integers(1, 20, size=int(rng.integers(1, 6))).tolist()
    pool = [
        Request(i, s, reserved_tokens=s + int(rng.integers(1, 9))) for i, s in enumerate(prompts)
    ]
    return TickState(
        loads=rng.integers(0, 40, size=(replicas, horizon + 1)).tolist(),
        free_slots=rng.integers(0, 3, size=replicas).tolist(),
        pool=pool,
        free_tokens=rng.integers(5, 40, size=replicas).tolist() if kv else None,
    )
