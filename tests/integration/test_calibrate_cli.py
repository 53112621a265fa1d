"""``brtheory calibrate``: from files of either form to a line that can be pasted."""

import csv
import json

import jsonschema
import numpy as np
import pytest

from brtheory.cli.schema import schema_text
from brtheory.simulation.workload import StepTime
from tests.cli_runner import run_cli

A0, B0 = 2.0e-7, 0.030


def rows(seed=0, steps=200, *, factor=1.0):
    rng = np.random.default_rng(seed)
    loads = rng.integers(50_000, 250_000, size=steps)
    seconds = factor * (B0 + A0 * loads) + rng.normal(0, 2e-4, size=steps)
    return list(zip(loads.tolist(), seconds.tolist(), strict=True))


def write_csv(path, header, lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    return path


def test_the_line_it_prints_is_taken_by_simulate(tmp_path):
    file = write_csv(tmp_path / "steps.csv", ["step", "max_load", "seconds"],
                     [(i, *row) for i, row in enumerate(rows())])  # fmt: skip
    outcome = run_cli("calibrate", file)
    assert outcome.code == 0, outcome.err
    options = outcome.out.splitlines()[-1].split()
    assert options[::2] == ["--a0", "--b0"]
    step_time = StepTime(a0=float(options[1]), b0=float(options[3]))
    assert step_time.a0 == pytest.approx(A0, rel=0.02)
    assert step_time.b0 == pytest.approx(B0, rel=0.02)
    simulated = run_cli("simulate", "--workload", "s4", "--requests", 50, "--router", "jsq",
                        "--replicas", 2, *options)  # fmt: skip
    assert simulated.code == 0, simulated.err


def test_json_fits_its_schema_and_holds_the_truth(tmp_path):
    file = tmp_path / "gaps.jsonl"
    file.write_text("".join(json.dumps({"load": m, "gap_s": s}) + "\n" for m, s in rows()))
    outcome = run_cli("calibrate", file, "--json", "--confidence", 0.999)
    document = json.loads(outcome.out)
    jsonschema.validate(document, json.loads(schema_text("calibrate")))
    (fit,) = document["fits"]
    assert (fit["replica"], fit["steps"]) == (None, 200)
    assert fit["a0"]["low"] < A0 < fit["a0"]["high"]
    assert fit["b0"]["low"] < B0 < fit["b0"]["high"]


def test_replicas_are_fitted_apart(tmp_path):
    lines = [(g, *row) for g, factor in (("fast", 1.0), ("slow", 3.0))
             for row in rows(len(g), factor=factor)]  # fmt: skip
    file = write_csv(tmp_path / "steps.csv", ["replica", "max_load", "seconds"], lines)
    document = json.loads(run_cli("calibrate", file, "--per-replica", "--json").out)
    fast, slow = document["fits"]
    assert (fast["replica"], slow["replica"]) == ("fast", "slow")
    assert slow["a0"]["value"] / fast["a0"]["value"] == pytest.approx(3, rel=0.03)
    both = json.loads(run_cli("calibrate", file, "--json").out)
    assert len(both["fits"]) == 1


def test_it_draws_and_writes_what_it_says(tmp_path):
    file = write_csv(tmp_path / "steps.csv", ["max_load", "seconds"], [*rows(), (100_000, 2.0)])
    plot, out = tmp_path / "fit.svg", tmp_path / "fit.json"
    outcome = run_cli("calibrate", file, "--plot", plot, "--out", out)
    assert outcome.code == 0, outcome.err
    assert json.loads(out.read_text())["fits"][0]["outliers"] == 1
    picture = plot.read_text()
    for words in ("1 outliers", "residual, ms", "us/token"):
        assert words in picture


def test_a_slope_below_zero_gives_no_options(tmp_path):
    lines = [(m, 0.5 - A0 * m) for m, _ in rows()]
    file = write_csv(tmp_path / "steps.csv", ["max_load", "seconds"], lines)
    assert "the step model does not fit" in run_cli("calibrate", file).out
    assert json.loads(run_cli("calibrate", file, "--json").out)["fits"][0]["options"] is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "max_load,seconds\n1,1\n2,x\n", "a.csv:3: seconds: expected a duration > 0"),
        ("a.csv", "max_load,seconds\n1,1\n2\n", "a.csv:3: expected 2 fields"),
        ("a.csv", "max_load,seconds\n-1,1\n", "a.csv:2: expected tokens >= 0"),
        ("a.csv", "max_load,seconds\n1,0\n", "a.csv:2: expected a duration > 0"),
        ("a.csv", "max_load,seconds\n1,1\n2,1e308\n", "a.csv:3: expected a duration > 0"),
        ("a.csv", "max_load,seconds\n1,5e-324\n", "a.csv:2: expected a duration > 0"),
        ("a.csv", "max_load,seconds\n1e300,1\n", "a.csv:2: expected tokens >= 0"),
        ("a.csv", "tokens,seconds\n1,1\n", "a.csv:2: expected a field max_load or load"),
        ("a.csv", "max_load,seconds\n", "a.csv: expected at least one record"),
        ("a.csv", "max_load,seconds\n5,1\n5,2\n5,3\n", "loads that vary"),
        ("a.jsonl", '{"load": 1, "gap_s": 1}\n[1]\n', "a.jsonl:2: expected one JSON object"),
        ("a.jsonl", '{"load": 1, "gap_s": true}\n', "a.jsonl:1: gap_s: expected a duration"),
        ("a.jsonl", "{\n", "a.jsonl:1: expected one JSON object"),
        ("a.txt", "", "expected a file ending in .csv"),
    ],
)
def test_records_that_do_not_fit_are_refused_by_line(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)
    outcome = run_cli("calibrate", file)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message in outcome.err


def test_per_replica_needs_names_and_tells_whose_loads_do_not_vary(tmp_path):
    bare = write_csv(tmp_path / "bare.csv", ["max_load", "seconds"], rows())
    assert "a field 'replica'" in run_cli("calibrate", bare, "--per-replica").err
    lines = [("one", *row) for row in rows()] + [("two", 9, 1), ("two", 9, 2), ("two", 9, 3)]
    file = write_csv(tmp_path / "steps.csv", ["replica", "max_load", "seconds"], lines)
    assert "replica two: max_load" in run_cli("calibrate", file, "--per-replica").err
