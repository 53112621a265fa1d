"""``simulate`` with replicas that differ, transfers and perturbations; judge on unequal ones."""

import json

import jsonschema
import numpy as np
import pytest

from brtheory.cli.schema import schema_text
from brtheory.errors import InputError
from brtheory.offline.instance import Instance, instance_to_json, read_instance
from solvers.bounds.bracket import bracket
from solvers.problem import FixedAdmissions, FreeAdmissions
from tests.cli_runner import run_cli

BASE = (
    "simulate", "--workload", "azure-2023-conv", "--requests", 120, "--router", "br0",
    "--replicas", 3, "--slots", 8, "--json",
)  # fmt: skip
UNEQUAL = {
    "schema": "brtheory.instance/1",
    "replicas": 2,
    "slots": 1,
    "a0": 1.0,
    "b0": 2.0,
    "requests": [
        {"id": 0, "ready": 0, "prompt_tokens": 10, "output_tokens": 2},
        {"id": 1, "ready": 0, "prompt_tokens": 4, "output_tokens": 3},
    ],
    "unequal": [{"slots": 1}, {"slots": 1, "speed": 0.5}],
}


def metrics(*options):
    outcome = run_cli(*BASE, *options)
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    jsonschema.validate(document, json.loads(schema_text("simulate")))
    return document


def test_slow_replicas_make_steps_longer_and_idle_is_given_in_time():
    alike = metrics()
    mixed = metrics("--replica-speeds", "1,1,0.5")
    assert mixed["duration_s"] > alike["duration_s"]
    assert mixed["barrier_idle_total_s"] > 0
    assert "barrier_idle_total_s" not in alike


def test_speeds_of_one_change_nothing():
    assert metrics("--replica-speeds", "1,1,1") == metrics()


def test_slots_of_each_replica_and_a_file_say_the_same(tmp_path):
    file = tmp_path / "replicas.json"
    replicas = [{"slots": 8}, {"slots": 8}, {"slots": 4, "speed": 0.5}]
    file.write_text(json.dumps({"schema": "brtheory.replicas/1", "replicas": replicas}))
    listed = metrics("--replica-speeds", "1,1,0.5", "--replica-slots", "8,8,4")
    assert metrics("--replica-file", file) == listed


def test_a_transfer_delays_and_overlap_takes_some_of_it_back():
    plain, late, overlapped = (
        metrics("--arrivals", "closed:3", *options)
        for options in (
            (),
            ("--transfer-s", 0.3),
            ("--transfer-s", 0.3, "--transfer-overlap"),
        )
    )
    assert plain["duration_s"] < overlapped["duration_s"] < late["duration_s"]


def test_perturbations_by_name():
    plain = metrics()
    wrong = metrics("--perturb", "stale-steps=20", "--perturb", "keeps_book=false")
    assert wrong["sum_load_tokens"] == plain["sum_load_tokens"]
    assert wrong["imbalance_total_tokens"] != plain["imbalance_total_tokens"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replica-speeds", "1,x,1"], "--replica-speeds: expected numbers"),
        (["--replica-slots", "1,2.5,1"], "--replica-slots: expected integers"),
        (["--replica-speeds", "1,1"], "--replicas: expected 2, as many as described, got 3"),
        (["--replica-speeds", "1,1,0"], "replica speed: expected 1e-06"),
        (["--replica-speeds", "1,1,1", "--replica-slots", "8"], "expected 3 numbers, got 1"),
        (["--transfer-overlap"], "--transfer-overlap: expected a transfer"),
        (["--transfer-s", "-1"], "transfer seconds: expected 0 to"),
        (["--perturb", "drift"], "--perturb: expected K=V"),
        (["--perturb", "drfit=1"], "--perturb: expected one of stale_steps"),
        (["--perturb", "drift=2"], "--perturb.drift: expected less than or equal to 1"),
        (["--arrivals", "open:rho=1:burst=0"], "arrivals: expected open:rho=R:burst=B"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(options, message):
    outcome = run_cli(*BASE, *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_bad_file_of_replicas_is_pointed_at(tmp_path):
    file = tmp_path / "replicas.json"
    file.write_text('{"schema": "brtheory.replicas/1",\n "replicas": [{"slots": 0}]}')
    outcome = run_cli(*BASE, "--replica-file", file)
    assert outcome.code == 2
    assert f"{file}:2: expected replicas[0].slots" in outcome.err


@pytest.fixture
def instance_file(tmp_path):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(UNEQUAL))
    return file


def test_an_unequal_instance_is_replayed_and_judged_in_time(instance_file, tmp_path):
    # As in the engine's test by hand: T = (2 + L, 4 + 2 L), 42 s in all, 15 s of them idle.
    jsonschema.validate(UNEQUAL, json.loads(schema_text("instance")))
    made = run_cli("replay", instance_file, "--router", "round-robin", "--json")
    assignment = tmp_path / "assignment.json"
    assignment.write_text(made.out)
    verdict = json.loads(run_cli("judge", instance_file, assignment, "--json").out)
    assert verdict["time_s"] == 42
    assert verdict["barrier_idle_s"] == 15
    jsonschema.validate(verdict, json.loads(schema_text("evaluation")))


def test_an_unequal_instance_survives_being_written(instance_file, tmp_path):
    instance = read_instance(instance_file)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(instance_to_json(instance)))
    assert read_instance(again) == instance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unequal": [{"slots": 1}]}, "unequal: expected 2 replicas, got 1"),
        ({"slots": 2}, "slots: expected 1, the most of any replica, got 2"),
        ({"unequal": [{"slots": 1}, {"slots": 1, "speed": 0}]}, "unequal[1].speed"),
        ({"unequal": [{"slots": 1, "a0": 0.0, "b0": 0.0}, {"slots": 1}]}, "replica 0"),
    ],
)
def test_unequal_instances_that_contradict_themselves_are_refused(change, message, tmp_path):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(UNEQUAL | change))
    with pytest.raises(InputError) as error:
        read_instance(file)
    assert message in str(error.value)


def test_exact_methods_refuse_unequal_replicas(instance_file):
    instance: Instance = read_instance(instance_file)
    for make in (
        lambda: FreeAdmissions(instance, "time"),
        lambda: FixedAdmissions(instance, "time"),
        lambda: bracket(instance, (), rng=np.random.default_rng(0)),
    ):
        with pytest.raises(InputError, match="replicas that are alike"):
            make()
