"""``brtheory calibrate``: the step model b0 + a0*M, fitted to measured steps."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from brtheory.analysis.calibration_document import (
    METHODS,
    CalibrateDocument,
    CoefficientDocument,
    fit_document,
)
from brtheory.analysis.step_records import StepRecords, read_step_records
from brtheory.analysis.step_time_fit import StepFit, fit_step_time
from brtheory.cli.options import Json
from brtheory.cli.step_fit_figure import step_fit_figure
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.traces.figure import save_figure


def calibrate(
    records: Annotated[
        Path,
        typer.Argument(
            help="CSV (with a header) or JSON Lines of measured steps: max_load (or load) in KV "
            "tokens and seconds (or gap_s, the time between two tokens of a stream).",
            show_default=False,
        ),
    ],
    per_replica: Annotated[
        bool,
        typer.Option(
            "--per-replica",
            help="Fit each replica on its own; records name theirs in the field replica.",
        ),
    ] = False,
    robust: Annotated[
        bool,
        typer.Option(
            "--robust/--least-squares",
            help="Weight steps far off the line down (a pause, a prefill in between), or do not.",
        ),
    ] = True,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Coverage of the intervals, between 0 and 1.")
    ] = 0.95,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw fit and residuals: a file ending in .svg or .png."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the JSON here too.")] = None,
    as_json: Json = False,
) -> None:
    """Fit a0 (seconds per token) and b0 (seconds per step) to measured steps, with intervals.

    In lockstep a step lasts b0 + a0 * (largest load of the replicas), so that records need loads
    that vary; where they do not, the two cannot be told apart and the fit is refused. With
    --per-replica a record is a replica's own load and its own time before the barrier.

    Prints a line to paste into `brtheory simulate` or `brtheory study`.

    `brtheory calibrate steps.csv --plot fit.svg`
    """
    groups = read_step_records(records, per_replica=per_replica)
    fits = [_fit(group, robust=robust, confidence=confidence) for group in groups]
    document = CalibrateDocument(
        schema="brtheory.calibrate/1",
        file=str(records),
        method=METHODS[robust],
        confidence=confidence,
        fits=tuple(
            fit_document(
                group.replica,
                fit,
                lowest_load=float(group.max_load.min()),
                highest_load=float(group.max_load.max()),
            )
            for group, fit in zip(groups, fits, strict=True)
        ),
    )
    text = json.dumps(document.model_dump(by_alias=True), allow_nan=False)
    if plot is not None:
        save_figure(step_fit_figure(groups, fits), plot)
    if out is not None:
        write_text_atomic(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        _show(Console(), document)


def _fit(group: StepRecords, *, robust: bool, confidence: float) -> StepFit:
    try:
        return fit_step_time(group.max_load, group.seconds, robust=robust, confidence=confidence)
    except InputError as error:
        if group.replica is None:
            raise
        where = f"replica {group.replica}: {error.where}"
        raise InputError(where, error.expected, error.got) from error


def _show(console: Console, document: CalibrateDocument) -> None:
    table = Table("", "a0, us/token", "b0, ms", "steps", "outliers", "scatter, ms", "R²")
    for fit in document.fits:
        table.add_row(
            Text(fit.replica or "all records"),
            _interval(fit.a0, 1e6),
            _interval(fit.b0, 1e3),
            f"{fit.steps:,}",
            f"{fit.outliers:,}",
            f"{1e3 * fit.scale_s:.3g}",
            f"{fit.r_squared:.4f}",
        )
    console.print(table)
    console.print(f"{100 * document.confidence:g} % intervals: {document.method}")
    for fit in document.fits:
        name = "" if fit.replica is None else f"{fit.replica}: "
        if fit.options is None:
            line = "no options: a coefficient is below 0, the step model does not fit"
        else:
            line = fit.options
        typer.echo(name + line)


def _interval(fitted: CoefficientDocument, unit: float) -> str:
    value, low, high = (unit * x for x in (fitted.value, fitted.low, fitted.high))
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"
