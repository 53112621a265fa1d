"""``brtheory replay``: the assignment a router would have made online on an instance."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from brtheory.cli.judge import show_evaluation
from brtheory.cli.options import (
    InputFile,
    Json,
    Params,
    PredictorName,
    RouterName,
    Seed,
    parse_params,
)
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import assignment_to_json
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import read_instance
from brtheory.routers.registry import find_router
from brtheory.simulation.replay import ordered_lengths
from brtheory.simulation.replay import replay as run_replay
from brtheory.simulation.run import build_predictor


def replay(
    instance: InputFile,
    router: RouterName,
    param: Params = None,
    predictor: PredictorName = "oracle",
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the assignment to this file too.")] = None,
    as_json: Json = False,
) -> None:
    """Run an INSTANCE through a router, step by step, and print its assignment.

    The router sees each request when it becomes ready and never its output length (brh asks the
    oracle). With --json the assignment is printed; without, the judge's verdict on it.

    `brtheory replay instance.json --router br0 --out assignment.json`
    """
    problem = read_instance(instance)
    spec = find_router(router)
    built = spec.build(parse_params(spec, param), np.random.default_rng(seed))
    guide = build_predictor(
        spec,
        predictor,
        ordered_lengths(problem).output_tokens,
        horizon=getattr(built, "horizon", None),
        seed=seed,
    )
    placements = run_replay(problem, built, predictor=guide)
    document = json.dumps(assignment_to_json(placements))
    if out is not None:
        write_text_atomic(out, document + "\n")
    if as_json:
        typer.echo(document)
    else:
        show_evaluation(evaluate(problem, placements))
