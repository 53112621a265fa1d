"""Commands of the solvers package: ``brtheory solve``."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from brtheory.offline.instance import read_instance
from solvers.budget import Budget, Options, Progress
from solvers.documents import read_admission_steps, read_tick_problem
from solvers.facade import check_arguments, solve_problem
from solvers.facade import solve as solve_instance
from solvers.interrupt import stop_on_interrupt
from solvers.result import SolveResult

MEGABYTE = 1 << 20


class _Method(StrEnum):
    BRUTE = "brute"
    DP = "dp"
    BEAM = "beam"
    MILP = "milp"
    CPSAT = "cpsat"


class _Backend(StrEnum):
    HIGHS = "highs"
    CBC = "cbc"
    SCIP = "scip"


class _Case(StrEnum):
    A = "A"
    B = "B"
    C = "C"


class _Objective(StrEnum):
    IMBALANCE = "imbalance"
    TIME = "time"


def solve(
    instance: Annotated[
        Path,
        typer.Argument(
            help="Instance file (brtheory.instance/1); for case C also a tick (brtheory.tick/1)."
        ),
    ],
    method: Annotated[
        _Method,
        typer.Option(
            help="brute: everything, tiny problems only. dp: dynamic program over partitions of "
            "the active requests, exact for long instances of small width (case A), or over all "
            "states, strong with --work-conserving (case B). beam: case A with a limited width, an "
            "upper bound. milp: PuLP with HiGHS. cpsat: OR-Tools CP-SAT."
        ),
    ],
    case: Annotated[
        _Case,
        typer.Option(
            help="A: admission steps given, replicas free. B: steps free too. C: one tick, from a "
            "tick state or the first of an instance."
        ),
    ] = _Case.A,
    objective: Annotated[
        _Objective,
        typer.Option(
            help="time: b0 * steps + a0 * sum of peaks. imbalance: sum of G * max - sum; alone in "
            "case B it rewards holding requests back."
        ),
    ] = _Objective.TIME,
    time_limit: Annotated[
        float,
        typer.Option(help="Seconds; the best so far is returned at the limit. inf: no limit."),
    ] = 60.0,
    memory_limit: Annotated[
        int, typer.Option(help="Megabytes for dp, beam and cpsat; the best so far is kept.", min=1)
    ] = 4096,
    admissions: Annotated[
        Path | None,
        typer.Option(
            help="Case A: assignment file whose admission steps are taken (its replicas are not). "
            "Without it each request starts at its ready step."
        ),
    ] = None,
    hold: Annotated[
        int | None,
        typer.Option(help="Case B: most steps a request may wait; without it, any number."),
    ] = None,
    work_conserving: Annotated[
        bool,
        typer.Option(
            "--work-conserving", help="Case B: no request waits while a replica has room for it."
        ),
    ] = False,
    symmetry: Annotated[
        bool | None,
        typer.Option(
            "--symmetry/--no-symmetry",
            help="Forbid renumbered copies of an assignment (milp, cpsat, A and B). "
            "By default where it was seen to pay: case B without a rule on waiting.",
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="States the beam keeps.", min=1)] = 1000,
    backend: Annotated[
        _Backend,
        typer.Option(help="Solver of milp: highs, or cbc or scip (PySCIPOpt) where installed."),
    ] = _Backend.HIGHS,
    workers: Annotated[int, typer.Option(help="Threads of milp and cpsat.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of milp and cpsat.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the best assignment of an INSTANCE, knowing every output length, and prove it.

    Incumbent and bound are exact integers: G * max - sum in tokens for imbalance; for time
    p * steps + q * sum of peaks, with p:q the exact ratio of b0 to a0 (the weights are printed).
    Ctrl-C ends the search and prints the best so far, judged like every result.
    """
    rules: dict[str, Any] = {"hold": hold, "work_conserving": work_conserving}
    check_arguments(method.value, case.value, admissions=admissions, **rules)
    with stop_on_interrupt() as asked, _progress_line(f"{method.value}, case {case.value}") as show:
        limits: dict[str, Any] = {
            "options": Options(
                symmetry=symmetry,
                seed=seed,
                workers=workers,
                width=width,
                milp_backend=backend.value,
            ),
            "budget": Budget(
                time_limit_s=None if time_limit == math.inf else time_limit,
                memory_limit_bytes=memory_limit * MEGABYTE,
                should_stop=asked,
                on_progress=show,
            ),
        }
        if case is _Case.C:
            problem = read_tick_problem(instance, objective.value)
            result = solve_problem(problem, method=method.value, **limits)
        else:
            steps = None if admissions is None else read_admission_steps(admissions)
            result = solve_instance(
                read_instance(instance),
                method=method.value,
                case="A" if case is _Case.A else "B",
                objective=objective.value,
                admissions=steps,
                **rules,
                **limits,
            )
    if as_json:
        typer.echo(json.dumps(result.to_json()))
    else:
        _print_table(result)


@contextmanager
def _progress_line(title: str) -> Iterator[Callable[[Progress], None]]:
    """One line on standard error with incumbent, bound and gap, where a person watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _progress: None
        return
    with console.status(title) as status:
        known = Progress()

        def show(progress: Progress) -> None:
            nonlocal known
            known = _merged(known, progress)
            status.update(f"{title}: {_described(known)}")

        yield show


def _merged(old: Progress, new: Progress) -> Progress:
    return Progress(
        incumbent=old.incumbent if new.incumbent is None else new.incumbent,
        bound=old.bound if new.bound is None else new.bound,
        done=old.done if new.done is None else new.done,
        total=old.total if new.total is None else new.total,
    )


def _described(progress: Progress) -> str:
    parts = []
    if progress.incumbent is not None:
        parts.append(f"incumbent {progress.incumbent}")
    if progress.bound is not None:
        parts.append(f"bound {progress.bound}")
    if progress.incumbent and progress.bound is not None:
        parts.append(f"gap {(progress.incumbent - progress.bound) / progress.incumbent:.2%}")
    if progress.done is not None:
        parts.append(f"{progress.done} of {progress.total}")
    return ", ".join(parts)


def _print_table(result: SolveResult) -> None:
    unit = "tokens" if result.objective == "imbalance" else "integer units"
    rows = {
        "status": result.status,
        "stopped": result.stop.value + (f" ({result.limit.value})" if result.limit else ""),
        f"incumbent ({unit})": result.incumbent,
        f"bound ({unit})": result.bound,
        "gap": None if result.gap is None else f"{result.gap:.2%}",
        "steps": result.steps,
        "sum of peaks (token steps)": result.sum_peak,
        "barrier time (s)": result.barrier_time_s,
        "wall time (s)": f"{result.wall_s:.3f}",
        "requests placed": None if result.assignment is None else len(result.assignment),
    }
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, "unknown" if value is None else str(value))
    Console().print(table)
