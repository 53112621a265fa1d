"""Everything the paper may quote: one function a result file, each adding under its keys."""

from typing import Any

from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study import wording
from brtheory.study.campaign import LOAD_POINTS, LoadCurves
from brtheory.study.choices import resolve_choices
from brtheory.study.comparison_table import COLUMNS, table_rows
from brtheory.study.figures.loads import load_curves
from brtheory.study.results import StudyDocument
from brtheory.study.tasks import LoadSampler
from brtheory.traces.workloads import generate_workload
from paper.grids import grids
from paper.measured import brackets, exact_score, extremes, prediction, proxy, ticks, window
from paper.sources import FONT, RESULTS, read
from paper.statements import ledger
from paper.values import Values
from solvers.gap.document import GapDocument
from solvers.gap.figures import YARDSTICKS, gap_strips
from solvers.gap.page import interval_text
from solvers.gap.shares import PARTS, mean_shares

LEFT_OUT = ("time lost", "wait P50")
"""Columns of the study's table that the paper has no room for."""


def collect() -> Values:
    """Everything the paper may quote."""
    values = Values()
    for collector in (
        study,
        loads,
        grids,
        window,
        prediction,
        exact_score,
        ticks,
        proxy,
        extremes,
        gap,
        brackets,
        ledger,
    ):
        collector(values)
    values.tables["sources"] = [["file", "command", "revision", "started"]] + [
        [source.path, source.command, source.revision, source.started] for source in values.sources
    ]
    return values


def study(values: Values) -> None:
    """The comparison of the README."""
    document = StudyDocument.model_validate(read(values, "study.json"))
    conditions = document.conditions
    texts = values.texts
    texts["study.requests"] = f"{document.trace.requests:,}"
    texts["study.seeds"] = str(len(conditions.seeds))
    texts["study.replicas"] = str(conditions.replicas)
    texts["study.slots"] = str(conditions.slots)
    texts["study.arrivals"] = conditions.arrivals
    texts["study.b0"] = f"{1000 * conditions.b0:g} ms"
    texts["study.a0"] = f"{1e6 * conditions.a0:g} µs"
    for label in ("jsq", "br0", "window"):
        lost = document.estimate(label, "barrier_time_fraction")
        load = document.estimate(label, "imbalance_mean_tokens")
        if lost is None or load is None:
            continue
        texts[f"study.{label}.lost"] = wording.percent(lost.mean)
        if label == "jsq":
            continue
        texts[f"study.{label}.ratio"] = wording.ratio(load.ratio_to_jsq)
        texts[f"study.{label}.ratio-interval"] = wording.interval(
            load.ratio_low, load.ratio_high, digits=2
        )
        texts[f"study.{label}.gain"] = wording.gain(
            document.estimate(label, "throughput_tokens_per_s")
        )
    shown = [at for at, column in enumerate(COLUMNS) if column.title not in LEFT_OUT]
    values.tables["study"] = [["router", *(COLUMNS[at].title for at in shown)]] + [
        [row.title, *(_cell(row.cells[at]) for at in shown)] for row in table_rows(document)
    ]


def loads(values: Values) -> None:
    """Loads over time under two routers: a run of the study's conditions, repeated here."""
    document = StudyDocument.model_validate_json((RESULTS / "study.json").read_text("utf-8"))
    conditions = document.conditions
    trace = generate_workload(document.trace.name, requests=document.trace.requests, seed=0)
    curves = []
    for choice in resolve_choices(
        ("jsq", "window"),
        mean_output_tokens=document.trace.output_tokens_mean,
        slots=conditions.slots,
    ):
        config = RunConfig(
            router=choice.spec.name,
            shape=ClusterShape(conditions.replicas, conditions.slots),
            params=choice.params,
            arrivals=parse_arrivals(conditions.arrivals),
            step_time=StepTime(a0=conditions.a0, b0=conditions.b0),
        )
        sampler = LoadSampler(points=LOAD_POINTS)
        simulate(trace, config, observers=(sampler,))
        curves.append(LoadCurves(choice, *sampler.sample()))
    drawing = load_curves(curves)
    values.figures["loads"] = drawing.standalone(font=FONT)
    values.texts["caption.loads"] = drawing.caption


def gap(values: Values) -> None:
    """Gaps to exact optima on small instances."""
    document = GapDocument.model_validate(read(values, "gap.json"))
    values.texts["gap.cases"] = str(len(document.cases))
    values.texts["gap.largest"] = str(max(case.requests for case in document.cases))
    values.texts["gap.limit"] = f"{document.settings.time_limit_s:g} s"
    values.tables["gap"] = [
        [
            "router",
            "time, same admissions",
            "imbalance, same admissions",
            "time, conserving",
            "time, any",
            "worst",
        ]
    ] + [
        [
            summary.router,
            interval_text(summary.same_admissions_time.mean),
            interval_text(summary.same_admissions_imbalance.mean),
            interval_text(summary.work_conserving_time.mean),
            interval_text(summary.any_admissions_time.mean),
            wording.percent(summary.same_admissions_time.largest[0]),
        ]
        for summary in document.summary
    ]
    values.tables["gap-parts"] = [["part", "share of BR-0's time", "instances"]] + [
        [PARTS[name].title, interval_text(share.ends), str(share.cases)]
        for name, share in mean_shares(document).items()
        if share is not None
    ]
    drawing = gap_strips(document, YARDSTICKS[0])
    values.figures["gap"] = drawing.standalone(font=FONT)


def _cell(cell: Any) -> str:
    text = f"{cell.text} {cell.detail}".strip()
    return f"*{text}*" if cell.best else text
