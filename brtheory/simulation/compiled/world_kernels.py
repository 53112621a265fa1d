"""The constants and arrays of a compiled run, as its kernels are given them."""

from typing import NamedTuple

from brtheory.routers.fast_horizon_memory_kernels import Horizon
from brtheory.routers.fast_oldest_kernels import (
    Memory,
)
from brtheory.routers.fast_pool_kernels import Pool
from brtheory.routers.fast_replica_kernels import Loads, Out
from brtheory.routers.fast_shortlist_kernels import Shortlist
from brtheory.routers.fast_subset_kernels import Scratch
from brtheory.routers.kernels import Rules
from brtheory.simulation.compiled.state_kernels import (
    Arrivals,
    Heaps,
    Marks,
    Record,
    Replicas,
    Requests,
)

CLOSED, TIMED, BY_STEP = range(3)
JSQ, LEAST_TOKENS, ENGINE_SCORE, ROUND_ROBIN, POOL_FIFO, WINDOW, BALANCE = range(7)


class Setup(NamedTuple):
    """The constants of a run.

    Parameters
    ----------
    router, arrivals
        JSQ .. BALANCE; CLOSED, TIMED or BY_STEP.
    slots, kv_capacity
        Per replica; -1 for unlimited KV capacity.
    horizon, refresh
        H, and steps between two predictions; 0 where loads are not projected.
    population
        Requests in a closed loop.
    window .. room_share
        Of the window router; a negative weight is learned, a negative limit is none.
    limit
        Largest load and pool the router accepts.
    a0, b0
        Of the step time.
    """

    router: int
    arrivals: int
    slots: int
    kv_capacity: int
    horizon: int
    refresh: int
    population: int
    window: int
    wait_weight: float
    wait_scale: float
    age_limit: float
    age_floor_s: float
    size_weight: float
    overflow_weight: int
    longest_first: bool
    hold_s: float
    room_share: float
    limit: int
    a0: float
    b0: float


class World(NamedTuple):
    """All arrays of a run."""

    requests: Requests
    replicas: Replicas
    arrivals: Arrivals
    heaps: Heaps
    marks: Marks
    record: Record


class Tick(NamedTuple):
    """What the pooled routers need."""

    pool: Pool
    loads: Loads
    rules: Rules
    scratch: Scratch
    out: Out
    memory: Memory
    shortlist: Shortlist
    horizon: Horizon
