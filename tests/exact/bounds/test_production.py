"""Presets at production scale, the command that takes them, and the page that reports them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks import bracket as report
from brtheory.errors import InputError
from brtheory.offline.assignment import read_assignment
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest, read_instance
from brtheory.traces.workloads import generate_workload
from solvers.bounds.cli import bound
from solvers.bounds.production import (
    PRESETS,
    REQUESTS,
    SLOTS,
    WORKLOAD,
    Preset,
    effective_requests,
    find_preset,
    placed_by,
    prompt_share,
)
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
@pytest.mark.parametrize("workload", [WORKLOAD, "azure-2023-code"])
def test_a_presets_slots_are_never_all_taken(name: str, workload: str) -> None:
    """So FIFO admits each request as it arrives, whatever the router; in bursts (code) too."""
    preset = PRESETS[name]
    instance = preset.instance(generate_workload(workload, requests=REQUESTS, seed=0))
    assert len(instance.requests) == REQUESTS
    most = most_active(instance)
    assert preset.replicas * preset.active < most < preset.replicas * instance.slots
    assert preset.replicas * (instance.slots - SLOTS) <= most  # and no more slots than needed


@pytest.mark.parametrize("router", ["br0", "jsq"])
def test_a_placement_holds_nobody_back(router: str) -> None:
    instance = Preset(2, 6).instance(generate_workload(WORKLOAD, requests=40), requests=40)
    assignment = placed_by(instance, router, seed=0)
    assert evaluate(instance, assignment).feasible
    ready = {request.id: request.ready for request in instance.requests}
    assert admission_steps(instance, assignment) == ready


def alike(count: int, *, prompt: int = 100, output: int = 1) -> Instance:
    """Two replicas; requests of 100 tokens for one step, all at once; the last may differ."""
    requests = [OfflineRequest(i, 0, 100, 1) for i in range(count - 1)]
    last = OfflineRequest(count, 0, prompt, output)
    return Instance(2, 64, None, 1.0, 0.0, (*requests, last))


def test_equal_requests_count_in_full_and_unequal_ones_less() -> None:
    """Six equal ones on two replicas are three each. One of 500 beside five of 100 in one step:

    W = 1000, Q = 25e4 + 5e4 = 30e4, W^2/(2 Q) = 1e6/6e5 = 5/3.
    """
    assert effective_requests(alike(6)) == 3
    assert effective_requests(alike(6, prompt=500)) == pytest.approx(5 / 3)


def test_steps_count_by_what_they_weigh() -> None:
    """Two of 100 in step 0, on two replicas 1 each; then one alone, of 101, weighs like 1/2.

    (200 * 1 + 101/2) / 301.
    """
    assert effective_requests(alike(2, output=2)) == pytest.approx((200 + 101 / 2) / 301)


@given(seed=st.integers(0, 2**32 - 1))
def test_effective_requests_lie_between_one_alone_and_all(seed: int) -> None:
    """At least 1/G (one request has all the weight), at most the most active a replica."""
    instance = random_instance(np.random.default_rng(seed), requests=12, replicas=3, slots=6)
    size = effective_requests(instance)
    bound = most_active(instance) / 3
    assert 1 / 3 - 1e-9 <= size <= bound + 1e-9


def test_the_prompts_share_of_the_work_is_what_does_not_grow() -> None:
    """Two of 100 for a step, 200, and one of 50 for 3 steps: 50 + 51 + 52. (200 + 150)/353."""
    assert prompt_share(alike(3, prompt=50, output=3)) == pytest.approx(350 / 353)


def test_an_instance_without_requests_has_neither() -> None:
    empty = Instance(2, 4, None, 1.0, 0.0, ())
    for figure in (effective_requests, prompt_share):
        with pytest.raises(InputError, match="at least one request"):
            figure(empty)


def test_an_instance_is_the_start_of_the_trace_as_its_seed_sees_it() -> None:
    """A real trace is rotated, so another seed sees the same requests from another one on."""
    real = replace(generate_workload(WORKLOAD, requests=60), synthetic=False)
    whole = [(p, o) for p, o in zip(real.prompt_tokens, real.output_tokens, strict=True)]
    for seed in (0, 1):
        found = Preset(2, 6).instance(real, requests=40, seed=seed)
        sizes = [(r.prompt_tokens, r.output_tokens) for r in found.requests]
        first = whole.index(sizes[0])
        assert (first == 0) == (seed == 0)
        assert sizes == [whole[(first + i) % 60] for i in range(40)]


def test_a_trace_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2000 requests"):
        find_preset("g8").instance(generate_workload(WORKLOAD, requests=60))


@pytest.mark.parametrize("source", [[], ["--workload", "azure-2023-code"], ["--trace", "t.csv"]])
def test_the_command_writes_all_that_the_checker_needs(tmp_path, monkeypatch, source) -> None:
    monkeypatch.setattr("solvers.bounds.preset_options.find_preset", lambda _name: Preset(2, 4))
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{50 + i % 7},{5 + i % 3}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    options = ["--preset", "g8", *source, "--requests", "25", "--out", "found", "--workers", "1"]
    result = CliRunner().invoke(app, [*options, "--time-limit", "2", "--json"])
    assert result.exit_code == 0, result.output
    found, folder = json.loads(result.stdout), tmp_path / "found"
    instance = read_instance(folder / "instance.json")
    assignment = read_assignment(folder / "assignment.json")
    text = (folder / "certificate.json").read_text()
    certificate = CertificateDocument.model_validate_json(text)
    proved = check(instance, admission_steps(instance, assignment), certificate)
    assert proved == found["certified_bound"]
    best = evaluate(instance, read_assignment(folder / "best.json"))
    assert best.sum_peak == found["incumbent"]
    assert found["trace"] == (source[-1] if source else WORKLOAD)
    assert found["requests"] == len(instance.requests) == 25
    assert found["synthetic"] == ("--trace" not in source)


def test_a_person_reads_what_the_instance_is_made_of(monkeypatch) -> None:
    monkeypatch.setattr("solvers.bounds.preset_options.find_preset", lambda _name: Preset(2, 4))
    options = ["--preset", "g8", "--requests", "10", "--time-limit", "1", "--workers", "1"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    assert "10 requests" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "INSTANCE and ASSIGNMENT, or --preset"),
        (["--preset", "g9"], "one of g8, g16"),
        (["--workload", WORKLOAD], "--preset g8|g16"),
        (["--on-error", "skip"], "--preset g8|g16"),
        (["--preset", "g8", "--workload", WORKLOAD, "--trace", "t.csv"], "one of --trace"),
        (["--preset", "g8", "--start", "1"], "a --trace FILE to read"),
        (["--preset", "g8", "--workload", "nothing"], "nothing"),
    ],
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


def cell(preset: str, *, judged: int) -> dict[str, object]:
    """102 best known, 100 proved."""
    return {
        "preset": preset,
        "trace": "mine.csv",
        "replicas": PRESETS[preset].replicas,
        "active": PRESETS[preset].active,
        "effective": 31.25,
        "prompt_share": 0.614,
        "sum_peak": judged,
        "incumbent": 102,
        "certified_bound": 100,
        "bound_s": 299.6,
        "certify_s": 7.04,
    }


def test_the_table_follows_from_the_figures() -> None:
    """104 judged, 102 best known, 100 proved: gap 2/102 .. 4 %, known within 2 %."""
    lines = report.table({"a": cell("g8", judged=104)}).splitlines()
    row = "| mine.csv | `g8` | 31.2 of 48 | 61% | 1.96% .. 4.00% | met | 2.00% | 300 s | 7.0 s |"
    assert row in lines


def test_a_goal_is_met_by_the_bound_and_out_of_reach_by_the_best_known() -> None:
    """G = 8, goal 4 %: 104/100 meets it, 106/102 < 1.04 <= 106/100 does not yet, 107/102 cannot.

    G = 16, goal 6.5 %: 107/102 < 1.065 < 107/100.
    """
    cells = {str(judged): cell("g8", judged=judged) for judged in (104, 106, 107)}
    lines = report.goals(cells | {"x": cell("g16", judged=107)}).splitlines()
    assert "met in 1 of 3 cells (104), not certified in 1, out of reach in 1" in lines[0]
    assert "met in 0 of 1 cells, not certified in 1" in lines[1]
    assert "met in 3 of 3 cells (104, 106, 107)" in lines[2]


def test_the_pages_tables_are_those_of_the_result_files() -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    assert report.filled(text, report.tables()) == text
    assert all(f"<!-- {name}:begin -->" in text for name in report.tables())
