"""From a Matplotlib figure to an inline SVG that follows the page's colours and font.

Matplotlib writes colours as hexadecimal numbers in style attributes; each colour of the palette is
a number of its own, replaced by a CSS variable afterwards, so that one drawing serves light mode,
dark mode and print. Text stays text: searchable, selectable, in the page's font.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH_INCHES = 4.3
"""Narrow, so that 10 point text is still readable on a telephone."""

INK, MUTED, GRID = "#101112", "#606162", "#d0d1d2"
BASELINE, SCORE, ORACLE, PLAIN, THEORY = "#a14a01", "#015aa1", "#5a8fb1", "#8a8b8c", "#3a3b3c"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    BASELINE: "--baseline",
    SCORE: "--score",
    ORACLE: "--oracle",
    PLAIN: "--plain",
    THEORY: "--theory",
}
_STYLE: dict[Any, object] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.facecolor": "none",
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Drawing:
    """A figure of the page.

    Parameters
    ----------
    name
        Identifier in the page.
    title, caption
        Heading and what to look at, plain text.
    alt
        What the figure shows, for those who cannot see it.
    svg
        The drawing.
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str

    def standalone(self, *, font: str = "system-ui,sans-serif") -> str:
        """The drawing as a file of its own: light colours, white ground, texts in ``font``."""
        text = self.svg
        for colour, variable in VARIABLES.items():
            text = text.replace(f"var({variable})", colour)
        head, rest = text.removesuffix("</svg>\n").split(">", 1)
        ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
        return f'{head}>{ground}<g font-family="{font}">{rest}</g></svg>\n'

    def _repr_svg_(self) -> str:
        """What a notebook shows, not wider than its text."""
        return self.standalone().replace("<svg ", '<svg style="max-width:38em" ', 1)


@contextmanager
def sheet(*, height: float, rows: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of ``rows`` panels below one another, drawn in the page's style."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        panels = figure.subplots(rows, 1, sharex=True, sharey=True, squeeze=False)
        yield figure, list(panels[:, 0])


def svg_text(figure: Figure, *, name: str, alt: str) -> str:
    """Inline SVG of a figure.

    Parameters
    ----------
    figure
        Drawn inside ``sheet``.
    name
        Prefix of every identifier in the drawing, so that drawings can share a page.
    alt
        Description for screen readers.
    """
    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="([^"]+)"', rf' id="{name}-\1"', text)
    text = re.sub(r'href="#', f'href="#{name}-', text).replace("url(#", f"url(#{name}-")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    label = escape(alt, quote=True)
    return re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]+\")[^>]*>", rf'<svg {_ROLE}="{label}" \1>', text, count=1
    )


_ROLE = (
    'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'role="img" aria-label'
)
