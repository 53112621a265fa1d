"""Time of ticks: medians and 99th percentiles of each backend, beside the reference's.

A tick's time is that of its horizon update (last admissions, endings, one step) and its decision.
Where a tick has both stages, stage 2 is timed by deciding the state that stage 1 left behind, and
stage 1 is the rest. The reference decides some of the same states, and must decide alike.
"""

import tracemalloc
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from brtheory.errors import BrtheoryError, InputError
from brtheory.routers.backend import Engine
from brtheory.routers.fast import FastBalanceRoute, FastEngine, FastPoolFifo, FastWindow
from brtheory.routers.fast_arrays import Decisions, TickArrays
from brtheory.routers.params import HorizonParams
from brtheory.routers.protocol import PooledRouter
from brtheory.routers.registry import build_router, find_router
from brtheory.simulation.benchmark.scene import Scene, TickCase, as_state

FastRouter = FastBalanceRoute | FastPoolFifo | FastWindow

REFERENCE_LIMIT_S = 1.0
"""A reference tick estimated to take longer is left out."""
REFERENCE_TICKS = 5
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure one case: ticks at least and at most, seconds after which to stop."""

    least: int = 7
    most: int = 400
    seconds: float = 1.0


QUICK = Effort(least=3, most=20, seconds=0.05)


@dataclass(frozen=True, slots=True)
class TickFigures:
    """What was measured of one case by one backend; microseconds, None where not measured.

    Parameters
    ----------
    case, backend
        What ran.
    ticks, admissions
        Ticks measured, and the median number of admissions in one.
    p50_us, p99_us
        Horizon update and decision.
    stage1_p50_us, stage2_p50_us
        Of the decision alone; None where no admission belongs to the stage.
    reference_p50_us
        The reference's decision on some of the same states.
    allocated_bytes
        Peak of Python and numpy allocations during one tick, by tracemalloc.
    """

    case: TickCase
    backend: Engine
    ticks: int
    admissions: int
    p50_us: float | None
    p99_us: float | None
    stage1_p50_us: float | None
    stage2_p50_us: float | None
    reference_p50_us: float | None
    allocated_bytes: int | None


def measure_tick(
    case: TickCase, backend: FastEngine, *, effort: Effort, seed: int = 0
) -> tuple[TickFigures, TickFigures | None]:
    """Measure one case by one backend, and the reference on some of its states.

    Returns
    -------
    tuple
        The backend's figures and the reference's, None where that would take too long.

    Raises
    ------
    BrtheoryError
        If the backend decides unlike the reference.
    """
    scene = Scene(case, backend, np.random.default_rng([seed, case.replicas]))
    router, times = _build(case, backend), _Times()
    for _ in range(WARM_UP):
        _one_tick(scene, router, _Times())
    began = perf_counter()
    while len(times.total) < effort.least or (
        len(times.total) < effort.most and perf_counter() - began < effort.seconds
    ):
        _one_tick(scene, router, times)
    allocated = _allocated(scene, router)
    return _figures(case, backend, times, allocated), _reference_figures(case, times)


def _figures(case: TickCase, backend: Engine, times: "_Times", allocated: int) -> TickFigures:
    return TickFigures(
        case=case,
        backend=backend,
        ticks=len(times.total),
        admissions=int(np.median(times.admissions)),
        p50_us=_us(times.total, 50),
        p99_us=_us(times.total, 99),
        stage1_p50_us=_us(times.stage_1, 50),
        stage2_p50_us=_us(times.stage_2, 50),
        reference_p50_us=_us(times.reference, 50),
        allocated_bytes=allocated,
    )


def _reference_figures(case: TickCase, times: "_Times") -> TickFigures | None:
    if not times.reference:
        return None
    return TickFigures(
        case=case,
        backend="reference",
        ticks=len(times.reference),
        admissions=int(np.median(times.admissions)),
        p50_us=_us(times.reference, 50),
        p99_us=_us(times.reference, 99),
        stage1_p50_us=None,
        stage2_p50_us=None,
        reference_p50_us=_us(times.reference, 50),
        allocated_bytes=None,
    )


class _Times:
    """Seconds of the ticks so far."""

    def __init__(self) -> None:
        self.total: list[float] = []
        self.stage_1: list[float] = []
        self.stage_2: list[float] = []
        self.reference: list[float] = []
        self.admissions: list[int] = []


def reference_estimate_s(case: TickCase) -> float:
    """A reference tick's rough time in seconds: 0.1 us per margin looked at, 1 us per heap key."""
    width, slots = case.horizon + 1, case.ending if case.severity != "cold" else 32 * case.replicas
    admitted = min(slots, case.waiting)
    first = max(0, min(slots - case.replicas, case.waiting))
    looked_at = first * case.waiting * width + 15 * admitted * width
    return 1e-7 * looked_at + 1e-6 * admitted * case.replicas


def _build(case: TickCase, backend: FastEngine) -> FastRouter:
    spec = find_router(case.router)
    params = HorizonParams(horizon=case.horizon) if case.router == "brh" else spec.params()
    router = build_router(spec, params, np.random.default_rng(0), backend=backend)
    if not isinstance(router, FastBalanceRoute | FastPoolFifo | FastWindow):
        raise InputError("router", "br0, brh, pool-fifo or window", repr(case.router))
    return router


def _one_tick(scene: Scene, router: FastRouter, times: _Times) -> None:
    ended = scene.prepare()
    began = perf_counter()
    scene.update(ended)
    updated = perf_counter() - began
    arrays = scene.arrays()
    twin = _twin(scene.case, router, times)
    began = perf_counter()
    decisions = router.decide(arrays)
    decided = perf_counter() - began
    times.total.append(updated + decided)
    times.admissions.append(len(decisions))
    if twin is not None:
        _compare(scene.case, twin, arrays, decisions, times)
    _time_stages(router, arrays, decisions, decided, times)
    scene.settle(*decisions.lists())


def _twin(case: TickCase, router: FastRouter, times: _Times) -> PooledRouter | None:
    """The reference as it stands before the tick (the window router learns from each)."""
    slow = reference_estimate_s(case) > REFERENCE_LIMIT_S
    if slow or len(times.reference) >= REFERENCE_TICKS:
        return None
    return deepcopy(router.reference)


def _time_stages(
    router: FastRouter,
    arrays: TickArrays,
    decisions: Decisions,
    decided: float,
    times: _Times,
) -> None:
    if decisions.stages is None:
        return
    first = sum(1 for stage in decisions.stages if stage == 1)
    if first == len(decisions):
        times.stage_1.append(decided)
    elif first == 0:
        times.stage_2.append(decided)
    else:
        positions, replicas = decisions.lists()
        left = _after(arrays, positions[:first], replicas[:first])
        seconds = _seconds(lambda: router.decide(left))
        times.stage_2.append(seconds)
        times.stage_1.append(max(0.0, decided - seconds))


def _after(arrays: TickArrays, positions: Sequence[int], replicas: Sequence[int]) -> TickArrays:
    """The state once these admissions are made."""
    columns, free_slots = arrays.columns.copy(), arrays.free_slots.copy()
    for position, replica in zip(positions, replicas, strict=True):
        columns[replica] += arrays.prompt_tokens[position]
        free_slots[replica] -= 1
    prompts = np.delete(arrays.prompt_tokens, list(positions))
    return replace(arrays, columns=columns, free_slots=free_slots, prompt_tokens=prompts)


def _compare(
    case: TickCase, twin: PooledRouter, arrays: TickArrays, decisions: Decisions, times: _Times
) -> None:
    """Time the reference on this state, and insist on its decisions."""
    state = as_state(arrays, case.horizon)
    began = perf_counter()
    expected = twin.tick(state)
    times.reference.append(perf_counter() - began)
    if list(expected) != decisions.admissions(state.pool):
        raise BrtheoryError(f"{case}: decided unlike the reference")


def _allocated(scene: Scene, router: FastRouter) -> int:
    ended = scene.prepare()
    tracemalloc.start()
    try:
        scene.update(ended)
        arrays = scene.arrays()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        router.decide(arrays)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _seconds(action: Callable[[], object]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began


def _us(seconds: Sequence[float], percentile: float) -> float | None:
    return float(np.percentile(seconds, percentile)) * 1e6 if seconds else None
