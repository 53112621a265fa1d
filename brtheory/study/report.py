"""The page of a study: one self-contained HTML file that opens offline.

Everything on it is computed from the ``StudyDocument``; drawings are inline, styles are in the
page, nothing is loaded from elsewhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from brtheory.files import write_text_atomic
from brtheory.study import wording
from brtheory.study.campaign import LoadCurves
from brtheory.study.choices import BASELINE
from brtheory.study.comparison_table import COLUMNS, table_rows
from brtheory.study.figures.bars import idle_bars, imbalance_bars, throughput_bars
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.loads import load_curves
from brtheory.study.figures.scaling import scaling_lines
from brtheory.study.figures.tails import tpot_dots, wait_dots
from brtheory.study.findings import best_router
from brtheory.study.results import SCOPES, Scope, StudyDocument

PAGE = Path("report") / "index.html"
SCOPE_TITLES: dict[Scope, str] = {
    "loaded_window": "the loaded window (first 10 % completed … last request ready)",
    "all_steps": "all executed steps",
}
WEAKNESSES = ("horizon", "least-tokens", "starvation", "short", "oracle")


@dataclass(frozen=True)
class Card:
    """One large number at the top of the page."""

    value: str
    label: str


@dataclass(frozen=True)
class MetricTable:
    """All metrics over one scope: a row a metric, a column a router."""

    title: str
    routers: list[str]
    rows: list[tuple[str, list[str]]]


def write_report(document: StudyDocument, curves: Sequence[LoadCurves], *, folder: Path) -> Path:
    """Write the page into ``folder`` and return its path."""
    path = folder / PAGE
    write_text_atomic(path, report_html(document, curves))
    return path


def report_html(document: StudyDocument, curves: Sequence[LoadCurves]) -> str:
    """The page as text."""
    weak = [finding for finding in document.findings if finding.kind in WEAKNESSES]
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            document=document,
            cards=_cards(document),
            said=[finding for finding in document.findings if finding not in weak],
            weak=weak,
            scope=SCOPE_TITLES[document.main_scope],
            columns=COLUMNS,
            table=table_rows(document),
            drawings=_drawings(document, curves),
            metrics=[_metric_table(document, scope) for scope in SCOPES],
            wording=wording,
        )
    )


def page_environment() -> Environment:
    """Templates of all pages; a name that is missing is an error."""
    environment = Environment(
        loader=PackageLoader("brtheory.study"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    return environment


def _unbroken(text: str) -> str:
    """Keeps a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=(s|ms|steps|tokens)\b|[%×])", "\u00a0", text)


def _drawings(document: StudyDocument, curves: Sequence[LoadCurves]) -> list[Drawing]:
    drawings = [
        load_curves(curves),
        imbalance_bars(document),
        idle_bars(document),
        throughput_bars(document),
        tpot_dots(document),
        wait_dots(document),
        scaling_lines(document),
    ]
    return [drawing for drawing in drawings if drawing is not None]


def _cards(document: StudyDocument) -> list[Card]:
    lost = document.estimate(BASELINE, "barrier_time_fraction")
    cards = [Card(wording.percent(lost.mean if lost else None), "of decode time lost under JSQ")]
    best = best_router(document, predicted=False)
    if best is not None and best.label != BASELINE:
        imbalance = document.estimate(best.label, "imbalance_mean_tokens")
        throughput = document.estimate(best.label, "throughput_tokens_per_s")
        share = wording.ratio(imbalance.ratio_to_jsq if imbalance else None)
        cards += [
            Card(f"{share} ×", f"JSQ's imbalance under {best.title}, no prediction needed"),
            Card(wording.gain(throughput), f"tokens per second, {best.title} against JSQ"),
        ]
    return cards


def _metric_table(document: StudyDocument, scope: Scope) -> MetricTable:
    names = next(
        (list(s.metrics) for s in document.summaries if s.scope == scope and s.metrics), []
    )
    rows = []
    for name in names:
        estimates = [document.estimate(r.label, name, scope=scope) for r in document.routers]
        rows.append((name, [wording.number(e.mean if e else None) for e in estimates]))
    return MetricTable(SCOPE_TITLES[scope], [r.title for r in document.routers], rows)
