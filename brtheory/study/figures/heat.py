"""Heat maps: one colour whose opacity grows with the value, the number written into each cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing

PALEST, DARKEST = 0.04, 0.62
"""Opacity of the smallest and the largest value: text stays readable on both."""

LONGEST_UPRIGHT = 6
"""Characters of a column's title that fit under its cells."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Values by row and column, None where nothing was measured.

    Parameters
    ----------
    name, title, caption
        As ``Drawing``.
    down, across
        Names of the two axes.
    lines, columns
        Titles along them.
    values
        Rows of numbers >= 0; negative ones are drawn as 0 and written as they are.
    texts
        What is written into the cells.
    colour
        One of ``canvas``.
    """

    name: str
    title: str
    caption: str
    down: str
    across: str
    lines: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    texts: Sequence[Sequence[str]]
    colour: str = canvas.SCORE


def heat_drawing(heat: HeatMap) -> Drawing:
    """Draw a heat map."""
    told = "; ".join(
        f"{line}: " + ", ".join(text.replace("\n", " ") for text in texts)
        for line, texts in zip(heat.lines, heat.texts, strict=True)
    )
    alt = f"Heat map of {heat.title}, {heat.down} by {heat.across} ({', '.join(heat.columns)}). "
    alt += f"{told}."
    with canvas.sheet(height=1.0 + 0.38 * len(heat.lines)) as (figure, (panel,)):
        _draw(panel, heat)
        svg = canvas.svg_text(figure, name=heat.name, alt=alt)
    return Drawing(heat.name, heat.title, heat.caption, alt, svg)


def _draw(panel: Axes, heat: HeatMap) -> None:
    panel.grid(visible=False)
    for spine in panel.spines.values():
        spine.set_visible(False)
    panel.tick_params(length=0)
    most = max((v for line in heat.values for v in line if v is not None), default=0) or 1
    for row, (line, texts) in enumerate(zip(heat.values, heat.texts, strict=True)):
        for column, (value, text) in enumerate(zip(line, texts, strict=True)):
            if value is not None:
                share = max(value, 0) / most
                panel.add_patch(
                    Rectangle(
                        (column - 0.49, row - 0.48), 0.98, 0.96, facecolor=heat.colour,
                        alpha=PALEST + share * (DARKEST - PALEST), linewidth=0,
                    )
                )  # fmt: skip
            panel.text(column, row, text, ha="center", va="center", fontsize=8.5, linespacing=1.05)
    panel.set_xlim(-0.5, len(heat.columns) - 0.5)
    panel.set_ylim(len(heat.lines) - 0.5, -0.5)
    panel.set_xticks(range(len(heat.columns)), list(heat.columns))
    if max(map(len, heat.columns)) > LONGEST_UPRIGHT:
        panel.tick_params(axis="x", labelrotation=30)
        for label in panel.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    panel.set_yticks(range(len(heat.lines)), list(heat.lines))
    panel.set_xlabel(heat.across)
    panel.set_ylabel(heat.down)
