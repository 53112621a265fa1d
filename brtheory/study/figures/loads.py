"""Load per replica over time under two routers, with the peak that everyone waits for."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from brtheory.study.campaign import LoadCurves
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing

CAPTION = (
    "Thin lines: KV tokens on each replica. Thick line: the fullest one, which sets the length of "
    "the step. Shaded: between the mean and the fullest, the time the average replica waits. "
    "Seed 0, steps sampled evenly."
)


def load_curves(curves: Sequence[LoadCurves]) -> Drawing:
    """One panel a router, same axes."""
    alt = "Line charts of load per replica over steps. " + " ".join(
        _described(curve) for curve in curves
    )
    with canvas.sheet(height=1.0 + 1.7 * len(curves), rows=len(curves)) as (figure, panels):
        colours = (canvas.BASELINE, canvas.SCORE)
        for panel, curve, colour in zip(panels, curves, colours, strict=False):
            _draw(panel, curve, colour=colour)
        panels[-1].set_xlabel("step")
        svg = canvas.svg_text(figure, name="loads", alt=alt)
    return Drawing("loads", "Load per replica over time", CAPTION, alt, svg)


def _draw(panel: Axes, curve: LoadCurves, *, colour: str) -> None:
    steps, loads = curve.steps, curve.loads / 1000
    peak, mean = loads.max(axis=1), loads.mean(axis=1)
    panel.fill_between(steps, mean, peak, color=colour, alpha=0.22, linewidth=0)
    for replica in range(loads.shape[1]):
        panel.plot(steps, loads[:, replica], color=canvas.PLAIN, linewidth=0.45, alpha=0.75)
    panel.plot(steps, peak, color=colour, linewidth=1.5)
    panel.set_title(curve.choice.title)
    panel.set_ylabel("KV tokens")
    panel.set_ylim(bottom=0)
    panel.margins(x=0.01)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}k"))


def _described(curve: LoadCurves) -> str:
    loads = curve.loads
    if not loads.size:
        return f"{curve.choice.title}: nothing ran."
    busy = loads[loads.max(axis=1) > np.median(loads.max(axis=1)) / 2]
    over = 100 * float(np.mean(busy.max(axis=1) / busy.mean(axis=1)) - 1)
    return (
        f"Under {curve.choice.title} the fullest replica is on average {over:.0f} % above the mean."
    )
