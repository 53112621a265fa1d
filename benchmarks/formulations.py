"""Our formulations against the textbook's: ``python -m benchmarks.formulations [--out DIR]``.

Two questions, answered in one run: which sizes are proved optimal within a limit of processor time,
and how long the largest size takes that both prove. The textbook model is time-indexed with one
peak a step and nothing derived (``solvers.textbook``); ours is the tight index model, on the same
backends, and in case A and in work-conserving case B the dynamic programs. For each shape n climbs
a ladder until one of the seeds is not proved. Times are processor seconds of this process, building
the model included, so that other work on the machine does not count. Writes formulations.json and
formulations.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from benchmarks.provenance import made_by
from brtheory.files import write_text_atomic
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance
from brtheory.routers.baselines import PoolFifo
from brtheory.simulation.benchmark.suite import machine
from brtheory.simulation.replay import replay
from solvers.budget import Budget, Options
from solvers.facade import solve_problem
from solvers.problem import FixedAdmissions, FreeAdmissions, admission_steps

Formulation = Literal["textbook", "ours"]
CpuClock = Callable[[], float]

LADDER = (3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256)
LONGEST_OUTPUT, LONGEST_PROMPT = 16, 400


@dataclass(frozen=True)
class Shape:
    """A kind of problem, for any number of requests.

    Parameters
    ----------
    case
        ``A``: admission steps of the pooled FIFO; ``B``: steps free.
    replicas, slots
        G and B.
    work_conserving
        Case B: no request waits while a replica has room.
    """

    case: Literal["A", "B"]
    replicas: int
    slots: int
    work_conserving: bool = False

    def __str__(self) -> str:
        rule = ", work-conserving" if self.work_conserving else ""
        return f"{self.case}{rule}, {self.replicas} x {self.slots}"

    def problem(self, requests: int, seed: int) -> FixedAdmissions | FreeAdmissions:
        """One problem of this shape; slots are asked for about once on average."""
        span = requests * LONGEST_OUTPUT // (2 * self.replicas * self.slots)
        instance = random_instance(
            np.random.default_rng([seed, requests]),
            requests=requests,
            replicas=self.replicas,
            slots=self.slots,
            longest_prompt=LONGEST_PROMPT,
            longest_output=LONGEST_OUTPUT,
            latest_ready=max(1, span),
        )
        if self.case == "A":
            return FixedAdmissions(instance, "time", _fifo_steps(instance))
        return FreeAdmissions(instance, "time", work_conserving=self.work_conserving)


@dataclass(frozen=True)
class Contender:
    """A formulation and what solves it."""

    formulation: Formulation
    method: str

    def takes(self, shape: Shape) -> bool:
        """Whether the method is meant for the shape: the program is lost where holding is free."""
        return self.method != "dp" or shape.case == "A" or shape.work_conserving


@dataclass(frozen=True)
class Row:
    """One size: processor seconds of each seed, and whether every one was proved optimal."""

    shape: str
    formulation: Formulation
    method: str
    requests: int
    cpu_s: tuple[float, ...]
    proved: bool


@dataclass(frozen=True)
class Effort:
    """What a run covers.

    Parameters
    ----------
    cpu_limit_s
        Processor seconds for one solve.
    seeds
        Problems of each size.
    ladder
        Numbers of requests, ascending.
    """

    cpu_limit_s: float = 10.0
    seeds: int = 3
    ladder: tuple[int, ...] = LADDER


SHAPES = (
    Shape("A", 2, 6),
    Shape("A", 3, 4),
    Shape("B", 2, 3),
    Shape("B", 3, 2, work_conserving=True),
)
CONTENDERS = tuple(
    Contender(formulation, method)
    for formulation, methods in (("textbook", ("milp", "cpsat")), ("ours", ("milp", "cpsat", "dp")))
    for method in methods
)
QUICK = Effort(cpu_limit_s=1.0, seeds=1, ladder=(2,))
WARM_UP = Effort(cpu_limit_s=60.0, seeds=1, ladder=(2,))


def measure(
    shapes: Sequence[Shape], effort: Effort, *, clock: CpuClock = time.process_time
) -> Iterator[Row]:
    """Climb the ladder for every shape and contender; rows in that order."""
    for shape in shapes:
        for contender in CONTENDERS:
            if contender.takes(shape):
                yield from _climb(shape, contender, effort, clock=clock)


def compare(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each shape the best of the textbook's methods and the best of ours.

    ``size`` is the largest number of requests proved, ``cpu_s`` the mean processor time at the
    largest size both prove; ``speedup`` and ``growth`` are their ratios, None where undefined.
    """
    return [_comparison(shape, rows) for shape in dict.fromkeys(row.shape for row in rows)]


def comparison_lines(comparisons: Sequence[dict[str, Any]]) -> list[str]:
    """Markdown lines of the comparison, a row for each kind of problem."""
    lines = [
        "| problem | textbook | ours | x size | at n | textbook s | ours s | x faster |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for c in comparisons:
        book, ours = c["textbook"], c["ours"]
        lines.append(
            f"| {c['shape']} | {_reached(book)} "
            f"| {_reached(ours)} | {_text(c['growth'])} "
            f"| {_text(c['common'])} | {_text(book['cpu_s'])} | {_text(ours['cpu_s'])} "
            f"| {_text(c['speedup'])} |"
        )
    return lines


def as_table(
    comparisons: Sequence[dict[str, Any]], rows: Sequence[Row], *, effort: Effort, on: str
) -> str:
    """Markdown: the comparison, then every contender's largest size."""
    lines = [
        f"Proved optimal within {effort.cpu_limit_s:g} s of processor time. Measured on: {on}.",
        "",
        *comparison_lines(comparisons),
    ]
    lines += [
        "",
        "| problem | formulation | method | n | proved | s |",
        "|---|---|---|--:|---|--:|",
    ]
    lines += [
        f"| {r.shape} | {r.formulation} | {r.method} | {r.requests} "
        f"| {'yes' if r.proved else 'no'} | {fmean(r.cpu_s):.2f} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.formulations")
    parser.add_argument("--quick", action="store_true", help="two requests: does it work?")
    parser.add_argument("--cpu-limit", type=float, help="processor seconds for one solve")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args(arguments)
    effort = QUICK if options.quick else Effort()
    if options.cpu_limit is not None:
        effort = Effort(options.cpu_limit, effort.seeds, effort.ladder)
    rows = []
    # Imports and compiled kernels count for nobody; whoever comes first would pay for them.
    list(measure(SHAPES, WARM_UP))
    for row in measure(SHAPES, effort):
        print(row, file=sys.stderr)
        rows.append(row)
    comparisons, on = compare(rows), machine()
    document = {
        "provenance": made_by("formulations"),
        "machine": on,
        "effort": asdict(effort),
        "comparisons": comparisons,
        "rows": [asdict(row) for row in rows],
    }
    write_text_atomic(options.out / "formulations.json", json.dumps(document, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in on.items())
    table = as_table(comparisons, rows, effort=effort, on=described)
    write_text_atomic(options.out / "formulations.md", table)
    print(options.out / "formulations.md")


def _climb(shape: Shape, contender: Contender, effort: Effort, *, clock: CpuClock) -> Iterator[Row]:
    for requests in effort.ladder:
        seconds, proved = [], True
        for seed in range(effort.seeds):
            started = clock()
            proved = _proves(shape.problem(requests, seed), contender, effort, clock=clock)
            seconds.append(clock() - started)
            if not proved:
                break
        yield Row(
            str(shape), contender.formulation, contender.method, requests, tuple(seconds), proved
        )
        if not proved:
            return


def _proves(
    problem: FixedAdmissions | FreeAdmissions,
    contender: Contender,
    effort: Effort,
    *,
    clock: CpuClock,
) -> bool:
    started = clock()
    budget = Budget(should_stop=lambda: clock() - started > effort.cpu_limit_s)
    options = Options(textbook=contender.formulation == "textbook")
    result = solve_problem(problem, method=contender.method, budget=budget, options=options)
    return result.optimal and clock() - started <= effort.cpu_limit_s


def _comparison(shape: str, rows: Sequence[Row]) -> dict[str, Any]:
    best = {
        formulation: max(
            (r for r in rows if (r.shape, r.formulation) == (shape, formulation) and r.proved),
            key=lambda r: (r.requests, -fmean(r.cpu_s)),
            default=None,
        )
        for formulation in ("textbook", "ours")
    }
    book, ours = best["textbook"], best["ours"]
    common = None if book is None or ours is None else min(book.requests, ours.requests)
    seconds = {f: _fastest(rows, shape, f, common) for f in best}
    faster = None
    if seconds["textbook"] is not None and seconds["ours"]:
        faster = seconds["textbook"] / seconds["ours"]
    return {
        "shape": shape,
        "common": common,
        "growth": None if book is None or ours is None else ours.requests / book.requests,
        "speedup": faster,
        **{
            formulation: {
                "size": None if row is None else row.requests,
                "method": None if row is None else row.method,
                "cpu_s": seconds[formulation],
            }
            for formulation, row in best.items()
        },
    }


def _fastest(
    rows: Sequence[Row], shape: str, formulation: str, requests: int | None
) -> float | None:
    """Least mean time of a formulation's methods at one size, None if none proves it."""
    return min(
        (
            fmean(r.cpu_s)
            for r in rows
            if (r.shape, r.formulation, r.requests) == (shape, formulation, requests) and r.proved
        ),
        default=None,
    )


def _fifo_steps(instance: Instance) -> dict[int, int]:
    return admission_steps(replay(instance, PoolFifo()))


def _reached(side: dict[str, Any]) -> str:
    return "none" if side["size"] is None else f"{side['size']} ({side['method']})"


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


if __name__ == "__main__":
    main()
