"""The picture of a predictor's calibration: what it said against what happened, and how often.

Colours are two of Okabe and Ito's palette; every series has its own panel or style besides.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brtheory.prediction.evaluation_document import PredictEvaluateDocument
from brtheory.traces.figure import BLUE, GREY, VERMILION


def calibration_figure(document: PredictEvaluateDocument) -> Figure:
    """Draw the calibration curve above the histogram of predictions."""
    figure = Figure(figsize=(6, 7), layout="constrained")
    figure.suptitle(_title(document))
    axes = figure.subplot_mosaic([["curve"], ["counts"]], height_ratios=[3, 1])
    _draw_curve(axes["curve"], document)
    _draw_counts(axes["counts"], document)
    return figure


def _title(document: PredictEvaluateDocument) -> str:
    mark = " (synthetic)" if document.run.synthetic else ""
    # Dollar signs would start a formula.
    trace = f"{document.run.trace}{mark}".replace("$", r"\$")
    return f"{document.predictor} on {trace}, H = {document.horizon}"


def _draw_curve(axes: Axes, document: PredictEvaluateDocument) -> None:
    curve = document.calibration_curve
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="calibrated")
    if curve:
        axes.plot(
            [b.mean_predicted for b in curve],
            [b.observed for b in curve],
            color=BLUE,
            marker="o",
            label=_label(document),
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that ended within H")
    axes.legend(frameon=False, loc="upper left")


def _draw_counts(axes: Axes, document: PredictEvaluateDocument) -> None:
    curve = document.calibration_curve
    axes.bar(
        [b.low for b in curve],
        [b.count for b in curve],
        width=[b.high - b.low for b in curve],
        align="edge",
        color=VERMILION,
        edgecolor="white",
    )
    axes.set_yscale("log")  # most bins hold a thousandth of the fullest one
    axes.set(xlim=(0, 1), xlabel="predicted probability of ending within H", ylabel="predictions")


def _label(document: PredictEvaluateDocument) -> str:
    auc = "none" if document.auc is None else f"{document.auc:.3f}"
    brier = "none" if document.brier is None else f"{document.brier:.3f}"
    return f"{document.predictor}: AUC {auc}, Brier {brier}"
