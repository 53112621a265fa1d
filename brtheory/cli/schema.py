"""``brtheory schema``: the JSON Schema of every machine-readable contract."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from brtheory.analysis.calibration_document import CalibrateDocument
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import AssignmentDocument
from brtheory.offline.evaluate import EvaluationDocument
from brtheory.offline.instance import InstanceDocument
from brtheory.offline.replicas import ReplicasDocument
from brtheory.prediction.evaluation_document import PredictEvaluateDocument
from brtheory.routers.tick_document import TickAnswerDocument, TickDocument
from brtheory.simulation.benchmark.document import BenchDocument
from brtheory.simulation.metrics import RunMetricsDocument
from brtheory.study.grid.document import GridDocument
from brtheory.study.results import StudyDocument
from brtheory.traces.describe import DescriptionDocument

CONTRACTS: dict[str, type[BaseModel]] = {
    "instance": InstanceDocument,
    "replicas": ReplicasDocument,
    "assignment": AssignmentDocument,
    "evaluation": EvaluationDocument,
    "tick": TickDocument,
    "tick-answer": TickAnswerDocument,
    "simulate": RunMetricsDocument,
    "trace-describe": DescriptionDocument,
    "study": StudyDocument,
    "grid-study": GridDocument,
    "bench": BenchDocument,
    "predict-evaluate": PredictEvaluateDocument,
    "calibrate": CalibrateDocument,
}


def schema(
    name: Annotated[str | None, typer.Argument(help="One of: " + ", ".join(CONTRACTS))] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write NAME.schema.json of every contract to this folder.")
    ] = None,
) -> None:
    """Print the JSON Schema of a contract, or list the contracts, or write them all."""
    if out is not None:
        for contract in CONTRACTS:
            write_text_atomic(out / f"{contract}.schema.json", schema_text(contract))
    elif name is None:
        typer.echo("\n".join(CONTRACTS))
    else:
        typer.echo(schema_text(name), nl=False)


def schema_text(name: str) -> str:
    """JSON Schema of a contract as published under docs/schemas.

    Raises
    ------
    InputError
        If there is no contract of this name.
    """
    if name not in CONTRACTS:
        raise InputError("contract", "one of " + ", ".join(CONTRACTS), repr(name))
    document = CONTRACTS[name].model_json_schema(by_alias=True)
    return json.dumps(document, indent=2) + "\n"
