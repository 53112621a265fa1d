"""Ideas for the window router, each measured beside it: ``python -m benchmarks.window_ideas``.

Each is a variant of the reference router on short runs of the scenarios, seeds paired with the
router as it is: a target between mean and peak; swapping what one tick admitted while that brings
the replicas nearer to their mean, at G = 8 and 64; loads projected over 1, 3 and 5 times the steps
between completions on a replica, by the oracle and by the survival law; a replica order that
follows the load, saturated and not. Writes docs/results/window_ideas.json after every cell.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import made_by
from benchmarks.window import CLOSED, Ground, rounded, scenarios
from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState
from brtheory.files import write_text_atomic
from brtheory.routers.params import WindowParams
from brtheory.routers.registry import find_router
from brtheory.routers.window import Patience, Window, not_held, size_factor, wait_bonus
from brtheory.simulation.engine import Simulation
from brtheory.simulation.metrics import loaded_window
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.record import RunRecord
from brtheory.simulation.run import RunConfig, build_predictor, saturated_rate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import Lengths
from brtheory.traces.schema import Trace

OUT = Path("docs/results/window_ideas.json")
REQUESTS, SEEDS = 3000, 3
PARAMS = WindowParams()
GAPS = (1.0, 3.0, 5.0)
AS_IT_IS, MANY, LIGHT = "as it is", " (G = 64)", " (rho = 0.8)"
MANY_REPLICAS, FILLINGS = 64, 4
LIGHT_RHO = 0.8
METRICS = ("imbalance_mean_tokens", "throughput_tokens_per_s", "wait_p99_s", "wait_max_s")


class Towards(Window):
    """The target lies ``share`` of the way from the mean of the others to the fullest load."""

    def __init__(self, share: float) -> None:
        super().__init__(PARAMS)
        self._share = share

    def _choose(
        self,
        fitting: Sequence[Request],
        ledger: TickLedger,
        replica: int,
        now_s: float,
        patience: Patience,
        *,
        spare: bool,
    ) -> Request | None:
        late = [r for r in fitting if now_s - r.ready_s > patience.longest_wait_s]
        if late or (spare and self.params.spare_order == "longest"):
            return super()._choose(fitting, ledger, replica, now_s, patience, spare=spare)
        offered = not_held(fitting, ledger, replica, now_s=now_s, hold_s=patience.hold_s)
        loads = [row[0] for row in ledger.rows]
        mean = (sum(loads) - loads[replica]) // max(len(loads) - 1, 1)
        target = mean + round(self._share * (max(loads) - mean))
        room, margin = target - loads[replica], ledger.margin(replica)

        def key(r: Request) -> tuple[int, int]:
            weight = patience.wait_weight * size_factor(r.prompt_tokens, patience, self.params)
            beyond = max(0, r.prompt_tokens - margin)
            cost = abs(r.prompt_tokens - room) + self.params.overflow_weight * beyond
            return wait_bonus(now_s - r.ready_s, weight) - cost, r.prompt_tokens

        return max(offered, key=key, default=None)


class Swapping(Window):
    """Swaps two admissions of a tick while that brings both replicas nearer to the mean."""

    def __init__(self) -> None:
        super().__init__(PARAMS)

    def tick(self, state: TickState) -> list[Admission]:
        """Decide as the window router, then swap."""
        admissions = super().tick(state)
        size = {r.id: r.prompt_tokens for r in state.pool}
        loads = [row[0] for row in state.loads]
        for a in admissions:
            loads[a.replica] += size[a.id]
        mean = sum(loads) / len(loads)
        for i, j in combinations(range(len(admissions)), 2):
            one, other = admissions[i], admissions[j]
            change = size[other.id] - size[one.id]
            if one.replica != other.replica and _gains(
                loads[one.replica] - mean, loads[other.replica] - mean, change
            ):
                loads[one.replica] += change
                loads[other.replica] -= change
                admissions[i] = Admission(other.id, one.replica)
                admissions[j] = Admission(one.id, other.replica)
        return admissions


class SlotsFirst(Window):
    """Serves the replica with most free slots, the lighter of equals, as BR-0's key does.

    Parameters
    ----------
    saturated
        Whether only while more requests wait than there are free slots; else the lightest first.
    """

    def __init__(self, *, saturated: bool) -> None:
        super().__init__(PARAMS)
        self._saturated = saturated

    def _decide(
        self, ledger: TickLedger, pool: list[Request], now_s: float
    ) -> Iterator[tuple[Request, int]]:
        patience = self.patience()
        while ledger.total_free_slots > 0 and pool:
            spare = len(pool) <= ledger.total_free_slots
            by_slots = not (spare and self._saturated)
            replica = min(
                (g for g in range(ledger.replicas) if ledger.cap[g] > 0),
                key=lambda g: (-ledger.cap[g] if by_slots else 0, ledger.rows[g][0]),
            )
            oldest = pool[: self.params.window]
            request = self._choose(oldest, ledger, replica, now_s, patience, spare=spare)
            if request is None:
                ledger.close(replica)
            else:
                ledger.admit([request], replica)
                pool.remove(request)
                yield request, replica


class Projecting(Window):
    """Looks at loads averaged over a horizon instead of the present ones."""

    def __init__(self, horizon: int) -> None:
        super().__init__(PARAMS)
        self._horizon = horizon

    @property
    def horizon(self) -> int:
        """H."""
        return self._horizon

    def tick(self, state: TickState) -> list[Admission]:
        """Decide on the means of the rows."""
        rows = [[sum(row) // len(row)] for row in state.loads]
        return super().tick(replace(state, loads=rows))


@dataclass(frozen=True)
class Idea:
    """A variant: how it is made for a horizon of one gap, its predictor, where it is measured."""

    label: str
    make: Callable[[float], Window]
    predictor: str = "oracle"
    setting: str = ""


def ground_of(idea: Idea, usual: Ground) -> Ground:
    """As it is, or with many replicas and enough requests to fill them several times."""
    if idea.setting != MANY:
        return usual
    shape = replace(usual.shape, replicas=MANY_REPLICAS)
    return replace(usual, shape=shape, requests=FILLINGS * shape.replicas * shape.slots)


def ideas() -> list[Idea]:
    """The router as it is, and each variant."""
    projected = [
        Idea(f"projected over {gaps:g} gaps, {name}", _projecting(gaps), name)
        for name in ("oracle", "survival")
        for gaps in GAPS
    ]
    return [
        Idea(AS_IT_IS, lambda _gap: Window(PARAMS)),
        Idea("target 1/4 towards the peak", lambda _gap: Towards(0.25)),
        Idea("target 1/2 towards the peak", lambda _gap: Towards(0.5)),
        Idea("swaps within a tick", lambda _gap: Swapping()),
        *projected,
        Idea("most free slots first", lambda _gap: SlotsFirst(saturated=False)),
        Idea("most free slots first if saturated", lambda _gap: SlotsFirst(saturated=True)),
        Idea(AS_IT_IS, lambda _gap: Window(PARAMS), setting=LIGHT),
        Idea("most free slots first", lambda _gap: SlotsFirst(saturated=False), setting=LIGHT),
        Idea(
            "most free slots first if saturated",
            lambda _gap: SlotsFirst(saturated=True),
            setting=LIGHT,
        ),
        Idea(AS_IT_IS, lambda _gap: Window(PARAMS), setting=MANY),
        Idea("swaps within a tick", lambda _gap: Swapping(), setting=MANY),
    ]


def measure(ground: Ground, idea: Idea, *, seeds: int) -> dict[str, Any]:
    """Metrics over the loaded window, one value a seed."""
    values: dict[str, list[float | None]] = {name: [] for name in METRICS}
    for seed in range(seeds):
        metrics = loaded_window(run(ground, idea, seed=seed)) or {}
        for name in METRICS:
            values[name].append(rounded(metrics.get(name)))
    label = idea.label + idea.setting
    print(ground.name, label, values[METRICS[0]], file=sys.stderr, flush=True)
    return {"ground": ground.name, "label": label, **values}


def run(ground: Ground, idea: Idea, *, seed: int) -> RunRecord:
    """One run of a variant."""
    trace = ground.take(seed)
    router = idea.make(float(trace.output_tokens.mean()) / ground.shape.slots)
    return Simulation(
        Lengths(trace.prompt_tokens, trace.output_tokens),
        router,
        shape=ground.shape,
        arrivals=arrivals_of(ground, idea, trace, seed=seed).source(),
        step_time=ground.step_time,
        predictor=build_predictor(
            find_router("brh"), idea.predictor, trace.output_tokens, horizon=router.horizon
        ),
    ).run()


def arrivals_of(ground: Ground, idea: Idea, trace: Trace, *, seed: int) -> ArrivalPlan:
    """The closed loop, or Poisson arrivals at a part of BR-0's saturated rate."""
    nothing, slots = np.zeros(len(trace)), ground.shape.replicas * ground.shape.slots
    if idea.setting != LIGHT:
        return ArrivalPlan(
            "closed", nothing, population=round(parse_arrivals(CLOSED).value * slots)
        )
    usual = RunConfig("br0", ground.shape, step_time=ground.step_time, backend="numpy")
    gaps = np.random.default_rng(seed).exponential(
        1 / (LIGHT_RHO * saturated_rate(trace, usual)), size=len(trace)
    )
    return ArrivalPlan("timed", nothing, arrival_s=np.cumsum(gaps))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.window_ideas")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    provenance = made_by("window_ideas", requests=options.requests, seeds=options.seeds)
    cells: list[dict[str, Any]] = []
    for idea in ideas():
        for usual in scenarios(requests=options.requests):
            cells.append(measure(ground_of(idea, usual), idea, seeds=options.seeds))
            text = json.dumps({"provenance": provenance, "cells": cells}, indent=1)
            write_text_atomic(options.out, text + "\n")


def _projecting(gaps: float) -> Callable[[float], Window]:
    return lambda gap: Projecting(max(1, round(gaps * gap)))


def _gains(one: float, other: float, change: int) -> bool:
    return abs(one + change) + abs(other - change) < abs(one) + abs(other)


if __name__ == "__main__":
    main()
