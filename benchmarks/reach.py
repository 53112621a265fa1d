"""What each method proves in a minute: ``python -m benchmarks.reach [--only TEXT]``.

Sizes at which an exact method is asked to prove the optimum, a few random problems each, within 60
processor seconds (one tick: 5). A row says how many were proved and the longest time, building the
model included; what one method leaves open another may prove. Writes docs/results/reach.json after
every row; ``python -m benchmarks.bracket --fill`` puts the table into docs/gap.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.formulations import Shape
from benchmarks.provenance import made_by
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.files import write_text_atomic
from brtheory.simulation.benchmark.suite import machine
from solvers.budget import Budget, Options
from solvers.facade import solve_problem
from solvers.problem import Problem, TickProblem

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "reach.json"
SEEDS = 3
MEMORY_BYTES = 3 << 30
ACTIVE, LONGEST_OUTPUT, LONGEST_PROMPT = 48, 2400, 7000
"""Of the replicas of a tick: active requests each, and how large they are."""


@dataclass(frozen=True)
class Tick:
    """One tick with a free slot a replica; every active request grows and leaves at its end."""

    replicas: int
    horizon: int

    def __str__(self) -> str:
        return f"C, {self.replicas} x 1 free, H {self.horizon}"

    def problem(self, requests: int, seed: int) -> TickProblem:
        """A pool of so many requests before replicas amid their work."""
        rng = np.random.default_rng([seed, requests])
        shape = (self.replicas, ACTIVE, 1)
        left = rng.integers(1, LONGEST_OUTPUT + 1, size=shape)
        weights = rng.integers(1, LONGEST_PROMPT + 1, size=shape)
        ahead = np.arange(self.horizon + 1)
        loads = ((weights + ahead) * (ahead < left)).sum(axis=1)
        prompts = rng.integers(1, LONGEST_PROMPT + 1, size=requests).tolist()
        pool = [Request(i, prompt) for i, prompt in enumerate(prompts)]
        return TickProblem(
            TickState(loads=loads.tolist(), free_slots=[1] * self.replicas, pool=pool), "imbalance"
        )


@dataclass(frozen=True)
class Goal:
    """Problems of one kind and size, and who is asked to prove them within so many seconds."""

    shape: Shape | Tick
    requests: int
    methods: tuple[Literal["dp", "milp", "cpsat"], ...]
    cpu_limit_s: float = 60.0


MODELS: tuple[Literal["milp"], Literal["cpsat"]] = ("milp", "cpsat")
GOALS = (
    Goal(Shape("B", 3, 2, work_conserving=True), 16, ("dp", *MODELS)),
    Goal(Shape("A", 4, 4), 200, ("dp",)),
    Goal(Shape("B", 3, 2), 12, MODELS),
    Goal(Shape("B", 2, 3), 12, MODELS),
    Goal(Shape("A", 2, 8), 2000, ("dp",)),
    Goal(Shape("A", 3, 4), 2000, ("dp",)),
    Goal(Shape("A", 4, 3), 2000, ("dp",)),
    Goal(Shape("A", 2, 10), 1000, ("dp",)),
    Goal(Shape("A", 3, 5), 2000, ("dp",)),
    Goal(Shape("A", 2, 8), 40, MODELS),
    Goal(Shape("A", 3, 4), 30, MODELS),
    Goal(Shape("A", 4, 3), 20, MODELS),
    Goal(Tick(16, 0), 64, MODELS, 5.0),
    Goal(Tick(16, 80), 64, MODELS, 5.0),
)


WARM_UP = (
    Goal(Shape("A", 2, 3), 4, ("dp", *MODELS)),
    Goal(Shape("B", 2, 3, work_conserving=True), 4, ("dp",)),
    Goal(Tick(2, 0), 2, MODELS, 5.0),
)


def measure(goals: Sequence[Goal], *, seeds: int = SEEDS) -> Iterator[dict[str, Any]]:
    """One row for each goal and method."""
    for goal in goals:
        for method in goal.methods:
            runs = [
                _prove(goal.shape.problem(goal.requests, seed), method, goal.cpu_limit_s)
                for seed in range(seeds)
            ]
            yield {
                "problem": str(goal.shape),
                "requests": goal.requests,
                "method": method,
                "cpu_limit_s": goal.cpu_limit_s,
                "runs": runs,
            }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one row a problem, size and method."""
    lines = ["| problem | requests | method | proved | longest s | limit s |"]
    lines.append("|---|--:|---|--:|--:|--:|")
    for row in rows:
        runs = row["runs"]
        lines.append(
            f"| {row['problem']} | {row['requests']:,} | {row['method']} "
            f"| {sum(run['proved'] for run in runs)} of {len(runs)} "
            f"| {max(run['cpu_s'] for run in runs):.1f} | {row['cpu_limit_s']:g} |"
        )
    return "\n".join(lines) + "\n"


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    """Measured rows; an absent file has none."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for, write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.reach")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    options = parser.parse_args(arguments)
    goals = [goal for goal in GOALS if options.only in f"{goal.shape}, {goal.requests}"]
    # Imports and compiled kernels count for nobody; whoever comes first would pay for them.
    list(measure(WARM_UP, seeds=1))
    rows = {_key(row): row for row in read()}
    provenance = made_by("reach", seeds=SEEDS)  # before results change the tree
    for row in measure(goals):
        print(row, file=sys.stderr)
        rows[_key(row)] = row
        order = [(str(g.shape), g.requests, m) for g in GOALS for m in g.methods]
        document = {
            "provenance": provenance,
            "machine": machine(),
            "rows": sorted(rows.values(), key=lambda r: order.index(_key(r))),
        }
        write_text_atomic(RESULTS, json.dumps(document, indent=2) + "\n")


def _prove(problem: Problem, method: str, cpu_limit_s: float) -> dict[str, Any]:
    started = time.process_time()

    def cpu_s() -> float:
        return time.process_time() - started

    budget = Budget(memory_limit_bytes=MEMORY_BYTES, should_stop=lambda: cpu_s() > cpu_limit_s)
    result = solve_problem(problem, method=method, budget=budget, options=Options())
    return {
        "proved": result.optimal and cpu_s() <= cpu_limit_s,
        "cpu_s": cpu_s(),
        "incumbent": result.incumbent,
        "bound": result.bound,
    }


def _key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return row["problem"], row["requests"], row["method"]


if __name__ == "__main__":
    main()
