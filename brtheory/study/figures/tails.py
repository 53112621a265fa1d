"""Tails that users feel: time per output token, and waits on a log scale."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from brtheory.study import wording
from brtheory.study.figures import canvas
from brtheory.study.figures.bars import router_colour
from brtheory.study.figures.canvas import Drawing
from brtheory.study.results import StudyDocument

FLOOR_S = 1e-3
"""Waits at or below are drawn here: a log axis has no zero."""
MARKS = ("o", "D", "^")
MOST_TICKS = 6


def tpot_dots(document: StudyDocument) -> Drawing:
    """TPOT P50, P95 and P99 in milliseconds."""
    return _dots(
        document,
        ("tpot_p50_s", "tpot_p95_s", "tpot_p99_s"),
        name="tpot",
        title="Time per output token",
        caption="Further left is better. The axis does not start at zero.",
    )


def wait_dots(document: StudyDocument) -> Drawing:
    """Wait P50, P99 and maximum in seconds, log scale."""
    return _dots(
        document,
        ("wait_p50_s", "wait_p99_s", "wait_max_s"),
        name="waits",
        title="Wait before decoding starts",
        caption=(
            "Log scale, further left is better. A router can buy balance with starvation: look at "
            "the maxima. Waits of at most 1 ms are drawn at 1 ms."
        ),
    )


def log_ticks(seconds: Sequence[float]) -> list[float]:
    """Ticks 1, 2 and 5 of each decade that enclose the values; fewer where decades are many."""
    low, high = max(min(seconds, default=1), FLOOR_S), max(max(seconds, default=1), FLOOR_S)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for marks in ((1, 2, 5), (1,)):
        marked = [float(f"{mark}e{decade}") for decade in decades for mark in marks]
        first = max(i for i, tick in enumerate(marked) if tick <= low)
        last = min(i for i, tick in enumerate(marked) if tick >= high)
        ticks = marked[first : max(last, first + 1) + 1]
        if len(ticks) <= MOST_TICKS:
            return ticks
    return sorted({*ticks[:: math.ceil(len(ticks) / MOST_TICKS)], ticks[-1]})


Line = tuple[str, str, list[float | None]]


def _dots(
    document: StudyDocument, metrics: Sequence[str], *, name: str, title: str, caption: str
) -> Drawing:
    names = [metric.split("_")[1].replace("p", "P") for metric in metrics]
    names = ["maximum" if text == "max" else text for text in names]
    lines: list[Line] = []
    for facts in document.routers:
        estimates = [document.estimate(facts.label, metric) for metric in metrics]
        means = [None if estimate is None else estimate.mean for estimate in estimates]
        lines.append((facts.title, router_colour(facts), means))
    show = wording.milliseconds if name == "tpot" else wording.seconds
    alt = f"{title}, {', '.join(names)}: " + "; ".join(
        f"{line[0]} {', '.join(show(mean) for mean in line[2])}" for line in lines
    )
    with canvas.sheet(height=1.05 + 0.28 * len(lines)) as (figure, (panel,)):
        _draw(panel, lines, names=names, milliseconds=name == "tpot")
        svg = canvas.svg_text(figure, name=name, alt=alt)
    return Drawing(name, title, caption, alt, svg)


def _draw(panel: Axes, lines: Sequence[Line], *, names: Sequence[str], milliseconds: bool) -> None:
    for place, (_, colour, means) in enumerate(lines):
        scale, floor = (1000.0, 0.0) if milliseconds else (1.0, FLOOR_S)
        known = [(max(scale * mean, floor), mark) for mean, mark in zip(means, MARKS, strict=True)
                 if mean is not None]  # fmt: skip
        panel.plot([x for x, _ in known], [place] * len(known), color=colour, linewidth=1)
        for x, mark in known:
            panel.plot(x, place, mark, color=colour, markersize=4.5)
    for name, mark in zip(names, MARKS, strict=True):
        panel.plot([], [], mark, color=canvas.MUTED, markersize=4.5, label=name)
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0, handletextpad=0)
    panel.set_yticks(range(len(lines)), [title for title, _, _ in lines])
    panel.tick_params(axis="y", length=0)
    panel.margins(y=0.04)
    panel.invert_yaxis()
    if milliseconds:
        panel.set_xlabel("milliseconds per output token")
    else:
        panel.set_xscale("log")
        panel.set_xlabel("seconds")
        ticks = log_ticks([x for _, _, means in lines for x in means if x is not None])
        panel.set_xlim(0.8 * ticks[0], 1.25 * ticks[-1])
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.xaxis.set_minor_locator(NullLocator())
