"""Ratios to a common reference as dots on a logarithmic axis, one line each, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing

LINE_INCHES = 0.2
LEAST_SPAN = (0.5, 2.0)
"""What the axis always shows, so that small differences look small."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One ratio > 0 and the ends of its interval; an end that is not positive is not drawn."""

    title: str
    value: float
    low: float | None
    high: float | None
    colour: str


@dataclass(frozen=True, kw_only=True)
class RatioSheet:
    """What surrounds the ratios."""

    name: str
    title: str
    caption: str
    axis: str


def ratios_drawing(ratios: Sequence[Ratio], sheet: RatioSheet) -> Drawing:
    """Draw ratios, the first on top, with a line at 1."""
    told = "; ".join(f"{ratio.title} {ratio.value:.2f}" for ratio in ratios)
    alt = f"Dot chart, {sheet.axis}: {told}."
    with canvas.sheet(height=0.9 + LINE_INCHES * len(ratios)) as (figure, (panel,)):
        _draw(panel, ratios)
        panel.set_xlabel(sheet.axis)
        svg = canvas.svg_text(figure, name=sheet.name, alt=alt)
    return Drawing(sheet.name, sheet.title, sheet.caption, alt, svg)


def _draw(panel: Axes, ratios: Sequence[Ratio]) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.axvline(1, color=canvas.MUTED, linewidth=1)
    panel.tick_params(axis="y", length=0, labelsize=8.5)
    for place, ratio in enumerate(ratios):
        if ratio.low is not None and ratio.high is not None and ratio.low > 0:
            panel.plot([ratio.low, ratio.high], [place] * 2, color=ratio.colour, linewidth=1.2)
        panel.plot(ratio.value, place, "o", markersize=4.5, color=ratio.colour)
        panel.annotate(
            f"{ratio.value:.2f}", (1.02, place), xycoords=("axes fraction", "data"),
            va="center", fontsize=8.5,
        )  # fmt: skip
    low, high = panel.get_xlim()
    panel.set_xlim(min(low, LEAST_SPAN[0]), max(high, LEAST_SPAN[1]))
    panel.set_yticks(range(len(ratios)), [ratio.title for ratio in ratios])
    panel.set_ylim(len(ratios) - 0.5, -0.5)
