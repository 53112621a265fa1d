"""What BR-H gains by the exact horizon score: ``python -m benchmarks.exact_score``.

Mean imbalance over the loaded window with ``score=exact`` over that with ``score=constant``, paired
by seed, with Fieller's 95 % interval; BR-H is told true output lengths. At H = 80, and at H nearest
the steps between two completions on a replica. Writes docs/results/exact_score.json and prints the
rows of the table in docs/routers.md.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.provenance import made_by
from benchmarks.window import CLOSED, USUAL, Ground, scenarios
from brtheory.analysis.statistics import ratio_of_means
from brtheory.files import write_text_atomic
from brtheory.routers.params import HorizonParams
from brtheory.simulation.metrics import loaded_window
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import StepTime
from brtheory.study.choices import near_horizon

OUT = Path("docs/results/exact_score.json")
SEEDS, REQUESTS, FAR = 5, 4_000, 80
METRIC = "imbalance_mean_tokens"
Cell = dict[str, Any]


def grounds(requests: int) -> list[Ground]:
    """Short outputs; the paper's lengths; widely spread prompts; few slots, so that H is long."""
    usual = [
        Ground(name, USUAL, StepTime(), requests)
        for name in ("azure-2023-conv", "proprietary-surrogate")
    ]
    return [*usual, *(one for one in scenarios(requests=requests) if one.name in ("s1", "s3"))]


def measure(ground: Ground, horizon: int, *, seeds: int) -> Cell:
    """Mean imbalance by both scores, one value a seed, and the ratio of their means."""
    values = {
        score: [_imbalance(ground, _params(horizon, score), seed) for seed in range(seeds)]
        for score in ("exact", "constant")
    }
    ratio = ratio_of_means(values["exact"], values["constant"])
    if ratio is None or ratio.interval is None:
        raise SystemExit(f"{ground.name}: too few seeds or no imbalance")
    interval = ratio.interval
    numbers = {"ratio": ratio.value, "low": interval.low, "high": interval.high}
    return {"ground": ground.name, "horizon": horizon, **numbers, METRIC: values}


def row(cell: Cell) -> str:
    """One row of the table."""
    ratio, low, high = (f"{cell[name]:.3f}" for name in ("ratio", "low", "high"))
    return f"| {cell['ground']} | {cell['horizon']} | {ratio} | {low} to {high} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.exact_score")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at least 2")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    provenance = made_by(
        "exact_score", requests=options.requests, seeds=options.seeds, arrivals=CLOSED
    )
    cells: list[Cell] = []
    for ground, horizon in _plan(options.requests):
        cells.append(measure(ground, horizon, seeds=options.seeds))
        print(row(cells[-1]), file=sys.stderr, flush=True)
        document = {"provenance": provenance, "cells": cells}
        write_text_atomic(options.out, json.dumps(document, indent=1) + "\n")
    print("\n".join(row(cell) for cell in cells))


def _plan(requests: int) -> Iterator[tuple[Ground, int]]:
    for ground in grounds(requests):
        mean_output = float(ground.take(0).output_tokens.mean())
        yield ground, near_horizon(mean_output, slots=ground.shape.slots)
        yield ground, FAR


def _params(horizon: int, score: Literal["exact", "constant"]) -> HorizonParams:
    return HorizonParams(horizon=horizon, score=score)


def _imbalance(ground: Ground, params: HorizonParams, seed: int) -> float:
    config = RunConfig(
        router="brh",
        shape=ground.shape,
        params=params,
        arrivals=parse_arrivals(CLOSED),
        step_time=ground.step_time,
        seed=seed,
    )
    window = loaded_window(simulate(ground.take(seed), config)) or {}
    # Six digits: what a table shows and more.
    return float(f"{window[METRIC]:.6g}")


if __name__ == "__main__":
    main()
