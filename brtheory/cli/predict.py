"""``brtheory predict``: how well an end can be foreseen, and training the learned predictor."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from brtheory.cli.options import Json, Seed
from brtheory.cli.prediction_view import show_evaluation
from brtheory.cli.progress import progress_bar
from brtheory.cli.trace_input import (
    ColumnsOption,
    End,
    OnErrorChoice,
    OnErrorOption,
    Start,
    TraceFile,
    WorkloadName,
    load_requests,
)
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
from brtheory.traces.schema import Trace

app = typer.Typer(
    help="Predict whether running requests end within the next H steps, and when.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

ORACLE = "oracle"
ROUTER = "pool-fifo"

Requests = Annotated[
    int | None, typer.Option("--requests", "--limit", min=1, help="Use at most so many.")
]
Horizon = Annotated[
    int,
    typer.Option(
        "--horizon", min=1, help="H: steps looked ahead; predictions refresh every H/2 steps."
    ),
]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Decode replicas, G.")]
Slots = Annotated[int, typer.Option("--slots", min=1, help="Requests a replica decodes at once.")]
Arrivals = Annotated[
    str, typer.Option("--arrivals", help="closed:X, open:X, open:rho=R or all, as in simulate.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the JSON to this file too.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw the calibration curve: a file ending in .svg or .png."),
]


@app.command()
def evaluate(
    trace: TraceFile = None,
    workload: WorkloadName = None,
    predictor: Annotated[
        str,
        typer.Option(
            "--predictor",
            help="survival: the law of recent output lengths. exact-match: one law per prompt "
            "prefix, survival where it is unknown. learned: trees on what is known, trained as "
            "the run goes, or a --model. oracle: the truth.",
        ),
    ] = "survival",
    horizon: Horizon = 80,
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
    requests: Requests = None,
    on_error: OnErrorOption = OnErrorChoice.RAISE,
    start: Start = None,
    end: End = None,
    columns: ColumnsOption = None,
    replicas: Replicas = 8,
    slots: Slots = 32,
    arrivals: Arrivals = "closed:1.25",
    seed: Seed = 0,
    plot: Plot = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Score a predictor on a run, online and in the order of time, as a proxy would meet it.

    The requests are run through a simulated cluster; the predictor is asked when each is admitted
    and every H/2 steps of its life, and learns a length only when a request has ended. Answers of
    the warm-up are not scored.
    """
    source, dropped = load_requests(
        trace, workload, requests=requests, seed=seed, on_error=on_error, start=start, end=end,
        columns=columns,
    )  # fmt: skip
    run = _simulated(
        source, dropped, shape=ClusterShape(replicas, slots), arrivals=arrivals, seed=seed
    )
    options = PredictorOptions(
        prefix_of=run.timeline.prefix_of,
        window=window,
        model=None if model is None else load_model(model),
        seed=seed,
    )
    chosen = _predictor(predictor, run.timeline, horizon=horizon, options=options)
    document = _evaluated(run, chosen, name=predictor, horizon=horizon, warmup=warmup)
    _report(document, plot=plot, out=out, as_json=as_json)


@app.command()
def train(
    model: Annotated[
        Path,
        typer.Option("--model", help="Write the model here, ending in .npz.", show_default=False),
    ],
    trace: TraceFile = None,
    workload: WorkloadName = None,
    horizon: Horizon = 80,
    share: Annotated[
        float,
        typer.Option(
            "--share", min=0.0, max=1.0, help="Train on the first part, score on the rest."
        ),
    ] = 0.7,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Most training rows, the latest of the part.")
    ] = DEFAULT_MOST_ROWS,
    requests: Requests = None,
    on_error: OnErrorOption = OnErrorChoice.RAISE,
    start: Start = None,
    end: End = None,
    columns: ColumnsOption = None,
    replicas: Replicas = 8,
    slots: Slots = 32,
    arrivals: Arrivals = "closed:1.25",
    seed: Seed = 0,
    plot: Plot = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Train the learned predictor on the first part of a run and score it on the rest.

    Needs scikit-learn (pip install 'brtheory[learned]'); using the model does not. The file holds
    plain arrays and one JSON header, so that loading one from elsewhere runs no code.
    """
    source, dropped = load_requests(
        trace, workload, requests=requests, seed=seed, on_error=on_error, start=start, end=end,
        columns=columns,
    )  # fmt: skip
    run = _simulated(
        source, dropped, shape=ClusterShape(replicas, slots), arrivals=arrivals, seed=seed
    )
    with progress_bar("sampling rows", total=len(run.timeline)) as advance:
        trained = train_on_start(
            run.timeline,
            horizon=horizon,
            share=share,
            rng=np.random.default_rng(seed),
            most_rows=rows,
            on_progress=advance,
        )
    save_model(trained, model)
    options = PredictorOptions(prefix_of=run.timeline.prefix_of, model=trained, seed=seed)
    chosen = build_online_predictor("learned", horizon=horizon, options=options)
    document = _evaluated(run, chosen, name="learned", horizon=horizon, warmup=share)
    _report(document, plot=plot, out=out, as_json=as_json)
    if not as_json:
        typer.echo(f"model: {model}")


@dataclass(frozen=True)
class _Run:
    timeline: Timeline
    document: RunDocument


def _simulated(
    trace: Trace, dropped: dict[str, int], *, shape: ClusterShape, arrivals: str, seed: int
) -> _Run:
    """Run the requests through a cluster with no prediction: admissions do not depend on it."""
    source = seeded(trace, seed)
    config = RunConfig(router=ROUTER, shape=shape, arrivals=parse_arrivals(arrivals))
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
        seed=seed,
        dropped=dropped,
    )
    return _Run(timeline, document)


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
    run: _Run, predictor: Predictor, *, name: str, horizon: int, warmup: float
) -> PredictEvaluateDocument:
    with progress_bar(f"playing {name}", total=len(run.timeline)) as advance:
        result: Evaluation = evaluate_predictor(
            run.timeline, predictor, horizon=horizon, warmup=warmup, on_progress=advance
        )
    return evaluation_document(
        name,
        result.scores,
        run=run.document,
        horizon=horizon,
        warmup=warmup,
        scored_from=result.scored_from,
        query_us=query_microseconds(
            run.timeline, predictor, result.answers, horizon=horizon, clock=time.perf_counter
        ),
    )


def _report(
    document: PredictEvaluateDocument, *, plot: Path | None, out: Path | None, as_json: bool
) -> None:
    text = json.dumps(document.model_dump(by_alias=True), allow_nan=False)
    if plot is not None:
        save_figure(calibration_figure(document), plot)
    if out is not None:
        write_text_atomic(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        show_evaluation(Console(), document)
