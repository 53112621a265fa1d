"""Presets at production scale, the command that takes them, and the page that reports them."""

import json

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import bracket as report
from brtheory.errors import InputError
from brtheory.offline.assignment import read_assignment
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import read_instance
from solvers.bounds.cli import bound
from solvers.bounds.production import PRESETS, SLOTS, Preset, find_preset, placed_by
from solvers.bounds.steps import admission_steps
from solvers.certificate import CertificateDocument, check

app = typer.Typer()
app.command()(bound)


def most_active(instance) -> int:
    """Largest number of requests active at once, each started when ready."""
    events = [(r.ready, 1) for r in instance.requests]
    events += [(r.ready + r.output_tokens, -1) for r in instance.requests]
    active = most = 0
    for _, change in sorted(events):
        active += change
        most = max(most, active)
    return most


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_slots_are_never_all_taken(name: str) -> None:
    """So FIFO admits each request as it arrives, whatever the router."""
    preset = PRESETS[name]
    instance = preset.instance(0)
    assert len(instance.requests) == preset.requests
    assert preset.replicas * preset.active < most_active(instance) < preset.replicas * SLOTS


@pytest.mark.parametrize("router", ["br0", "jsq"])
def test_a_placement_holds_nobody_back(router: str) -> None:
    instance = Preset(2, 6, requests=40).instance(1)
    assignment = placed_by(instance, router, seed=0)
    assert evaluate(instance, assignment).feasible
    ready = {request.id: request.ready for request in instance.requests}
    assert admission_steps(instance, assignment) == ready


def test_the_command_writes_all_that_the_checker_needs(tmp_path, monkeypatch) -> None:
    small = Preset(2, 4, requests=25)
    monkeypatch.setattr("solvers.bounds.cli.find_preset", lambda _name: small)
    options = ["--preset", "g8", "--out", str(tmp_path), "--time-limit", "4", "--workers", "1"]
    result = CliRunner().invoke(app, [*options, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    instance = read_instance(tmp_path / "instance.json")
    assignment = read_assignment(tmp_path / "assignment.json")
    text = (tmp_path / "certificate.json").read_text()
    certificate = CertificateDocument.model_validate_json(text)
    proved = check(instance, admission_steps(instance, assignment), certificate)
    assert proved == found["certified_bound"]
    best = evaluate(instance, read_assignment(tmp_path / "best.json"))
    assert best.sum_peak == found["incumbent"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "INSTANCE and ASSIGNMENT, or --preset"), (["--preset", "g9"], "one of g8, g16")],
)
def test_what_to_bound_has_to_be_said(arguments, message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_preset_stands_alone(tmp_path) -> None:
    path = tmp_path / "instance.json"
    path.write_text("{}")
    result = CliRunner().invoke(app, [str(path), "--preset", "g8"])
    assert isinstance(result.exception, InputError)
    assert "no files beside it" in str(result.exception)


def test_presets_are_found_by_name() -> None:
    assert find_preset("g16").replicas == 16


def test_the_table_follows_from_the_figures() -> None:
    """104 judged, 102 best known, 100 proved: gap 2/102 .. 4 %, known within 2 %."""
    cell = {"sum_peak": 104, "incumbent": 102, "certified_bound": 100}
    lines = report.table({"g8": cell | {"bound_s": 299.6, "certify_s": 7.04}}).splitlines()
    assert "| `g8` | 8 | 48 | 1.96% .. 4.00% | 2.00% | 300 s | 7.0 s |" in lines
    assert "| `g16` | 16 | 48 | - | - | - | - |" in lines


def test_the_pages_tables_are_those_of_the_result_files() -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    assert report.filled(text, report.tables()) == text
    assert all(f"<!-- {name}:begin -->" in text for name in report.tables())
