"""``brtheory predict``: how well an end can be foreseen, and training the learned predictor."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from brtheory.cli.option_groups import grouped
from brtheory.cli.options import Json, Seed
from brtheory.cli.prediction_view import show_evaluation
from brtheory.cli.progress import progress_bar
from brtheory.cli.trace_input import RequestOptions
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.prediction.evaluation import (
    Evaluation,
    query_microseconds,
    train_on_start,
)
from brtheory.prediction.evaluation import (
    evaluate as evaluate_predictor,
)
from brtheory.prediction.evaluation_document import (
    PredictEvaluateDocument,
    RunDocument,
    evaluation_document,
)
from brtheory.prediction.figure import calibration_figure
from brtheory.prediction.learned import DEFAULT_MOST_ROWS
from brtheory.prediction.model_file import load_model, save_model
from brtheory.prediction.prequential import Timeline
from brtheory.prediction.protocol import Predictor
from brtheory.prediction.registry import (
    ONLINE_PREDICTORS,
    PredictorOptions,
    build_online_predictor,
)
from brtheory.prediction.survival import DEFAULT_WINDOW
from brtheory.routers.registry import find_router
from brtheory.simulation.run import RunConfig, build_predictor, seeded, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.figure import save_figure

app = typer.Typer(
    help="Predict whether running requests end within the next H steps, and when.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

ORACLE = "oracle"
ROUTER = "pool-fifo"


@dataclass(frozen=True)
class RunOptions:
    """The run the predictor is met in."""

    horizon: Annotated[
        int,
        typer.Option(
            "--horizon", min=1, help="H: steps looked ahead; predictions refresh every H/2 steps."
        ),
    ] = 80
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Decode replicas, G.")] = 8
    slots: Annotated[
        int, typer.Option("--slots", min=1, help="Requests a replica decodes at once.")
    ] = 32
    arrivals: Annotated[
        str, typer.Option("--arrivals", help="closed:X, open:X, open:rho=R or all, as in simulate.")
    ] = "closed:1.25"
    seed: Seed = 0


@dataclass(frozen=True)
class ResultOptions:
    """Where the scores go."""

    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the calibration curve: a file ending in .svg or .png."),
    ] = None
    out: Annotated[Path | None, typer.Option("--out", help="Write the JSON to this file too.")] = (
        None
    )
    as_json: Json = False


@app.command()
@grouped
def evaluate(
    *,
    source: RequestOptions,
    predictor: Annotated[
        str,
        typer.Option(
            "--predictor",
            help="survival: the law of recent output lengths. exact-match: one law per prompt "
            "prefix, survival where it is unknown. learned: trees on what is known, trained as "
            "the run goes, or a --model. oracle: the truth.",
        ),
    ] = "survival",
    model: Annotated[
        Path | None,
        typer.Option("--model", help="For learned: a file of `brtheory predict train`."),
    ] = None,
    warmup: Annotated[
        float,
        typer.Option(
            "--warmup", min=0.0, max=1.0, help="Score once this share of requests has finished."
        ),
    ] = 0.5,
    window: Annotated[
        int,
        typer.Option("--window", min=1, help="Recent requests the survival law is made from."),
    ] = DEFAULT_WINDOW,
    run: RunOptions,
    result: ResultOptions,
) -> None:
    """Score a predictor on a run, online and in the order of time, as a proxy would meet it.

    The requests are run through a simulated cluster; the predictor is asked when each is admitted
    and every H/2 steps of its life, and learns a length only when a request has ended. Answers of
    the warm-up are not scored.

    `brtheory predict evaluate --workload reasoning-r1 --predictor survival --plot curve.svg`
    """
    played = _simulated(source, run)
    options = PredictorOptions(
        prefix_of=played.timeline.prefix_of,
        window=window,
        model=None if model is None else load_model(model),
        seed=run.seed,
    )
    chosen = _predictor(predictor, played.timeline, horizon=run.horizon, options=options)
    document = _evaluated(played, chosen, name=predictor, horizon=run.horizon, warmup=warmup)
    _report(document, result)


@app.command()
@grouped
def train(
    *,
    model: Annotated[
        Path,
        typer.Option("--model", help="Write the model here, ending in .npz.", show_default=False),
    ],
    source: RequestOptions,
    share: Annotated[
        float,
        typer.Option(
            "--share", min=0.0, max=1.0, help="Train on the first part, score on the rest."
        ),
    ] = 0.7,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Most training rows, the latest of the part.")
    ] = DEFAULT_MOST_ROWS,
    run: RunOptions,
    result: ResultOptions,
) -> None:
    """Train the learned predictor on the first part of a run and score it on the rest.

    Needs scikit-learn (pip install 'brtheory[learned]'); using the model does not. The file holds
    plain arrays and one JSON header, so that loading one from elsewhere runs no code.

    `brtheory predict train --trace requests.csv --model model.npz`
    """
    played = _simulated(source, run)
    with progress_bar("sampling rows", total=len(played.timeline)) as advance:
        trained = train_on_start(
            played.timeline,
            horizon=run.horizon,
            share=share,
            rng=np.random.default_rng(run.seed),
            most_rows=rows,
            on_progress=advance,
        )
    save_model(trained, model)
    options = PredictorOptions(prefix_of=played.timeline.prefix_of, model=trained, seed=run.seed)
    chosen = build_online_predictor("learned", horizon=run.horizon, options=options)
    document = _evaluated(played, chosen, name="learned", horizon=run.horizon, warmup=share)
    _report(document, result)
    if not result.as_json:
        typer.echo(f"model: {model}")


@dataclass(frozen=True)
class _Played:
    timeline: Timeline
    document: RunDocument


def _simulated(given: RequestOptions, run: RunOptions) -> _Played:
    """Run the requests through a cluster with no prediction: admissions do not depend on it."""
    trace, dropped = given.load(seed=run.seed)
    source, shape = seeded(trace, run.seed), ClusterShape(run.replicas, run.slots)
    config = RunConfig(router=ROUTER, shape=shape, arrivals=parse_arrivals(run.arrivals))
    with progress_bar("simulating", total=len(source)) as advance:
        record = simulate(source, config, on_progress=advance)
    timeline = Timeline(
        prompt_tokens=source.prompt_tokens,
        output_tokens=source.output_tokens,
        admitted_step=record.admitted_step,
        prefix_id=source.prefix_id,
    )
    document = RunDocument(
        trace=source.name,
        synthetic=source.synthetic,
        requests=len(source),
        router=ROUTER,
        replicas=shape.replicas,
        slots=shape.slots,
        arrivals=str(config.arrivals),
        seed=run.seed,
        dropped=dropped,
    )
    return _Played(timeline, document)


def _predictor(
    name: str, timeline: Timeline, *, horizon: int, options: PredictorOptions
) -> Predictor:
    if options.model is not None and name != "learned":
        raise InputError("--model", "--predictor learned beside it", name)
    if name != ORACLE:
        if name not in ONLINE_PREDICTORS:
            expected = "one of " + ", ".join([*ONLINE_PREDICTORS, ORACLE])
            raise InputError("predictor", expected, repr(name))
        return build_online_predictor(name, horizon=horizon, options=options)
    oracle = build_predictor(find_router("brh"), ORACLE, timeline.output_tokens, horizon=horizon)
    assert oracle is not None  # noqa: S101  # BR-H needs a predictor
    return oracle


def _evaluated(
    played: _Played, predictor: Predictor, *, name: str, horizon: int, warmup: float
) -> PredictEvaluateDocument:
    with progress_bar(f"playing {name}", total=len(played.timeline)) as advance:
        result: Evaluation = evaluate_predictor(
            played.timeline, predictor, horizon=horizon, warmup=warmup, on_progress=advance
        )
    return evaluation_document(
        name,
        result.scores,
        run=played.document,
        horizon=horizon,
        warmup=warmup,
        scored_from=result.scored_from,
        query_us=query_microseconds(
            played.timeline, predictor, result.answers, horizon=horizon, clock=time.perf_counter
        ),
    )


def _report(document: PredictEvaluateDocument, wanted: ResultOptions) -> None:
    text = json.dumps(document.model_dump(by_alias=True), allow_nan=False)
    if wanted.plot is not None:
        save_figure(calibration_figure(document), wanted.plot)
    if wanted.out is not None:
        write_text_atomic(wanted.out, text + "\n")
    if wanted.as_json:
        typer.echo(text)
    else:
        show_evaluation(Console(), document)
