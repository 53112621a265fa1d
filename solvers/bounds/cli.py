"""``brtheory bound``: bracket an assignment's gap and write the certificate of the lower bound."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.description_view import show_dropped
from brtheory.cli.option_groups import grouped
from brtheory.cli.options import Json, Seed
from brtheory.cli.progress import progress_bar
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import Assignment, assignment_to_json, read_assignment
from brtheory.offline.instance import Instance, instance_to_json, read_instance
from solvers.bounds.bracket import Bracket, bracket
from solvers.bounds.decompose import Effort, Progress
from solvers.bounds.preset_options import About, Posed, PresetOptions
from solvers.bounds.production import PRESETS
from solvers.bounds.search import SearchLimits

SEARCH_SHARE, BOUND_SHARE = 0.25, 0.72
"""Shares of the time limit for local search and for the lower bound; the rest is for what neither
counts: reading, starting processes, judging, writing."""
PROPOSALS = 100_000
"""Proposals of annealing per request, where numba makes them cheap."""
PER_MILLE = 1000
PHASES = ("search", "scan", "prove")

InputPath = Annotated[Path | None, typer.Argument(help="JSON file (its form: `brtheory schema`).")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write instance.json, assignment.json, best.json and certificate.json here.",
        file_okay=False,
    ),
]
TimeLimit = Annotated[
    float, typer.Option("--time-limit", min=1.0, help="Seconds for both bounds together.")
]
Workers = Annotated[
    int, typer.Option("--workers", min=0, help="Processes; 0: one for each processor.")
]
CertificateFile = Annotated[
    Path | None, typer.Option("--certificate", help="Write the certificate here.", dir_okay=False)
]
BestFile = Annotated[
    Path | None, typer.Option("--best", help="Write the best assignment here.", dir_okay=False)
]


@grouped
def bound(
    source: PresetOptions,
    instance: InputPath = None,
    assignment: InputPath = None,
    out: Folder = None,
    certificate: CertificateFile = None,
    best: BestFile = None,
    time_limit: TimeLimit = 300.0,
    workers: Workers = 0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Bracket how far an ASSIGNMENT is from the best one with the same admission steps.

    Prints a lower bound on the sum of peaks of every assignment with the same admission steps, the
    best assignment local search finds, and the interval that holds the assignment's relative gap.
    The certificate proves the lower bound; check it with

        brtheory certify INSTANCE CERTIFICATE --admissions ASSIGNMENT

    With --preset no files are needed, only requests: of an embedded workload or of your trace.

        brtheory bound --preset g8 --workload azure-2023-conv --out results/g8

        brtheory bound --preset g8 --trace requests.csv --out results/g8
    """
    posed = source.pose(seed=seed)
    problem, judged = _read(instance, assignment) if posed is None else _alone(posed, instance)
    processors = workers or os.cpu_count() or 1
    effort = Effort(time_limit_s=BOUND_SHARE * time_limit, workers=processors)
    with _progress() as on_progress:
        found = bracket(
            problem,
            judged,
            rng=np.random.default_rng(seed),
            effort=effort,
            search=SearchLimits(
                time_limit_s=SEARCH_SHARE * time_limit,
                proposals_per_request=PROPOSALS if find_spec("numba") else 0,
                workers=processors,
            ),
            on_progress=on_progress,
        )
    if out is not None:
        _write(out / "instance.json", instance_to_json(problem))
        _write(out / "assignment.json", assignment_to_json(judged))
    for path in (certificate, None if out is None else out / "certificate.json"):
        if path is not None:
            write_text_atomic(path, found.certificate.model_dump_json(by_alias=True))
    for path in (best, None if out is None else out / "best.json"):
        if path is not None:
            _write(path, assignment_to_json(found.best))
    if as_json:
        about = {} if posed is None else asdict(posed.about)
        typer.echo(json.dumps({**about, **_to_json(found)}))
    else:
        _show(found, None if posed is None else posed.about)


def _read(instance: Path | None, assignment: Path | None) -> tuple[Instance, Assignment]:
    if instance is None or assignment is None:
        expected = "INSTANCE and ASSIGNMENT, or --preset " + "|".join(PRESETS)
        raise InputError("bound", expected, "neither" if instance is None else "INSTANCE alone")
    return read_instance(instance), read_assignment(assignment)


def _alone(posed: Posed, instance: Path | None) -> tuple[Instance, Assignment]:
    if instance is not None:
        raise InputError("--preset", "no files beside it", instance)
    return posed.instance, posed.assignment


def _write(path: Path, document: object) -> None:
    write_text_atomic(path, json.dumps(document))


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar in per mille of each phase, since the number of windows is known only on the way."""
    with progress_bar("search, scan, prove", total=len(PHASES) * PER_MILLE) as advance:
        shown = 0

        def on_progress(phase: str, done: int, total: int) -> None:
            nonlocal shown
            position = PER_MILLE * done // total + PER_MILLE * PHASES.index(phase)
            advance(position - shown)
            shown = position

        yield on_progress


def _to_json(found: Bracket) -> dict[str, object]:
    gap = found.gap
    return {
        "sum_peak": found.judged,
        "incumbent": found.incumbent,
        "bound": found.bound,
        "certified_bound": found.certificate.bound,
        "gap": None if gap is None else [float(side) for side in gap],
        "optimum_known_within": None if found.width is None else float(found.width),
    }


def _show(found: Bracket, about: About | None) -> None:
    console, table = Console(), Table(show_header=False, box=None)
    if about is not None:
        show_dropped(console, about.dropped)
        console.print(about.title, markup=False)
    table.add_row("sum of peaks", f"{found.judged:,} token-steps")
    table.add_row("best known", f"{found.incumbent:,} token-steps")
    table.add_row("lower bound", f"{found.bound:,} token-steps")
    table.add_row("certified", f"{found.certificate.bound:,} token-steps")
    gap, width = found.gap, found.width
    table.add_row(
        "gap", "unknown" if gap is None else f"{float(gap[0]):.2%} .. {float(gap[1]):.2%}"
    )
    table.add_row("optimum within", "unknown" if width is None else f"{float(width):.2%}")
    console.print(table)
