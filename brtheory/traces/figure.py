"""The picture of a trace: distributions of prompt and output tokens, and arrivals over time.

Colours are the blue and vermilion of Okabe and Ito's palette, which people with any common colour
blindness tell apart; meaning never rests on colour alone, each panel has its own title.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.files import atomic_path
from brtheory.traces.describe import Description
from brtheory.traces.histograms import ArrivalCounts, IntegerHistogram

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#555555"
SUFFIXES = (".svg", ".png")
_BINS = 60


def description_figure(description: Description) -> Figure:
    """Draw a description as a figure of three panels."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    figure.suptitle(_title(description))
    panels = figure.subplot_mosaic([["prompt", "output"], ["arrivals", "arrivals"]])
    _draw_tokens(panels["prompt"], "Prompt tokens", description.prompt_histogram, colour=BLUE)
    _draw_tokens(panels["output"], "Output tokens", description.output_histogram, colour=VERMILION)
    _draw_arrivals(panels["arrivals"], description)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, by the suffix of ``path``; whole or not at all.

    Raises
    ------
    InputError
        If the suffix is another one.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(str(path), "a picture ending in .svg or .png", path.name)
    # A fixed salt and no date: the same trace gives the same file.
    metadata = {"Date": None} if suffix == ".svg" else None
    with (
        mpl.rc_context({"svg.hashsalt": "brtheory", "svg.fonttype": "none"}),
        atomic_path(path) as part,
    ):
        figure.savefig(part, format=suffix[1:], dpi=150, metadata=metadata)


def _title(description: Description) -> str:
    mark = " (synthetic)" if description.synthetic else ""
    # Dollar signs would start a formula.
    return f"{description.name}{mark}: {description.rows:,} requests".replace("$", r"\$")


def _draw_tokens(axes: Axes, title: str, histogram: IntegerHistogram, *, colour: str) -> None:
    edges, counts = histogram.log_bins(_BINS)
    axes.stairs(counts, edges, fill=True, color=colour, alpha=0.85)
    axes.set_xscale("log")
    median = histogram.percentiles([50.0])[0]
    axes.axvline(median, color=GREY, linestyle="--", label=f"median {median:,.0f}")
    axes.axvline(histogram.mean, color=GREY, linestyle=":", label=f"mean {histogram.mean:,.0f}")
    axes.set(title=title, xlabel="tokens", ylabel="requests")
    axes.legend(frameon=False)


def _draw_arrivals(axes: Axes, description: Description) -> None:
    if not description.time_span_s:
        axes.text(0.5, 0.5, "all requests arrive at once", ha="center", va="center")
        axes.set_axis_off()
        return
    edges, rate = _rates(description.arrivals, description.time_span_s)
    axes.stairs(rate, edges, fill=True, color=BLUE, alpha=0.85)
    axes.set(title="Arrivals over time", xlabel="seconds", ylabel="requests per second")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)


def _rates(
    arrivals: ArrivalCounts, span_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bin edges and arrivals per second; the last bin ends where the trace does."""
    used = int(np.flatnonzero(arrivals.counts)[-1]) + 1
    edges = np.linspace(0.0, used * arrivals.bin_s, used + 1)
    edges[-1] = max(span_s, edges[-2] + 0.5 * arrivals.bin_s)
    rates: NDArray[np.float64] = arrivals.counts[:used] / np.diff(edges)
    return edges, rates
