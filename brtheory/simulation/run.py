"""One simulated run from a trace and names: the entry point for command line, studies and tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.prediction.exact_match import prefix_lookup
from brtheory.prediction.model_file import load_model
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.protocol import Predictor
from brtheory.prediction.registry import (
    ONLINE_PREDICTORS,
    PredictorOptions,
    build_online_predictor,
)
from brtheory.routers.backend import (
    Backend,
    choose_backend,
    compiled_available,
    kernels_cached,
)
from brtheory.routers.protocol import PooledRouter, Router, following, limited_ticks
from brtheory.routers.registry import RouterSpec, build_router, find_router
from brtheory.simulation.arrivals import PrefillDelay
from brtheory.simulation.bursts import burst_arrivals
from brtheory.simulation.compiled.support import supported
from brtheory.simulation.engine import Simulation
from brtheory.simulation.meter import StepObserver
from brtheory.simulation.metrics import metric, summarise
from brtheory.simulation.perturbation import Perturbation, drifted, misled, observed
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.record import RunRecord
from brtheory.simulation.spec import ArrivalSpec
from brtheory.simulation.transfer import TransferDelay
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime
from brtheory.traces.schema import Trace

SATURATION = ArrivalSpec("closed", 3.0)
"""The load at which BR-0's request rate defines rho = 1."""

ROTATION_STREAM, ROUTER_STREAM, POISSON_STREAM, BURST_STREAM, TOKEN_STREAM, DRIFT_STREAM = range(6)
"""Independent random streams of one seed."""

WORTH_LOADING = 10_000
"""Requests from which on a compiled run saves more time than loading compiled kernels takes."""
WORTH_COMPILING = 500_000
"""Requests from which on it also saves the minute that compiling them for the first time takes."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that defines a run besides the trace.

    Parameters
    ----------
    router
        Name in the registry.
    shape
        The cluster.
    params
        Validated parameters of the router; None for its defaults.
    predictor
        Name of the predictor for routers that need one: ``oracle``, or one that learns as the run
        goes (``survival``, ``exact-match``, ``learned``), or ``learned:FILE``, a trained model.
    arrivals, step_time, prefill
        How requests arrive, b0 + a0*M, and the delay before they are ready.
    transfer
        KV transfer between binding and the first decode step; None for none.
    perturbation
        What is late, misjudged or drifting; None for nothing.
    seed
        Drives the router's randomness, Poisson arrivals and, above 0, the rotation of the trace.
    backend
        ``reference``, ``numpy`` or ``compiled``: how ticks are decided, and with ``compiled``
        whether the whole loop is compiled where it can be. ``auto`` compiles runs that are worth
        it and takes numpy for the others. Results are the same (the modelled energy within 1e-9).
    """

    router: str
    shape: ClusterShape
    params: object | None = None
    predictor: str = "oracle"
    arrivals: ArrivalSpec = field(default_factory=lambda: ArrivalSpec("closed", 1.25))
    step_time: StepTime = field(default_factory=StepTime)
    prefill: PrefillDelay = field(default_factory=PrefillDelay)
    seed: int = 0
    backend: Backend = "auto"
    transfer: TransferDelay | None = None
    perturbation: Perturbation | None = None


def simulate(
    trace: Trace,
    config: RunConfig,
    *,
    observers: Sequence[StepObserver] = (),
    longest_stride: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> RunRecord:
    """Run a trace through a router on a simulated cluster.

    Parameters
    ----------
    trace
        Requests in file order; generated workloads already carry their seed, real traces are
        rotated by a random offset when ``config.seed > 0``.
    config
        Router, cluster and arrivals.
    observers, longest_stride, on_progress
        As ``Simulation``.

    Raises
    ------
    InputError
        If the trace is empty or a name is unknown.
    InfeasibleError
        If a request can never fit the KV capacity.
    """
    if not len(trace):
        raise InputError(trace.name, "at least one request", 0)
    wrong = config.perturbation or Perturbation()
    settled = seeded(trace, config.seed)
    trace = drifted(settled, wrong, _stream(config.seed, DRIFT_STREAM))
    spec = find_router(config.router)
    lengths = Lengths(trace.prompt_tokens, trace.output_tokens)
    plan = _plan(trace, config, without_drift=settled)
    predictor = build_predictor(
        spec,
        config.predictor,
        trace.output_tokens,
        horizon=_horizon(spec, config),
        prefix_id=trace.prefix_id,
        seed=config.seed,
    )
    predictor = misled(wrong, predictor, seed=config.seed)
    observation = observed(wrong, trace.prompt_tokens, _stream(config.seed, TOKEN_STREAM))
    watched = bool(observers) or longest_stride is not None
    plain = config.transfer is None and observation is None and config.shape.unequal is None
    if plain and not watched and _wants_compiled(len(trace), config.backend):
        router = _router(spec, config, "reference")
        if supported(lengths, router, plan, predictor):
            return _compiled(lengths, router, config, plan, on_progress)
    router = _router(spec, config, "numpy" if config.backend == "auto" else config.backend)
    record = Simulation(
        lengths,
        router,
        shape=config.shape,
        arrivals=plan.source(),
        step_time=config.step_time,
        predictor=predictor,
        observers=observers,
        longest_stride=longest_stride,
        on_progress=on_progress,
        transfer=config.transfer,
        observation=observation,
    ).run()
    record.limited_ticks = limited_ticks(router)
    return record


def build_predictor(
    spec: RouterSpec,
    name: str,
    output_tokens: NDArray[np.int64],
    *,
    horizon: int | None = None,
    prefix_id: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Predictor | None:
    """Make the named predictor for a router that needs one, None for the others.

    Parameters
    ----------
    spec
        The router.
    name
        As ``RunConfig.predictor``.
    output_tokens
        The truth by request id, shape (n,): for the oracle only.
    horizon
        H of the router, >= 0 (one that looks no step ahead asks nothing); None where it is not
        known or follows the load, which only ``learned`` minds.
    prefix_id
        Prompt-hash prefixes by request id, shape (n,), -1 for none; None where none has one.
    seed
        Of the training of ``learned``.

    Raises
    ------
    InputError
        If the name is unknown, or a model file does not fit.
    """
    kind, colon, file = name.partition(":")
    if kind not in ("oracle", *ONLINE_PREDICTORS) or (colon and kind != "learned"):
        names = ", ".join(("oracle", *ONLINE_PREDICTORS))
        raise InputError("predictor", f"one of {names}, learned:FILE", repr(name))
    if not spec.needs_predictor or horizon == 0:
        return None
    if kind == "oracle":
        return OraclePredictor(dict(enumerate(output_tokens.tolist())))
    options = PredictorOptions(
        prefix_of=prefix_lookup(prefix_id),
        model=load_model(Path(file)) if colon else None,
        seed=seed,
    )
    if horizon is None and kind == "learned":
        raise InputError("predictor", "one that is not bound to a fixed horizon", repr(name))
    return build_online_predictor(kind, horizon=horizon or 1, options=options)


def seeded(trace: Trace, seed: int) -> Trace:
    """The trace as seed ``seed`` sees it: real ones start at a random request and wrap around.

    Gaps between arrivals move with their requests; the gap at the seam is the mean gap.
    """
    if seed == 0 or trace.synthetic or len(trace) < 2:
        return trace
    offset = int(_stream(seed, ROTATION_STREAM).integers(len(trace)))
    gaps = np.diff(trace.arrival_s)
    gaps = np.roll(np.concatenate(([gaps.mean()], gaps)), -offset)
    return replace(
        trace,
        arrival_s=np.cumsum(gaps) - gaps[0],
        prompt_tokens=np.roll(trace.prompt_tokens, -offset),
        output_tokens=np.roll(trace.output_tokens, -offset),
        prefix_id=None if trace.prefix_id is None else np.roll(trace.prefix_id, -offset),
    )


def _wants_compiled(requests: int, backend: Backend) -> bool:
    if backend == "auto":
        worth = WORTH_LOADING if kernels_cached() else WORTH_COMPILING
        return compiled_available() and requests >= worth
    return choose_backend(backend) == "compiled"


def _horizon(spec: RouterSpec, config: RunConfig) -> int | None:
    """H of the router, 0 for one that looks no step ahead, None for one that follows the load."""
    router = _router(spec, config, "reference")
    if following(router) is not None:
        return None
    return router.horizon if isinstance(router, PooledRouter) else 0


def _router(spec: RouterSpec, config: RunConfig, backend: Backend) -> Router:
    params = spec.params() if config.params is None else config.params
    return build_router(spec, params, _stream(config.seed, ROUTER_STREAM), backend=backend)


def _compiled(
    lengths: Lengths,
    router: Router,
    config: RunConfig,
    plan: ArrivalPlan,
    on_progress: Callable[[int], None] | None,
) -> RunRecord:
    run = import_module("brtheory.simulation.compiled.run")
    record: RunRecord = run.run_compiled(
        lengths,
        router,
        shape=config.shape,
        arrivals=plan,
        step_time=config.step_time,
        on_progress=on_progress,
    )
    return record


def _plan(trace: Trace, config: RunConfig, *, without_drift: Trace) -> ArrivalPlan:
    kind, value, n = config.arrivals.kind, config.arrivals.value, len(trace)
    prefill_s = config.prefill.of(trace.prompt_tokens)
    if kind == "closed":
        population = max(1, round(value * config.shape.total_slots))
        return ArrivalPlan("closed", prefill_s, population=population)
    if kind == "open":
        return ArrivalPlan("timed", prefill_s, arrival_s=trace.arrival_s / value)
    if kind == "rho":
        rate = value * saturated_rate(without_drift, config)
        gaps = _stream(config.seed, POISSON_STREAM).exponential(1 / rate, size=n)
        times = burst_arrivals(
            gaps,
            burst=config.arrivals.burst,
            cycle_s=config.arrivals.cycle_s,
            rng=_stream(config.seed, BURST_STREAM),
        )
        return ArrivalPlan("timed", prefill_s, arrival_s=times)
    if prefill_s.any():
        return ArrivalPlan("timed", prefill_s, arrival_s=np.zeros(n))
    return ArrivalPlan("steps", prefill_s, ready_step=np.zeros(n, dtype=np.int64))


def saturated_rate(trace: Trace, config: RunConfig) -> float:
    """BR-0's requests per second at closed:3, over the loaded window (the whole run if empty).

    Without transfers and perturbations, so that their effects are compared at the same arrivals.
    """
    saturated = replace(
        config,
        router="br0",
        params=None,
        arrivals=SATURATION,
        seed=0,
        transfer=None,
        perturbation=None,
    )
    summary = summarise(simulate(trace, saturated))
    rate = metric(summary, "loaded_window.request_rate_per_s")
    whole = metric(summary, "request_rate_per_s")
    assert whole is not None  # noqa: S101  # a finished run of n >= 1 requests took time
    return rate or whole


def _stream(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])
