"""Curves over one axis, with intervals as vertical lines: growth with G, sensitivities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from brtheory.routers.registry import find_router
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.grid.contenders import told_truth

MARKS = "osD^vP*X"
LINES = ("-", (0, (3.5, 1.2)), "-."), ("--", ":", "-.")
"""Of curves of one colour, with marks and without: told apart without their colours."""
SIDESTEP_POINTS = 1.3
"""By which each curve stands beside the one before it, so that intervals do not hide each other."""
POINTS_PER_INCH = 72
WINDOW = "window"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One curve; ``lows`` and ``highs`` are None where there is no interval; dashed: no marks."""

    title: str
    colour: str
    xs: Sequence[float]
    means: Sequence[float]
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What surrounds the curves: identifier, words, scales, how values are written."""

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    log_x: bool = True
    log_y: bool = False
    show: Callable[[float], str] = lambda value: f"{value:,.0f}"


def curves_drawing(curves: Sequence[Curve], sheet: Sheet) -> Drawing:
    """Draw curves on one panel, legend above."""
    alt = f"Line chart of {sheet.y_label} against {sheet.x_label}. " + " ".join(
        f"{curve.title}: {_listed(curve, sheet)}." for curve in curves
    )
    rows = -(-len(curves) // 2)
    with canvas.sheet(height=2.7 + 0.2 * rows) as (figure, (panel,)):
        for place, curve in enumerate(curves):
            _draw(panel, curve, _look(curves, place), log_y=sheet.log_y)
        _finish(panel, sheet, sorted({x for curve in curves for x in curve.xs}))
        svg = canvas.svg_text(figure, name=sheet.name, alt=alt)
    return Drawing(sheet.name, sheet.title, sheet.caption, alt, svg)


def label_colour(label: str) -> str:
    """Colour of a router by kind: baseline, window, scores, those told the truth, the rest."""
    if label == "jsq":
        return canvas.BASELINE
    if label.partition(":")[0] == WINDOW:
        return canvas.INK
    if told_truth(label):
        return canvas.ORACLE
    spec = find_router(label.partition(":")[0])
    plain = spec.family == "immediate" or spec.name == "pool-fifo"
    return canvas.PLAIN if plain else canvas.SCORE


@dataclass(frozen=True, kw_only=True)
class _Look:
    mark: str | None
    line: Any
    sidestep: float


def _look(curves: Sequence[Curve], place: int) -> _Look:
    """Marks go round; lines differ where colours do not."""
    curve = curves[place]
    alike = [c for c in curves[:place] if (c.colour, c.dashed) == (curve.colour, curve.dashed)]
    lines = LINES[curve.dashed]
    return _Look(
        mark=None if curve.dashed else MARKS[place % len(MARKS)],
        line=lines[len(alike) % len(lines)],
        sidestep=SIDESTEP_POINTS * (place - (len(curves) - 1) / 2),
    )


def _draw(panel: Axes, curve: Curve, look: _Look, *, log_y: bool) -> None:
    lines = panel.plot(
        curve.xs,
        curve.means,
        color=curve.colour,
        linestyle=look.line,
        linewidth=1.1 if curve.dashed else 1.4,
        marker=look.mark,
        markersize=4.5,
        label=curve.title,
    )
    for x, low, high in zip(curve.xs, curve.lows, curve.highs, strict=False):
        if low is not None and high is not None and (low > 0 or not log_y):
            lines += panel.plot([x, x], [low, high], color=curve.colour, linewidth=0.9, alpha=0.7)
    figure = panel.get_figure(root=True)
    assert figure is not None  # noqa: S101  # a panel is part of a sheet
    beside = ScaledTranslation(look.sidestep / POINTS_PER_INCH, 0, figure.dpi_scale_trans)
    for line in lines:
        line.set_transform(panel.transData + beside)


def _finish(panel: Axes, sheet: Sheet, xs: Sequence[float]) -> None:
    if sheet.log_x:
        panel.set_xscale("log", base=2)
    if sheet.log_y:
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(NullLocator())
    shown = xs if len(xs) <= 8 else xs[::2]  # more numbers than that run into one another
    panel.set_xticks(list(shown), [f"{x:g}" for x in shown])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: sheet.show(value)))
    panel.set_xlabel(sheet.x_label)
    panel.set_ylabel(sheet.y_label)
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)


def _listed(curve: Curve, sheet: Sheet) -> str:
    pairs = zip(curve.xs, curve.means, strict=True)
    return ", ".join(f"{x:g}: {sheet.show(mean)}" for x, mean in pairs)
