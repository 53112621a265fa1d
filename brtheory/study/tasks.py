"""What a study computes, one small independent task at a time: a pure function of task and trace.

A task's identity holds everything its result depends on besides the trace and the code; results
are plain JSON values, so that a computed one and one read back are equal.
"""

import hashlib
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from brtheory.analysis.stationary import (
    WeightLaw,
    light_tail_excess,
    load_sigma,
    stationary_imbalance,
)
from brtheory.contracts import readable
from brtheory.core.cluster import IntArray
from brtheory.routers.backend import Backend
from brtheory.routers.registry import find_router
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.traces.schema import Trace

IMMEDIATE_S, TICK_S, REPLICA_S = 4e-5, 6e-5, 8e-6
HORIZON_FACTOR = 4
"""Seconds a request on the numpy engine, measured: only the order and choice of engine use them."""

ENERGY_DIGITS = 10
Result = dict[str, Any]


class Task(Protocol):
    """One cell of a study."""

    def identity(self) -> dict[str, Any]:
        """Everything that defines the task, as JSON values."""

    def module(self) -> str:
        """Module of the code that a result depends on, for the digest of the sources."""

    def cost_s(self, requests: int) -> float:
        """Rough seconds on the numpy engine for that many requests: long tasks start first."""

    def on_engine(self, engine: Backend) -> "Task":
        """The same task, with the same result, on another engine."""

    def run(self, trace: Trace) -> Result:
        """Compute the result."""


@dataclass(frozen=True)
class RunTask:
    """All metrics of one simulated run."""

    config: RunConfig

    def identity(self) -> dict[str, Any]:
        """The run's configuration."""
        return {"task": "run", **config_values(self.config)}

    def module(self) -> str:
        """Where the router is built."""
        return find_router(self.config.router).build.__module__

    def cost_s(self, requests: int) -> float:
        """Ticks grow with the replicas; horizons cost most."""
        spec = find_router(self.config.router)
        if spec.family == "immediate":
            return IMMEDIATE_S * requests
        tick_s = TICK_S + REPLICA_S * self.config.shape.replicas
        return tick_s * requests * (HORIZON_FACTOR if spec.needs_predictor else 1)

    def on_engine(self, engine: Backend) -> "RunTask":
        """All engines agree to the last bit."""
        return RunTask(replace(self.config, backend=engine))

    def run(self, trace: Trace) -> Result:
        """Simulate and summarise."""
        return settled(summarise(simulate(trace, self.config)))


@dataclass(frozen=True)
class LoadsTask:
    """Loads per replica over a run, sampled to at most ``points`` steps."""

    config: RunConfig
    points: int

    def identity(self) -> dict[str, Any]:
        """The run's configuration and the number of points."""
        return {"task": "loads", "points": self.points, **config_values(self.config)}

    def module(self) -> str:
        """Where the router is built."""
        return RunTask(self.config).module()

    def cost_s(self, requests: int) -> float:
        """As the run itself."""
        return RunTask(self.config).cost_s(requests)

    def on_engine(self, engine: Backend) -> "LoadsTask":
        """Observed runs always use the engine that goes event by event."""
        del engine
        return self

    def run(self, trace: Trace) -> Result:
        """Simulate under a sampler."""
        sampler = LoadSampler(points=self.points)
        simulate(trace, self.config, observers=(sampler,))
        steps, loads = sampler.sample()
        return {"steps": steps.tolist(), "loads": loads.tolist()}


@dataclass(frozen=True)
class StationaryTask:
    """Mean of max - mean of G independent stationary loads, by Monte Carlo, in tokens.

    Beside it the same as if loads were normal, sigma_L * E[max of G], by exact order statistics.
    """

    replicas: int
    slots: int
    trials: int
    seed: int

    def identity(self) -> dict[str, Any]:
        """All of it."""
        return {"task": "stationary", **asdict(self)}

    def module(self) -> str:
        """The law is this package's own."""
        return __name__

    def cost_s(self, requests: int) -> float:
        """Draws are cheap."""
        del requests
        return 1e-7 * self.trials * self.replicas * self.slots

    def on_engine(self, engine: Backend) -> "StationaryTask":
        """No simulation."""
        del engine
        return self

    def run(self, trace: Trace) -> Result:
        """Draw."""
        law = WeightLaw.from_lengths(trace.prompt_tokens, trace.output_tokens)
        drawn = stationary_imbalance(
            law,
            replicas=self.replicas,
            slots=self.slots,
            trials=self.trials,
            generator=np.random.default_rng(self.seed),
        )
        return {
            **asdict(drawn.excess_tokens),
            "normal_excess": light_tail_excess(law, replicas=self.replicas, slots=self.slots),
            "load_sigma": load_sigma(law, slots=self.slots),
        }


class LoadSampler:
    """A step observer that keeps every 2^n-th step, n the smallest that bounds their number.

    Parameters
    ----------
    points
        At most this many steps are kept, >= 2.
    """

    def __init__(self, *, points: int) -> None:
        self._points = points
        self._every = 1
        self._steps: list[int] = []
        self._loads: list[IntArray] = []

    def on_steps(self, step: int, loads: IntArray) -> None:
        """Keep the steps that are multiples of the present spacing."""
        first = -step % self._every
        for offset in range(first, loads.shape[1], self._every):
            self._steps.append(step + offset)
            self._loads.append(loads[:, offset].copy())
        while len(self._steps) > self._points:
            self._thin()

    def sample(self) -> tuple[IntArray, IntArray]:
        """Steps, shape (n,), and loads in tokens, shape (n, G)."""
        return np.array(self._steps, dtype=np.int64), np.array(self._loads, dtype=np.int64)

    def _thin(self) -> None:
        self._every *= 2
        kept = [i for i, step in enumerate(self._steps) if step % self._every == 0]
        self._steps = [self._steps[i] for i in kept]
        self._loads = [self._loads[i] for i in kept]


def settled(result: Result) -> Result:
    """A summary whose modelled energy does not tell which engine computed it.

    Energy sums a fractional power of each utilisation, whose last bit differs between compiled code
    and numpy; all other metrics agree exactly. Kept to ``ENERGY_DIGITS`` digits.
    """
    return {name: _settled_value(name, value) for name, value in result.items()}


def config_values(config: RunConfig) -> dict[str, Any]:
    """A run's configuration as JSON values: all that is not None, without the engine.

    Which engine runs changes nothing; an option that is None is as if it did not exist.
    """
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    del values["backend"]
    return {name: _plain(value) for name, value in values.items() if value is not None} | {
        "params": params_values(config.params),
        "arrivals": str(config.arrivals),
        **_model(config.predictor),
    }


def params_values(params: object) -> dict[str, Any]:
    """A router's validated parameters as JSON values."""
    if is_dataclass(params) and not isinstance(params, type):
        return asdict(params)
    return {}


def _plain(value: object) -> object:
    """Parts of a configuration are dataclasses, or tuples of them, or plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: _plain(part) for name, part in values.items() if part is not None}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _model(predictor: str) -> dict[str, str]:
    """Digest of the file of a trained model: its name does not say what is in it."""
    _, colon, file = predictor.partition(":")
    if not colon:
        return {}
    with readable(Path(file)):
        return {"model_sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}


def _settled_value(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return settled(value)
    if name.startswith("energy_model_") and value is not None:
        return float(f"{value:.{ENERGY_DIGITS}g}")
    return value
