"""The page of a gap report: one self-contained HTML file that opens offline.

Style sheet and drawing style are the study's, so that both pages read alike; everything shown is
computed from the ``GapDocument``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from brtheory.study import wording
from brtheory.study.figures.canvas import Drawing
from solvers.gap.document import GapDocument, RouterSummary, Spread
from solvers.gap.figures import YARDSTICKS, cost_bars, gap_strips, hold_lines
from solvers.gap.shares import PARTS, mean_shares


@dataclass(frozen=True)
class Row:
    """One line of a table: heading, whether its numbers are points or measured, cells."""

    title: str
    label: str
    cells: list[str]


def page_html(document: GapDocument) -> str:
    """The page as text."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("solvers.gap"), PackageLoader("brtheory.study")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("gap.html.j2").render(
        document=document,
        kinds=_kinds(document),
        families=_families(document),
        rows=[_router_row(summary) for summary in document.summary],
        parts=_part_rows(document),
        drawings=_drawings(document),
        wording=wording,
    )


def interval_text(ends: Sequence[float | None]) -> str:
    """``1.2 %``, or ``1.2 % … 3.4 %`` where the ends differ."""
    low, high = (wording.percent(end).replace("-", "−") for end in ends)
    return low if low == high else f"{low} … {high}"


def _kinds(document: GapDocument) -> list[str]:
    """Where the requests come from, in words."""
    words = {True: "synthetic requests", False: "trace", None: "instance files"}
    return list(dict.fromkeys(words[case.synthetic] for case in document.cases))


def _families(document: GapDocument) -> list[str]:
    counts = Counter(case.family for case in document.cases)
    return [f"{name} × {count}" for name, count in counts.items()]


def _drawings(document: GapDocument) -> list[Drawing]:
    strips = [gap_strips(document, yardstick) for yardstick in YARDSTICKS]
    drawings = [*strips, cost_bars(document), hold_lines(document)]
    return [drawing for drawing in drawings if drawing is not None]


def _router_row(summary: RouterSummary) -> Row:
    label = "proved" if summary.proved == summary.cases else "interval"
    spreads = (
        summary.same_admissions_time,
        summary.same_admissions_imbalance,
        summary.work_conserving_time,
        summary.any_admissions_time,
    )
    cells = [f"{summary.proved} of {summary.cases}", *(interval_text(s.mean) for s in spreads)]
    return Row(summary.router, label, [*cells, _largest(summary.same_admissions_time)])


def _largest(spread: Spread) -> str:
    return wording.percent(spread.largest[0])


def _part_rows(document: GapDocument) -> list[Row]:
    rows = []
    for name, share in mean_shares(document).items():
        if share is not None:
            part, proved = PARTS[name], share.ends[0] == share.ends[1]
            label = "measured" if not part.against_optimum else "proved" if proved else "interval"
            cells = [interval_text(share.ends), str(share.cases), part.meaning]
            rows.append(Row(part.title, label, cells))
    return rows
