"""Fill docs/prediction.md from its result file: ``python -m benchmarks.prediction_report``.

The paper's figures stand beside the measured ones on the workloads calibrated to its traces.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.window_report import filled, table
from brtheory.files import write_text_atomic
from brtheory.prediction.evaluation_document import PredictEvaluateDocument

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "prediction.md"
RESULTS = ROOT / "docs" / "results" / "prediction.json"
HEAD = (
    "requests",
    "predictor",
    "AUC",
    "reported",
    "MAE, steps",
    "reported",
    "Brier",
    "of a constant",
    "calibration error",
)


def read(path: Path) -> list[PredictEvaluateDocument]:
    """The evaluations of a result file."""
    kept = json.loads(path.read_text(encoding="utf-8"))["evaluations"]
    return [PredictEvaluateDocument.model_validate_json(json.dumps(one)) for one in kept]


def blocks(documents: Sequence[PredictEvaluateDocument]) -> dict[str, str]:
    """The table by the name of its markers."""
    return {"predictors": table(HEAD, [_row(document) for document in documents])}


def main() -> None:
    """Fill the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    write_text_atomic(DOCUMENT, filled(text, blocks(read(RESULTS))))


def _row(document: PredictEvaluateDocument) -> list[str]:
    reported = next((r for r in document.reported if r.workload == document.run.trace), None)
    return [
        f"`{document.run.trace}`",
        document.predictor,
        _digits(document.auc, 3),
        _digits(reported.auc if reported else None, 3),
        _digits(document.mae_steps, 1),
        _digits(reported.mae_steps if reported else None, 1),
        _digits(document.brier, 4),
        _digits(document.brier_of_base_rate, 4),
        _digits(document.calibration_error, 4),
    ]


def _digits(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
