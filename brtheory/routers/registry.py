"""Routers by name: what exists, which family it is of, which parameters it takes, how to build it.

Packages of the distribution add routers through the entry-point group ``brtheory.routers``: each
entry point is a ``RouterSpec``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

import numpy as np

from brtheory.errors import InputError
from brtheory.routers.backend import Backend, choose_backend
from brtheory.routers.baselines import (
    EngineScore,
    JoinShortestQueue,
    LeastTokens,
    PoolFifo,
    PowerOfTwo,
    Random,
    RoundRobin,
)
from brtheory.routers.bf_io import BalanceFuture
from brtheory.routers.fast import FastBalanceRoute, FastEngine, FastPoolFifo, FastWindow
from brtheory.routers.growing import horizon_router, speed_up_horizon
from brtheory.routers.params import (
    BalanceFutureParams,
    BalanceRouteParams,
    HorizonParams,
    NoParams,
    WindowParams,
)
from brtheory.routers.protocol import Router
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.window import Window

Family = Literal["immediate", "pooled"]


@dataclass(frozen=True)
class RouterSpec:
    """One router of the registry.

    Parameters
    ----------
    name
        As typed after ``--router``.
    family
        Binds at arrival (``immediate``) or late (``pooled``).
    summary
        One line for listings.
    build
        Makes a fresh router from validated parameters and a random generator; where there are
        faster engines, the readable reference.
    params
        Dataclass of its parameters.
    needs_predictor
        Whether a tick needs loads projected by a predictor.
    speed_up
        Wraps a fresh reference router into the same decisions by a fast engine; None where the
        reference is all there is.
    """

    name: str
    family: Family
    summary: str
    build: Callable[[Any, np.random.Generator], Router]
    params: type = NoParams
    needs_predictor: bool = False
    speed_up: Callable[[Any, FastEngine], Router] | None = None


_BUILT_IN = (
    RouterSpec("random", "immediate", "a random replica", lambda _params, rng: Random(rng)),
    RouterSpec("round-robin", "immediate", "replicas in turn", lambda _params, _rng: RoundRobin()),
    RouterSpec(
        "p2c",
        "immediate",
        "two random replicas, the one with fewer requests",
        lambda _params, rng: PowerOfTwo(rng),
    ),
    RouterSpec("jsq", "immediate", "fewest requests", lambda _params, _rng: JoinShortestQueue()),
    RouterSpec(
        "engine-score",
        "immediate",
        "the engine's own score, 4*waiting + running",
        lambda _params, _rng: EngineScore(),
    ),
    RouterSpec(
        "least-tokens",
        "immediate",
        "least KV tokens, running and queued",
        lambda _params, _rng: LeastTokens(),
    ),
    RouterSpec(
        "pool-fifo",
        "pooled",
        "late binding, oldest request first, no score",
        lambda _params, _rng: PoolFifo(),
        speed_up=FastPoolFifo,
    ),
    RouterSpec(
        "br0",
        "pooled",
        "BR-0: two-stage tick on the one-step F-score",
        lambda params, _rng: BalanceRoute(params),
        BalanceRouteParams,
        speed_up=FastBalanceRoute,
    ),
    RouterSpec(
        "brh",
        "pooled",
        "BR-H: the same tick on loads projected over a horizon",
        lambda params, _rng: horizon_router(params),
        HorizonParams,
        needs_predictor=True,
        speed_up=speed_up_horizon,
    ),
    RouterSpec(
        "bf-io",
        "pooled",
        "the companion paper's published rule: fill the smallest margin over a horizon",
        lambda params, _rng: BalanceFuture(params),
        BalanceFutureParams,
        needs_predictor=True,
    ),
    RouterSpec(
        "window",
        "pooled",
        "of the oldest requests the one that fits the least-loaded replica best, waits weighed in",
        lambda params, _rng: Window(params),
        WindowParams,
        speed_up=FastWindow,
    ),
)


@cache
def router_specs() -> dict[str, RouterSpec]:
    """All routers by name, built-in ones first."""
    specs = {spec.name: spec for spec in _BUILT_IN}
    for entry in sorted(entry_points(group="brtheory.routers"), key=lambda entry: entry.name):
        spec: RouterSpec = entry.load()
        specs[spec.name] = spec
    return specs


def build_router(
    spec: RouterSpec, params: object, rng: np.random.Generator, *, backend: Backend = "numpy"
) -> Router:
    """Make a fresh router; every backend decides identically.

    Parameters
    ----------
    spec, params, rng
        What to build, its validated parameters, its source of randomness.
    backend
        ``numpy`` starts at once, ``compiled`` is fastest once numba has loaded, ``auto`` takes
        what is installed, ``reference`` reads like the paper.

    Warns
    -----
    RuntimeWarning
        If ``compiled`` was asked for and numba is not installed; numpy is taken instead.
    """
    router = spec.build(params, rng)
    engine = choose_backend(backend)
    if spec.speed_up is None or engine == "reference":
        return router
    return spec.speed_up(router, engine)


def find_router(name: str) -> RouterSpec:
    """Look a router up.

    Raises
    ------
    InputError
        If no router has this name; the message lists the names.
    """
    specs = router_specs()
    if name not in specs:
        raise InputError("router", "one of " + ", ".join(specs), repr(name))
    return specs[name]
