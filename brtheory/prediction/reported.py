"""The paper's figures for its predictors, as reported, and what they can be compared with.

They are shown beside measured ones and are never a target.
"""

from dataclasses import dataclass

AZURE, PROPRIETARY = "azure-2024-long-output", "proprietary-surrogate"


@dataclass(frozen=True, slots=True)
class ReportedScores:
    """AUC and MAE (steps, on positives) at H = 80, on one of the paper's two traces.

    Parameters
    ----------
    trace
        The paper's name of the trace.
    workload
        The embedded workload calibrated to it.
    auc, mae_steps
        As reported.
    """

    trace: str
    workload: str
    auc: float
    mae_steps: float


_REPORTED = {
    "survival": (
        ReportedScores("Azure-2024, output > 1000", AZURE, 0.993, 5.4),
        ReportedScores("proprietary", PROPRIETARY, 0.700, 20.1),
    ),
    "exact-match": (
        ReportedScores("Azure-2024, output > 1000", AZURE, 0.995, 5.4),
        ReportedScores("proprietary", PROPRIETARY, 0.974, 2.9),
    ),
}
REPORTED_HORIZON = 80


def reported_scores(predictor: str) -> tuple[ReportedScores, ...]:
    """What the paper reports for a predictor by name; empty where it reports nothing."""
    return _REPORTED.get(predictor, ())


def what_is_comparable(predictor: str, *, trace: str, horizon: int) -> str:
    """The sentence that says how far reported and measured figures can be compared."""
    if not reported_scores(predictor):
        return f"No figure is reported for the predictor {predictor}."
    if trace not in (AZURE, PROPRIETARY):
        return (
            "Not comparable: the reported figures are of two other traces "
            f"({AZURE} and {PROPRIETARY} are calibrated to them)."
        )
    if horizon != REPORTED_HORIZON:
        return f"Not comparable: reported at H = {REPORTED_HORIZON}, measured at H = {horizon}."
    if trace == AZURE:
        return (
            "AUC is comparable: it follows from outputs that nearly all end at a token limit, as "
            "those of the workload do. MAE is comparable in size only: it follows from how widely "
            "outputs spread below the limit, which is not published. Generated prompts never "
            "repeat."
        )
    if predictor == "exact-match":
        return (
            "Not comparable: the gain reported for exact match comes from prompts that repeat; "
            "prompts of the trace are not published, and generated ones never repeat."
        )
    return (
        "Comparable as far as outputs of the trace are normal, truncated at 0: of its lengths the "
        "means alone are published, the shape is the companion simulator's."
    )
