"""How imbalance grows with the number of replicas, beside independent stationary loads."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from brtheory.study import wording
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.results import StudyDocument, Summary

METRIC = "imbalance_per_replica_tokens"
MARKS = "osD^v"


def scaling_lines(document: StudyDocument) -> Drawing | None:
    """Imbalance per replica against G; None where the study has no growth with G."""
    lines = _lines(document)
    if not lines:
        return None
    alt = "Line chart of imbalance per replica against the number of replicas. " + " ".join(
        _described(title, points) for title, _, points in lines
    )
    with canvas.sheet(height=3.3) as (figure, (panel,)):
        for (title, colour, points), mark in zip(lines, MARKS, strict=False):
            _draw_line(panel, title, points, colour=colour, mark=mark)
        _draw_theory(panel, document)
        _finish(panel, sorted({summary.replicas for _, _, points in lines for summary in points}))
        svg = canvas.svg_text(figure, name="scaling", alt=alt)
    caption = (
        f"Imbalance / G under {document.conditions.scaling_arrivals}, over the loaded window. "
        f"Dashed: mean of max − mean of G independent replicas whose slots are always full, by "
        f"Monte Carlo (modelled).{_nearness(document, lines)}"
    )
    return Drawing("scaling", "Growth with the number of replicas", caption, alt, svg)


def _tokens(summary: Summary) -> float:
    """Mean imbalance per replica, 0 where there is none."""
    estimate = summary.metrics.get(METRIC)
    return 0.0 if estimate is None else estimate.mean


def _nearness(document: StudyDocument, lines: Sequence["Line"]) -> str:
    """How far JSQ is from independent loads, in words."""
    law = {point.replicas: point.excess_tokens for point in document.independent_loads}
    gaps = [
        abs(_tokens(point) / law[point.replicas] - 1)
        for title, _, points in lines
        for point in points
        if title == "JSQ" and law.get(point.replicas, 0) > 0
    ]
    if not gaps:
        return ""
    return f" JSQ is within {100 * max(gaps):.0f} % of that: it balances requests, not tokens."


Line = tuple[str, str, list[Summary]]


def _lines(document: StudyDocument) -> list[Line]:
    colours = {"jsq": canvas.BASELINE, "br0": canvas.SCORE}
    lines: list[Line] = []
    for facts in document.routers:
        points = [
            summary
            for summary in document.summaries
            if (summary.section, summary.label) == ("scaling", facts.label)
            and summary.scope == "loaded_window"
            and _tokens(summary) > 0
        ]
        if points:
            lines.append((facts.title, colours.get(facts.label, canvas.INK), points))
    return lines


def _draw_line(
    panel: Axes, title: str, points: Sequence[Summary], *, colour: str, mark: str
) -> None:
    estimates = [(point.replicas, e) for point in points if (e := point.metrics[METRIC])]
    replicas, means = [g for g, _ in estimates], [e.mean for _, e in estimates]
    panel.plot(replicas, means, color=colour, marker=mark, markersize=4, linewidth=1.4, label=title)
    for g, estimate in estimates:
        if estimate.low is not None and estimate.high is not None and estimate.low > 0:
            panel.plot([g, g], [estimate.low, estimate.high], color=colour, linewidth=1)


def _draw_theory(panel: Axes, document: StudyDocument) -> None:
    points = [point for point in document.independent_loads if point.excess_tokens > 0]
    panel.plot(
        [point.replicas for point in points],
        [point.excess_tokens for point in points],
        color=canvas.THEORY,
        linestyle="--",
        linewidth=1.1,
        label="independent loads",
    )


def _finish(panel: Axes, replicas: Sequence[int]) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(list(replicas), [str(g) for g in replicas])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("replicas, G")
    panel.set_ylabel("imbalance / G, KV tokens")
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)


def _described(title: str, points: Sequence[Summary]) -> str:
    values = (
        f"{point.replicas}: {wording.tokens(estimate.mean)}"
        for point in points
        if (estimate := point.metrics[METRIC])
    )
    return f"{title}, tokens by replicas, {', '.join(values)}."
