"""The machine-readable result of ``brtheory calibrate``."""

from typing import Literal

from pydantic import Field

from brtheory.analysis.step_time_fit import Coefficient, StepFit
from brtheory.contracts import Contract

METHODS = {
    True: "Huber's M-estimate, Student's t on its sandwich covariance (HC3)",
    False: "least squares, Student's t on its sandwich covariance (HC3)",
}


class CoefficientDocument(Contract):
    """A fitted coefficient with its interval."""

    value: float
    low: float
    high: float


class StepFitDocument(Contract):
    """The step model of one replica, or of the cluster."""

    replica: str | None = Field(description="Null for all records together.")
    steps: int
    a0: CoefficientDocument = Field(description="Seconds per token of the largest load.")
    b0: CoefficientDocument = Field(description="Seconds per step.")
    scale_s: float = Field(description="Robust standard deviation of the residuals, seconds.")
    r_squared: float
    outliers: int = Field(description="Steps further than six scales off the line; none dropped.")
    lowest_load: float = Field(description="Range of loads the fit was made on, tokens.")
    highest_load: float
    options: str | None = Field(
        description="To paste into simulate or study; null if a coefficient is below 0."
    )


class CalibrateDocument(Contract):
    """Output of ``brtheory calibrate --json``."""

    format: Literal["brtheory.calibrate/1"] = Field(alias="schema")
    file: str
    method: str
    confidence: float
    fits: tuple[StepFitDocument, ...]


def fit_document(
    replica: str | None, fit: StepFit, *, lowest_load: float, highest_load: float
) -> StepFitDocument:
    """Put a fit and the range it was made on into the document."""
    return StepFitDocument(
        replica=replica,
        steps=fit.steps,
        a0=_coefficient(fit.a0),
        b0=_coefficient(fit.b0),
        scale_s=fit.scale_s,
        r_squared=fit.r_squared,
        outliers=len(fit.outliers),
        lowest_load=lowest_load,
        highest_load=highest_load,
        options=_options(fit),
    )


def _coefficient(fitted: Coefficient) -> CoefficientDocument:
    return CoefficientDocument(
        value=fitted.value, low=fitted.interval.low, high=fitted.interval.high
    )


def _options(fit: StepFit) -> str | None:
    if fit.a0.value < 0 or fit.b0.value < 0:
        return None
    return f"--a0 {fit.a0.value:.6g} --b0 {fit.b0.value:.6g}"
