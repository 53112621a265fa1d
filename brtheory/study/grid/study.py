"""One grid study from its plan to the files in its folder.

results.json (``GridDocument``), results.parquet (one row a run and scope) and report/index.html;
finished cells are kept under ``cells`` and never computed twice.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from brtheory.files import write_text_atomic
from brtheory.study.cells import Job, exclusive, make_job
from brtheory.study.figures.canvas import Drawing
from brtheory.study.findings import FEW_TURNS
from brtheory.study.grid.document import Derived, GridDocument, Source, Table
from brtheory.study.grid.page import write_page
from brtheory.study.grid.plan import Plan
from brtheory.study.grid.table import Row, grid_rows, rows_frame, summarise_grid
from brtheory.study.invocation import Invocation
from brtheory.study.results import Finding, Provenance
from brtheory.study.supply import Taken
from brtheory.study.tasks import RunTask
from brtheory.traces.schema import Trace
from brtheory.traces.table_file import write_parquet

SHORT = "short"
"""Kind of the finding that comes from the plan: runs too short to be read."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What one study reads from its numbers; later parts see what earlier ones made.

    Parameters
    ----------
    derive
        Fits, gains and numbers reported elsewhere.
    tables, find
        Tables and sentences for people.
    draw
        Figures of the page.
    metrics
        Metrics that all of these read: what a published document keeps.
    """

    derive: Callable[[GridDocument], list[Derived]] = lambda _document: []
    tables: Callable[[GridDocument], list[Table]]
    find: Callable[[GridDocument], list[Finding]]
    draw: Callable[[GridDocument], list[Drawing]]
    metrics: Sequence[str] = ()


def run_grid(
    plan: Plan,
    view: View,
    *,
    folder: Path,
    invocation: Invocation,
    on_done: Callable[[int], None] = lambda _done: None,
) -> GridDocument:
    """Run what is not yet in ``folder`` and write results.json, results.parquet and the page.

    Parameters
    ----------
    plan
        The cells.
    view
        What to read from them.
    folder
        Output folder.
    invocation
        Provenance, and what runs the cells.
    on_done
        Called with the number of cells finished since the last call, ``len(plan.cells)`` in all.

    Raises
    ------
    InputError
        If another study holds the folder.
    BrtheoryError
        If a run fails; finished cells are kept.
    """
    clock = time.perf_counter()
    taken = Taken()
    with exclusive(folder), invocation.execution(folder, on_done) as execution:
        jobs = _jobs(plan, taken)
        done = execution.finish(jobs)
        rows = grid_rows(plan.cells, [done[job.key].result for job in jobs])
        provenance = invocation.provenance(execution, since=clock)
        traces = [job.trace for job in jobs]
        document = read_grid(_document(plan, rows, traces, provenance=provenance), view)
        text = document.model_dump_json(by_alias=True, indent=1)
        write_text_atomic(folder / "results.json", text + "\n")
        write_parquet(rows_frame(rows), folder / "results.parquet")
        write_page(document, view.draw(document), folder=folder)
    return document


def trimmed(document: GridDocument, view: View) -> GridDocument:
    """The document with the metrics that the view reads alone: small enough to publish."""
    summaries = [
        summary.model_copy(
            update={"metrics": {k: v for k, v in summary.metrics.items() if k in view.metrics}}
        )
        for summary in document.summaries
    ]
    return document.model_copy(update={"summaries": summaries})


def read_grid(document: GridDocument, view: View) -> GridDocument:
    """The document with what the view reads from its summaries, instead of what it had."""
    document = document.model_copy(update={"derived": view.derive(document)})
    document = document.model_copy(update={"tables": view.tables(document)})
    said = [finding for finding in document.findings if finding.kind == SHORT]
    findings = [*view.find(document), *said]
    return document.model_copy(update={"findings": findings})


def _jobs(plan: Plan, taken: Taken) -> list[Job]:
    jobs = []
    for cell in plan.cells:
        trace, digest = taken.take(cell.supply, requests=cell.requests, seed=cell.seed)
        jobs.append(make_job(cell.task, trace, digest=digest))
    return jobs


def _document(
    plan: Plan, rows: Sequence[Row], traces: Sequence[Trace], *, provenance: Provenance
) -> GridDocument:
    return GridDocument(
        schema="brtheory.grid-study/1",
        study=plan.name,
        title=plan.title,
        question=plan.question,
        axes=list(plan.axes),
        baseline=plan.baseline,
        conditions=dict(plan.conditions),
        seeds=sorted({cell.seed for cell in plan.cells}),
        sources=_sources(traces),
        notes=list(plan.notes),
        summaries=summarise_grid(rows, plan.baseline),
        derived=[],
        tables=[],
        findings=_shortness(plan),
        provenance=provenance,
    )


def _shortness(plan: Plan) -> list[Finding]:
    """Says so where runs are too short to be read as anything but a smoke test."""
    turns = [
        cell.requests / (cell.task.config.shape.replicas * cell.task.config.shape.slots)
        for cell in plan.cells
        if isinstance(cell.task, RunTask)
    ]
    if min(turns, default=FEW_TURNS) >= FEW_TURNS:
        return []
    text = (
        f"Some runs play only {min(turns):.1f} requests a slot: they are mostly start and end. "
        f"Play more before reading anything from the numbers."
    )
    return [Finding(kind=SHORT, text=text)]


def _sources(traces: Sequence[Trace]) -> list[Source]:
    names = {trace.name: trace for trace in traces}
    return [
        Source(
            name=name,
            source=trace.source,
            synthetic=trace.synthetic,
            requests=sorted({len(other) for other in traces if other.name == name}),
        )
        for name, trace in names.items()
    ]
