"""Scenes of a tick benchmark: a cluster with its projected loads, moved on tick by tick.

Lengths follow the embedded workload ``proprietary-surrogate`` (synthetic; means 3197 / 1185, as the
paper's trace), ages are uniform, slots are 32. Per tick

* ``steady``: G*32/1185 requests end (at least one), as many slots are free;
* ``burst``: 2G requests end at once;
* ``cold``: nothing runs, all slots are free.

The pool is refilled to its size before every tick, so that ticks of one scene are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import NEVER, HorizonState
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.backend import Engine
from brtheory.routers.fast_arrays import TickArrays
from brtheory.traces.workloads import generate_workload

Severity = Literal["steady", "burst", "cold"]

SLOTS = 32
MEAN_OUTPUT = 1185
STEP_S = 0.02
LENGTHS = 20_000
LARGEST_POOL = 8000
SMALLEST_POOL = 16


@dataclass(frozen=True, slots=True)
class TickCase:
    """One scene.

    Parameters
    ----------
    router
        br0, brh, window or pool-fifo.
    replicas, horizon
        G >= 1; H >= 0, 0 for routers that look at present loads only.
    severity
        See the module.
    pool
        Waiting requests, >= 1; None is a quarter of all slots within 16 .. 8000.
    """

    router: str
    replicas: int
    horizon: int
    severity: Severity
    pool: int | None = None

    def __post_init__(self) -> None:
        for name in ("replicas", "pool"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(name, "an integer >= 1", value)

    @property
    def waiting(self) -> int:
        """Requests in the pool at each tick."""
        if self.pool is not None:
            return self.pool
        return min(LARGEST_POOL, max(SMALLEST_POOL, self.replicas * SLOTS // 4))

    @property
    def ending(self) -> int:
        """Requests that end before each tick."""
        if self.severity == "steady":
            return max(1, round(self.replicas * SLOTS / MEAN_OUTPUT))
        return 2 * self.replicas if self.severity == "burst" else 0


class Projection(Protocol):
    """Projected loads, kept up by changes: what a tick's horizon update goes through."""

    @property
    def columns(self) -> IntArray:
        """As ``HorizonState``."""

    @property
    def start(self) -> int:
        """As ``HorizonState``."""

    def update(self, admitted: IntArray, retired: IntArray, *, steps: int = 1) -> None:
        """Take in admissions (slot, replica, tokens, finish) and ends by slot, then a step."""


class NumpyProjection:
    """The numpy ``HorizonState``; slots serve as ids."""

    def __init__(self, *, replicas: int, horizon: int) -> None:
        self._state = HorizonState(replicas=replicas, horizon=horizon)

    @property
    def columns(self) -> IntArray:
        """Buffer of the window."""
        return self._state.columns

    @property
    def start(self) -> int:
        """Its first column."""
        return self._state.start

    def update(self, admitted: IntArray, retired: IntArray, *, steps: int = 1) -> None:
        """Admit, retire, advance."""
        for slot, replica, tokens, finish in admitted.tolist():
            self._state.admit(slot, replica, tokens=tokens, finish=finish)
        for slot in retired.tolist():
            self._state.retire(slot)
        self._state.advance(steps)


def make_projection(case: TickCase, engine: Engine) -> Projection:
    """The compiled projection for ``compiled``, else numpy's."""
    if engine != "compiled":
        return NumpyProjection(replicas=case.replicas, horizon=case.horizon)
    # Imported here because numba takes its time to load.
    module = import_module("brtheory.routers.fast_horizon")
    compiled: Projection = module.CompiledHorizonState(
        replicas=case.replicas, horizon=case.horizon, slots=case.replicas * SLOTS
    )
    return compiled


class Scene:
    """A cluster of one case, moved on by ``next_tick`` and ``settle``.

    Parameters
    ----------
    case
        What to build.
    engine
        Which projection to keep: the compiled one for ``compiled``, else numpy's.
    rng
        Source of lengths, ages and endings; equal generators give equal scenes.
    """

    def __init__(self, case: TickCase, engine: Engine, rng: np.random.Generator) -> None:
        self.case = case
        self._rng = rng
        trace = generate_workload("proprietary-surrogate", requests=LENGTHS)
        self._prompts, self._outputs = trace.prompt_tokens, trace.output_tokens
        self._projection = make_projection(case, engine)
        self._step = 0
        places = case.replicas * SLOTS
        self._replica: IntArray = np.zeros(places, dtype=np.int64)
        self._running: list[int] = []
        self._vacant = list(range(places - 1, -1, -1))
        self._free: IntArray = np.full(case.replicas, SLOTS, dtype=np.int64)
        self._draws: IntArray = self._draw(case.waiting)
        self._waits = np.sort(rng.exponential(1.0, case.waiting))[::-1].copy()
        self._admitted: IntArray = np.empty((0, 4), dtype=np.int64)
        if case.severity != "cold":
            self._fill()

    def prepare(self) -> IntArray:
        """Choose the slots whose requests end with this step; not part of a tick's time."""
        ended = []
        for _ in range(self.case.ending):
            place = int(self._rng.integers(len(self._running)))
            self._running[place], self._running[-1] = self._running[-1], self._running[place]
            slot = self._running.pop()
            self._free[self._replica[slot]] += 1
            ended.append(slot)
        self._vacant.extend(ended)
        return np.array(ended, dtype=np.int64)

    def update(self, ended: IntArray) -> None:
        """The horizon update of a tick: last admissions, ends, one step."""
        self._projection.update(self._admitted, ended)

    def arrays(self) -> TickArrays:
        """The state of the tick."""
        return TickArrays(
            columns=self._projection.columns,
            start=self._projection.start,
            free_slots=self._free,
            prompt_tokens=self._prompts[self._draws],
            ready_s=self._step * STEP_S - self._waits,
            now_s=self._step * STEP_S,
        )

    def settle(self, positions: Sequence[int], replicas: Sequence[int]) -> None:
        """Take the decisions over and refill the pool; not part of a tick's time."""
        self._step += 1
        if self.case.severity == "cold":
            return
        draws = self._draws[list(positions)].tolist()
        rows = [self._admit(d, g, age=0) for d, g in zip(draws, replicas, strict=True)]
        self._admitted = np.array(rows, dtype=np.int64).reshape(-1, 4)
        np.subtract.at(self._free, list(replicas), 1)
        self._draws = np.concatenate(
            (np.delete(self._draws, list(positions)), self._draw(len(positions)))
        )

    def _fill(self) -> None:
        rows = [
            self._admit(draw, replica, age=int(self._rng.integers(self._outputs[draw])))
            for replica in range(self.case.replicas)
            for draw in self._draw(SLOTS).tolist()
        ]
        self._free[:] = 0
        nothing = np.empty(0, dtype=np.int64)
        self._projection.update(np.array(rows, dtype=np.int64), nothing, steps=0)

    def _admit(self, draw: int, replica: int, *, age: int) -> tuple[int, int, int, int]:
        """A row of the next update; the oracle sees an end inside the horizon."""
        left = int(self._outputs[draw]) - age
        finish = self._step + left if left < self.case.horizon else int(NEVER)
        slot = self._vacant.pop()
        self._replica[slot] = replica
        self._running.append(slot)
        return slot, replica, int(self._prompts[draw]) + age, finish

    def _draw(self, count: int) -> IntArray:
        return self._rng.integers(LENGTHS, size=count)


def as_state(arrays: TickArrays, horizon: int) -> TickState:
    """The same tick for the reference routers."""
    ready_s = np.zeros(len(arrays.prompt_tokens)) if arrays.ready_s is None else arrays.ready_s
    return TickState(
        loads=arrays.rows(horizon).tolist(),
        free_slots=arrays.free_slots.tolist(),
        pool=[
            Request(i, prompt, ready)
            for i, (prompt, ready) in enumerate(
                zip(arrays.prompt_tokens.tolist(), ready_s.tolist(), strict=True)
            )
        ],
        now_s=arrays.now_s,
    )
