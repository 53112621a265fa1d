"""How an evaluated predictor looks in a terminal: scores beside reported ones, calibration."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brtheory.cli.description_view import show_dropped
from brtheory.prediction.evaluation_document import PredictEvaluateDocument


def show_evaluation(console: Console, document: PredictEvaluateDocument) -> None:
    """Print scores beside the reported ones, the calibration curve, and what is comparable."""
    show_dropped(console, document.run.dropped)
    console.print(_scores_table(document))
    console.print(_curve_table(document))
    if document.positives_without_mean:
        console.print(
            f"! {document.positives_without_mean:,} positives had no mean and are not in the MAE"
        )
    console.print(Text(document.comparable))


def _scores_table(document: PredictEvaluateDocument) -> Table:
    run = document.run
    mark = " (synthetic)" if run.synthetic else ""
    title = f"{document.predictor} on {run.trace}{mark}, H = {document.horizon}"
    table = Table(title=Text(title))
    table.add_column("", no_wrap=True)
    table.add_column("measured", justify="right")
    for reported in document.reported:
        table.add_column(Text(f"reported: {reported.trace}"), justify="right")
    reported_auc = [f"{r.auc:.3f}" for r in document.reported]
    reported_mae = [f"{r.mae_steps:.1f}" for r in document.reported]
    table.add_row("predictions scored", f"{document.predictions:,}")
    table.add_row("ended within H", f"{document.positives:,}")
    table.add_row("AUC", _text(document.auc), *reported_auc)
    table.add_row("MAE on positives, steps", _text(document.mae_steps), *reported_mae)
    table.add_row("Brier score", _text(document.brier))
    table.add_row("Brier score of the base rate", _text(document.brier_of_base_rate))
    table.add_row("log loss, nats", _text(document.log_loss))
    table.add_row("calibration error", _text(document.calibration_error))
    table.add_row("MAE of c_hat, steps", _text(document.contribution_mae_steps))
    table.add_row("microseconds a query", _text(document.query_us_mean))
    return table


def _curve_table(document: PredictEvaluateDocument) -> Table:
    table = Table("p_finish", title="calibration curve")
    for column in ("predictions", "mean predicted", "observed"):
        table.add_column(column, justify="right")
    for b in document.calibration_curve:
        row = (f"{b.count:,}", f"{b.mean_predicted:.3f}", f"{b.observed:.3f}")
        table.add_row(f"{b.low:.1f} to {b.high:.1f}", *row)
    return table


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
