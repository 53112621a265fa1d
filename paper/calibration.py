"""The calibration figure: what a predictor says against what happens, by workload."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from brtheory.prediction.contribution import GATE
from brtheory.prediction.evaluation_document import CalibrationBinDocument, PredictEvaluateDocument
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.grids.settings import EMBEDDED

LOOKS = (("o", canvas.SCORE), ("s", canvas.BASELINE), ("^", canvas.INK))
"""Mark and colour by workload."""
FEWEST = 30
"""Predictions in a bin below which its share is noise and its mark left out."""
LEAST_AREA, AREA = 8.0, 160.0
"""Of marks in square points: of an empty bin, and more by the bin's share of the predictions."""


def calibration_lines(documents: Sequence[PredictEvaluateDocument]) -> Drawing:
    """Observed share against mean prediction; a mark's area grows with its predictions."""
    alt = "Calibration plot. " + " ".join(_described(document) for document in documents)
    with canvas.sheet(height=3.1) as (figure, (panel,)):
        panel.plot([0, 1], [0, 1], color=canvas.THEORY, linestyle=":", label="calibrated")
        panel.axvline(GATE, color=canvas.MUTED, linewidth=0.8, linestyle="--", label="gate")
        for document, (mark, colour) in zip(documents, LOOKS, strict=True):
            _draw(panel, document, mark=mark, colour=colour)
        panel.set_xlabel("predicted probability of ending within H")
        panel.set_ylabel("share that did")
        panel.legend(loc="lower right", fontsize=8.5)
        svg = canvas.svg_text(figure, name="calibration", alt=alt)
    caption = "Observed share against predicted probability; area by number of predictions."
    return Drawing("calibration", "Calibration", caption, alt, svg)


def _draw(panel: Axes, document: PredictEvaluateDocument, *, mark: str, colour: str) -> None:
    bins = _bins(document)
    panel.scatter(
        [b.mean_predicted for b in bins],
        [b.observed for b in bins],
        s=[LEAST_AREA + AREA * b.count / document.predictions for b in bins],
        marker=mark,
        color=colour,
        alpha=0.75,
        label=EMBEDDED[document.run.trace],
        linewidths=0,
    )


def _bins(document: PredictEvaluateDocument) -> list[CalibrationBinDocument]:
    return [b for b in document.calibration_curve if b.count >= FEWEST]


def _described(document: PredictEvaluateDocument) -> str:
    pairs = ", ".join(f"{b.mean_predicted:.2f}: {b.observed:.2f}" for b in _bins(document))
    return f"{document.run.trace}, predicted: observed, {pairs}."
