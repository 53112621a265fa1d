"""The machine-readable result of ``brtheory predict evaluate`` and ``train``."""

from typing import Literal

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.prediction.calibration import Scores
from brtheory.prediction.reported import reported_scores, what_is_comparable


class CalibrationBinDocument(Contract):
    """Predictions with p in [low, high), the last bin closed."""

    low: float
    high: float
    count: int
    mean_predicted: float
    observed: float = Field(description="Share that ended within the horizon.")


class ReportedScoresDocument(Contract):
    """A figure of the paper, as reported."""

    trace: str
    workload: str = Field(description="The embedded workload calibrated to that trace.")
    auc: float
    mae_steps: float


class RunDocument(Contract):
    """The simulated run the predictor lived through."""

    trace: str = Field(description="Trace file or workload name.")
    synthetic: bool = Field(description="Whether the requests were generated.")
    requests: int
    router: str
    replicas: int
    slots: int
    arrivals: str
    seed: int
    dropped: dict[str, int] = Field(description="Rows of the file dropped, by reason.")


class PredictEvaluateDocument(Contract):
    """Output of ``brtheory predict evaluate --json``; null where the data cannot say."""

    format: Literal["brtheory.predict-evaluate/1"] = Field(alias="schema")
    predictor: str
    run: RunDocument
    horizon: int = Field(description="H, steps.")
    refresh: int = Field(description="Steps between two predictions for one request.")
    warmup: float = Field(description="Share of requests finished before scoring began.")
    scored_from_step: int
    predictions: int = Field(description="Predictions scored.")
    positives: int = Field(description="Of those, requests that ended within the horizon.")
    auc: float | None
    brier: float | None = Field(description="Mean squared error of p_finish.")
    brier_of_base_rate: float | None = Field(
        description="Brier score of a constant that knew the share of positives."
    )
    log_loss: float | None = Field(description="In nats, with p kept off 0 and 1 by 1e-6.")
    mae_steps: float | None = Field(description="Of mean_remaining, on positives that have one.")
    positives_without_mean: int = Field(description="Positives left out of mae_steps.")
    contribution_mae_steps: float | None = Field(
        description="Of c_hat (gated) against min(r, H), on all."
    )
    calibration_error: float | None = Field(
        description="Mean over predictions of |mean predicted - observed| of their bin."
    )
    calibration_curve: tuple[CalibrationBinDocument, ...]
    query_us_mean: float | None = Field(description="Measured time of a query, microseconds.")
    reported: tuple[ReportedScoresDocument, ...] = Field(
        description="What the paper reports for this predictor."
    )
    comparable: str = Field(description="How far reported and measured figures can be compared.")


def evaluation_document(
    predictor: str,
    scores: Scores,
    *,
    run: RunDocument,
    horizon: int,
    warmup: float,
    scored_from: int,
    query_us: float | None,
) -> PredictEvaluateDocument:
    """Put scores and what they are scores of into the document."""
    share = scores.positives / scores.predictions if scores.predictions else None
    return PredictEvaluateDocument(
        schema="brtheory.predict-evaluate/1",
        predictor=predictor,
        run=run,
        horizon=horizon,
        refresh=max(1, horizon // 2),
        warmup=warmup,
        scored_from_step=scored_from,
        predictions=scores.predictions,
        positives=scores.positives,
        auc=scores.auc,
        brier=scores.brier,
        brier_of_base_rate=None if share is None else share * (1 - share),
        log_loss=scores.log_loss,
        mae_steps=scores.mae_steps,
        positives_without_mean=scores.positives_without_mean,
        contribution_mae_steps=scores.contribution_mae_steps,
        calibration_error=scores.calibration_error,
        calibration_curve=tuple(
            CalibrationBinDocument(
                low=b.low,
                high=b.high,
                count=b.count,
                mean_predicted=b.mean_predicted,
                observed=b.observed,
            )
            for b in scores.curve
        ),
        query_us_mean=query_us,
        reported=tuple(
            ReportedScoresDocument(
                trace=r.trace, workload=r.workload, auc=r.auc, mae_steps=r.mae_steps
            )
            for r in reported_scores(predictor)
        ),
        comparable=what_is_comparable(predictor, trace=run.trace, horizon=horizon),
    )
