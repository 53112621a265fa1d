"""The command that makes certificates, and the one that checks what it made."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import assignment_to_json, read_assignment
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import instance_to_json
from brtheory.routers.baselines import RoundRobin
from brtheory.simulation.replay import replay
from solvers.bounds.cli import bound
from solvers.certificate import CertificateDocument
from solvers.certify_cli import certify

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "certificate.schema.json"

app = typer.Typer()
app.command()(bound)
app.command()(certify)


@pytest.fixture
def files(tmp_path):
    instance = random_instance(np.random.default_rng(4), requests=12, replicas=3, slots=6)
    assignment = replay(instance, RoundRobin())
    write_text_atomic(tmp_path / "i.json", json.dumps(instance_to_json(instance)))
    write_text_atomic(tmp_path / "a.json", json.dumps(assignment_to_json(assignment)))
    return instance, assignment, tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_bound_writes_a_certificate_that_certify_accepts_and_a_best_that_the_judge_confirms(files):
    instance, assignment, folder = files
    options = ["--certificate", folder / "c.json", "--best", folder / "b.json", "--workers", 1]
    result = run("bound", folder / "i.json", folder / "a.json", *options, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    best = evaluate(instance, read_assignment(folder / "b.json"))
    assert best.feasible
    assert best.sum_peak == found["incumbent"] <= found["sum_peak"]
    assert found["sum_peak"] == evaluate(instance, assignment).sum_peak
    assert found["certified_bound"] <= found["bound"] <= found["incumbent"]
    checked = run(
        "certify", folder / "i.json", folder / "c.json", "--admissions", folder / "a.json", "--json"
    )
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["bound"] == found["certified_bound"]
    jsonschema.validate(json.loads((folder / "c.json").read_text()), json.loads(SCHEMA.read_text()))


def test_bound_prints_the_gap_for_a_person(files):
    _, _, folder = files
    result = run("bound", folder / "i.json", folder / "a.json", "--workers", 1)
    assert result.exit_code == 0
    assert "lower bound" in result.stdout
    assert "%" in result.stdout


def test_the_published_schema_is_the_contracts():
    published = json.loads(SCHEMA.read_text())
    del published["$schema"]
    assert published == CertificateDocument.model_json_schema(by_alias=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "JSON"), ('{"schema": "brtheory.certificate/1"}', "expected field")],
)
def test_a_file_that_is_no_certificate_is_bad_input_not_a_refutation(files, text, message):
    _, _, folder = files
    (folder / "c.json").write_text(text)
    result = run("certify", folder / "i.json", folder / "c.json")
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
