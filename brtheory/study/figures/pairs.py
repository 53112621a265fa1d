"""Pairs of values a router: what somebody reported (hollow) and what was measured (filled)."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing

TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
"""Of a log axis of ratios."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One router: both values, None where there is none, and the ends of the measured interval."""

    title: str
    reported: float | None
    measured: float | None
    low: float | None = None
    high: float | None = None
    colour: str


@dataclass(frozen=True, kw_only=True)
class PairSheet:
    """What surrounds the pairs; ``log`` for ratios that span decades."""

    name: str
    title: str
    caption: str
    axis: str
    log: bool = False


def pairs_drawing(pairs: Sequence[Pair], sheet: PairSheet) -> Drawing:
    """Draw pairs, one line a router, the first on top."""
    told = "; ".join(
        f"{pair.title} reported {_text(pair.reported)}, measured {_text(pair.measured)}"
        for pair in pairs
    )
    alt = f"Dot chart, {sheet.axis}: {told}."
    with canvas.sheet(height=1.1 + 0.28 * len(pairs)) as (figure, (panel,)):
        _draw(panel, pairs)
        if sheet.log:
            panel.set_xscale("log")
            shown = [tick for tick in TICKS if _within(tick, panel.get_xlim())]
            panel.set_xticks(shown, [f"{tick:g}" for tick in shown])
            panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlabel(sheet.axis)
        svg = canvas.svg_text(figure, name=sheet.name, alt=alt)
    return Drawing(sheet.name, sheet.title, sheet.caption, alt, svg)


def _within(tick: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= tick <= limits[1]


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _draw(panel: Axes, pairs: Sequence[Pair]) -> None:
    panel.grid(visible=False, axis="x")
    panel.tick_params(axis="y", length=0)
    for place, pair in enumerate(pairs):
        if pair.reported is not None and pair.measured is not None:
            ends = [pair.reported, pair.measured]
            panel.plot(ends, [place] * 2, color=canvas.GRID, linewidth=1.6, zorder=1)
        if pair.reported is not None:
            panel.plot(
                pair.reported, place, "o", markersize=6, markerfacecolor="none",
                markeredgecolor=canvas.THEORY,
            )  # fmt: skip
        if pair.measured is not None:
            panel.plot(pair.measured, place, "o", markersize=6, color=pair.colour)
        if pair.low is not None and pair.high is not None:
            panel.plot([pair.low, pair.high], [place] * 2, color=canvas.INK, linewidth=1)
    panel.plot(
        [], [], "o", markerfacecolor="none", markeredgecolor=canvas.THEORY, label="as reported"
    )
    panel.plot([], [], "o", color=canvas.SCORE, label="measured here")
    panel.set_yticks(range(len(pairs)), [pair.title for pair in pairs])
    panel.set_ylim(len(pairs) - 0.5, -0.5)
    panel.margins(x=0.08)
    panel.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
