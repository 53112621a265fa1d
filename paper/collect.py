"""Collectors: one function a result file, each adding texts, tables and figures under its keys."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.window_report import blocks, read
from brtheory.analysis.extremes import log_bound_overstatement
from brtheory.simulation.benchmark.document import BenchDocument
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study import wording
from brtheory.study.campaign import LOAD_POINTS, LoadCurves
from brtheory.study.choices import resolve_choices
from brtheory.study.comparison_table import COLUMNS, table_rows
from brtheory.study.figures.loads import load_curves
from brtheory.study.grid.document import GridDocument, Table
from brtheory.study.grid.study import read_grid
from brtheory.study.grids.catalogue import VIEWS
from brtheory.study.results import StudyDocument
from brtheory.study.tasks import LoadSampler
from brtheory.traces.workloads import generate_workload
from paper.values import Source, Values
from solvers.gap.document import GapDocument
from solvers.gap.figures import YARDSTICKS, gap_strips
from solvers.gap.page import interval_text
from solvers.gap.shares import PARTS, mean_shares

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
FONT = "Libertinus Serif"
COMMANDS = {"bench.json": "brtheory bench"}
"""Commands of result files that do not name theirs."""
LEFT_OUT = ("time lost", "wait P50")
"""Columns of the study's table that the paper has no room for."""


@dataclass(frozen=True)
class Shown:
    """What the paper shows of a grid study.

    Parameters
    ----------
    tables, figures
        Key in the paper, and the table's place or the drawing's name in the study.
    findings
        Kinds of sentences.
    intervals
        Whether table cells carry their intervals.
    """

    tables: Mapping[str, int]
    figures: Mapping[str, str]
    findings: Sequence[str]
    intervals: bool = False


SHOWN = {
    "scenarios": Shown(
        {"scenarios": 0},
        {"scenarios-light": "imbalance-light"},
        ("saturated", "waiting", "prediction", "light"),
    ),
    "regimes": Shown({}, {"regimes-won": "won-backlog"}, ("step-time", "memory", "spread")),
    "scaling": Shown({"fits": 3}, {"growth": "growth"}, ("independent", "normal", "fade")),
    "energy": Shown({}, {}, ("energy-time",)),
    "tables": Shown(
        {"paper-private": 0, "paper-azure": 1}, {}, ("barrier-model", "order", "growth")
    ),
}


TICKS = (
    ("br0", 16, "steady"),
    ("brh", 16, "steady"),
    ("brh", 1024, "steady"),
    ("brh", 1024, "burst"),
    ("window", 16, "steady"),
)
"""Ticks the paper shows."""


def collect() -> Values:
    """Everything the paper may quote."""
    values = Values()
    for collector in (study, loads, grids, window, speed, extremes, gap, ledger):
        collector(values)
    values.tables["sources"] = [["file", "command", "revision", "started"]] + [
        [source.path, source.command, source.revision, source.started] for source in values.sources
    ]
    return values


def study(values: Values) -> None:
    """The comparison of the README."""
    document = StudyDocument.model_validate(_read(values, "study.json"))
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


def grids(values: Values) -> None:
    """Grid studies: which of their tables, drawings and sentences the paper shows."""
    for name, shown in SHOWN.items():
        view = VIEWS[name]
        document = read_grid(GridDocument.model_validate(_read(values, f"{name}.json")), view)
        for key, at in shown.tables.items():
            values.tables[key] = _grid_table(document.tables[at], intervals=shown.intervals)
        drawings = {drawing.name: drawing for drawing in view.draw(document)}
        for key, drawing in shown.figures.items():
            values.figures[key] = drawings[drawing].standalone(font=FONT)
        sentences = [found.text for found in document.findings if found.kind in shown.findings]
        if sentences:
            values.findings[name] = sentences


def window(values: Values) -> None:
    """The window router's goals, and what each of its parts is worth."""
    _read(values, "window.json")
    tables = blocks(read(RESULTS / "window.json"), read(RESULTS / "window_ideas.json"))
    values.tables["window-goals"] = _markdown_rows(tables["goals"])
    values.tables["window-parts"] = _markdown_rows(tables["parts"])


def speed(values: Values) -> None:
    """A tick's and a token's time, on the machine that the result files name."""
    bench = BenchDocument.model_validate(_read(values, "bench.json"))
    values.texts["bench.machine"] = f"{bench.machine['cpu']}, {bench.machine['cores']} cores"
    values.tables["ticks"] = [["router, G, moment", "reference", "numpy", "compiled"]]
    for router, replicas, severity in TICKS:
        found = {
            tick.backend: tick
            for tick in bench.tick
            if (tick.router, tick.replicas, tick.severity) == (router, replicas, severity)
        }
        times = [found["compiled"].reference_p50_us] if "compiled" in found else [None]
        times += [found[e].p50_us if e in found else None for e in ("numpy", "compiled")]
        cells = [wording.NONE if time is None else f"{time:,.0f} µs" for time in times]
        values.tables["ticks"].append([f"{router}, {replicas}, {severity}", *cells])


def extremes(values: Values) -> None:
    """How far the usual approximation of an expected maximum is off."""
    for replicas in (2, 8):
        over = log_bound_overstatement(replicas)
        assert over is not None  # noqa: S101  # two replicas or more have one
        values.texts[f"extremes.over{replicas}"] = f"{100 * over:.0f} %"


def gap(values: Values) -> None:
    """Gaps to exact optima on small instances."""
    document = GapDocument.model_validate(_read(values, "gap.json"))
    values.texts["gap.cases"] = str(len(document.cases))
    values.texts["gap.largest"] = str(max(case.requests for case in document.cases))
    values.texts["gap.limit"] = f"{document.settings.time_limit_s:g} s"
    values.tables["gap"] = [
        ["router", "time, same admissions", "imbalance, same admissions", "time, any", "worst"]
    ] + [
        [
            summary.router,
            interval_text(summary.same_admissions_time.mean),
            interval_text(summary.same_admissions_imbalance.mean),
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


def ledger(values: Values) -> None:
    """Statements with their recorded verdicts; claims come from the register itself."""
    record = json.loads((ROOT / "proofs" / "record.json").read_text(encoding="utf-8"))["statements"]
    statements = import_module("proofs.register").STATEMENTS
    counts: dict[str, int] = {}
    true_rows, false_rows = [["id", "claim", "verdict", "layers"]], [["id", "claim"]]
    for statement in statements:
        entry = record.get(statement.id, {"verdict": "open", "layers": {}})
        verdict = entry["verdict"]
        counts[verdict] = counts.get(verdict, 0) + 1
        values.statements[statement.id] = {"verdict": verdict, "title": statement.title}
        if verdict == "refuted":
            false_rows.append([statement.id, statement.claim])
        else:
            methods = sorted({key.split(":")[0] for key in entry["layers"]})
            true_rows.append([statement.id, statement.claim, verdict, ", ".join(methods)])
    values.tables["ledger"], values.tables["refuted"] = true_rows, false_rows
    values.texts["ledger.count"] = str(len(statements))
    for verdict in ("proved", "checked", "refuted", "open"):
        values.texts[f"ledger.{verdict}"] = str(counts.get(verdict, 0))


def _markdown_rows(text: str) -> list[list[str]]:
    """Rows of a Markdown table, its rule left out; intervals, in brackets, left out too."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]
    return [
        [re.sub(r" \(\d[^)]*\)", "", cell) for cell in row]
        for row in rows
        if not set("".join(row)) <= set("- ")
    ]


def _grid_table(table: Table, *, intervals: bool) -> list[list[str]]:
    """Rows of a study's table."""
    rows = [[table.corner, *table.columns]]
    for line in table.lines:
        texts = [f"{e.text} {e.detail}".strip() if intervals else e.text for e in line.entries]
        cells = zip(texts, line.entries, strict=True)
        rows.append([line.title, *(f"*{text}*" if entry.best else text for text, entry in cells)])
    return rows


def _read(values: Values, name: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    made = document.get("provenance", {"command": COMMANDS.get(name, ""), "revision": {}})
    revision = {"commit": "", **made["revision"]}
    mark = " (uncommitted changes)" if revision.get("dirty") else ""
    source = Source(
        f"docs/results/{name}",
        re.sub(r" --out \S+", "", made["command"]),
        f"{revision['commit'][:10]}{mark}",
        made.get("started", "")[:16],
    )
    values.sources.append(source)
    return document


def _cell(cell: Any) -> str:
    text = f"{cell.text} {cell.detail}".strip()
    return f"*{text}*" if cell.best else text
