"""The machine-readable contracts, end to end: replay, judge, tick, simulate."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from brtheory.routers.registry import router_specs
from tests.cli_runner import run_cli

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
INSTANCE = {
    "schema": "brtheory.instance/1",
    "replicas": 2,
    "slots": 2,
    "kv_capacity": 40,
    "a0": 1.0e-7,
    "b0": 0.01,
    "requests": [
        {"id": i, "ready": i // 3, "prompt_tokens": 3 + 5 * (i % 4), "output_tokens": 2 + i % 5}
        for i in range(12)
    ],
}
STATE = {
    "schema": "brtheory.tick/1",
    "router": "br0",
    "params": {"greedy_threshold": 8, "max_subset": 4},
    "replicas": [{"loads": [200], "free_slots": 1}, {"loads": [100], "free_slots": 2}],
    "pool": [
        {"id": 7, "prompt_tokens": 60, "wait": 2.5},
        {"id": 8, "prompt_tokens": 90, "wait": 1},
        {"id": 9, "prompt_tokens": 40, "wait": 0},
    ],
}


def validate(document, name):
    jsonschema.validate(document, json.loads((SCHEMAS / f"{name}.schema.json").read_text()))


def write(path, document):
    path.write_text(json.dumps(document))
    return path


def offline_routers():
    return [name for name, spec in router_specs().items() if spec.family == "immediate"] + [
        "pool-fifo",
        "br0",
        "brh",
        "window",
    ]


@pytest.mark.parametrize("router", offline_routers())
def test_replay_then_judge(router, tmp_path):
    instance = write(tmp_path / "instance.json", INSTANCE)
    replayed = run_cli("replay", instance, "--router", router, "--json")
    assert replayed.code == 0, replayed.err
    validate(json.loads(replayed.out), "assignment")
    assignment = tmp_path / "assignment.json"
    assignment.write_text(replayed.out)
    judged = run_cli("judge", instance, assignment, "--json")
    verdict = json.loads(judged.out)
    validate(verdict, "evaluation")
    assert judged.code == 0
    assert verdict["feasible"]
    # T17: the sum of loads does not depend on the router.
    work = sum(
        r["output_tokens"] * r["prompt_tokens"] + r["output_tokens"] * (r["output_tokens"] - 1) // 2
        for r in INSTANCE["requests"]
    )
    assert verdict["sum_load"] == work
    assert verdict["imbalance_total"] == 2 * verdict["sum_peak"] - work


def test_an_infeasible_assignment_exits_with_1(tmp_path):
    instance = write(tmp_path / "instance.json", INSTANCE)
    assignment = write(
        tmp_path / "assignment.json", {"schema": "brtheory.assignment/1", "admissions": []}
    )
    judged = run_cli("judge", instance, assignment, "--json")
    assert judged.code == 1
    assert json.loads(judged.out)["violations"][0] == "request 0: never admitted"
    assert "never admitted" in run_cli("judge", instance, assignment).out


def test_replay_writes_the_file_whole(tmp_path):
    instance = write(tmp_path / "instance.json", INSTANCE)
    out = tmp_path / "deep" / "assignment.json"
    run_cli("replay", instance, "--router", "jsq", "--out", out)
    validate(json.loads(out.read_text()), "assignment")
    assert [p.name for p in out.parent.iterdir()] == ["assignment.json"]


def test_a_request_that_never_fits_is_named(tmp_path):
    instance = write(tmp_path / "instance.json", INSTANCE | {"kv_capacity": 10})
    replayed = run_cli("replay", instance, "--router", "br0", "--json")
    assert replayed.code == 2
    assert replayed.out == ""
    assert "reserves" in replayed.err
    assert replayed.err.count("\n") == 1


def test_the_request_that_never_fits_is_called_by_its_own_id(tmp_path):
    """Ready last and listed first, so that neither its place nor its turn is its id."""
    rows = [(7, 9, 8, 3), (4, 0, 2, 2)]
    names = ("id", "ready", "prompt_tokens", "output_tokens")
    requests = [dict(zip(names, row, strict=True)) for row in rows]
    only = INSTANCE | {"kv_capacity": 10, "requests": requests}
    replayed = run_cli("replay", write(tmp_path / "instance.json", only), "--router", "br0")
    assert "request 7 reserves 11 KV tokens" in replayed.err


def test_tick_answers_one_object():
    answered = run_cli("tick", "-", "--json", stdin=json.dumps(STATE))
    answer = json.loads(answered.out)
    validate(STATE, "tick")
    validate(answer, "tick-answer")
    # Replica 1 (2 slots) has margin 100: 60 + 40 fill it, F = 100. Then replica 0 takes the 90.
    assert answer == {
        "admissions": [
            {"id": 7, "replica": 1, "stage": 2, "score": 100},
            {"id": 9, "replica": 1, "stage": 2, "score": 100},
            {"id": 8, "replica": 0, "stage": 2, "score": 90 - 2 * 90},
        ]
    }


def test_tick_answers_a_file_over_several_lines(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE, indent=2))
    assert run_cli("tick", path, "--json").out.count("\n") == 1


def test_with_a_following_horizon_the_rows_of_a_tick_say_how_far_they_go():
    def answer(horizon, loads):
        replicas = [replica | {"loads": loads} for replica in STATE["replicas"]]
        state = STATE | {"router": "brh", "params": {"horizon": horizon}, "replicas": replicas}
        return run_cli("tick", "-", "--json", stdin=json.dumps(state))

    followed, fixed = answer("auto", [9, 4, 1]), answer(2, [9, 4, 1])
    assert followed.code == 0, followed.err
    assert followed.out == fixed.out
    assert answer(3, [9, 4, 1]).code == 2


def test_tick_answers_json_lines_in_order():
    pools = [[], STATE["pool"][:1], STATE["pool"]]
    lines = "\n".join(json.dumps(STATE | {"pool": pool}) for pool in pools)
    answers = run_cli("tick", "-", "--json", stdin=lines).out.splitlines()
    assert [len(json.loads(a)["admissions"]) for a in answers] == [0, 1, 3]


def test_tick_answers_each_line_as_it_comes():
    """A co-process can hold a conversation."""
    with subprocess.Popen(  # our own command
        [sys.executable, "-m", "brtheory.cli", "tick", "-", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        for _ in range(3):
            process.stdin.write(json.dumps(STATE) + "\n")
            process.stdin.flush()
            assert len(json.loads(process.stdout.readline())["admissions"]) == 3
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"router": "magic"}, "expected one of random, round-robin"),
        ({"params": {"max_subset": 0}}, "max_subset"),
        ({"params": {"max_subset": "4"}}, "max_subset"),
        ({"params": {"colour": 1}}, "a parameter of this router (greedy_threshold, max_subset,"),
        ({"replicas": []}, "replicas"),
        ({"replicas": [{"loads": [], "free_slots": 1}]}, "loads"),
        ({"replicas": [{"loads": [-1], "free_slots": 1}]}, "loads"),
        ({"replicas": [{"loads": [1, 2], "free_slots": 1}]}, "horizon + 1 = 1 entries, got 2"),
        ({"pool": [{"id": 1, "prompt_tokens": 1}] * 2}, "ids used once"),
        (
            {
                "replicas": [
                    {"loads": [1], "free_slots": 1},
                    {"loads": [1], "free_slots": 1, "free_tokens": 3},
                ]
            },
            "on every replica or on none",
        ),
        ({"schema": "brtheory.tick/9"}, "schema"),
        ({"extra": 1}, "known fields only"),
    ],
)
def test_a_bad_state_is_one_line_and_exit_code_2(change, message):
    state = json.dumps(STATE | change)
    answered = run_cli("tick", "-", "--json", stdin=json.dumps(STATE) + "\n" + state)
    assert answered.code == 2
    assert answered.err.startswith("error: standard input:2:")
    assert message in answered.err
    assert answered.err.count("\n") == 1
    assert answered.out.count("\n") == 1


def test_immediate_routers_place_the_pool_in_order():
    state = STATE | {"router": "jsq", "params": {}}
    state["replicas"] = [r | {"active": a} for r, a in zip(STATE["replicas"], (3, 1), strict=True)]
    answer = json.loads(run_cli("tick", "-", "--json", stdin=json.dumps(state)).out)
    # Counts 3 and 1: two requests go to replica 1; then 3 against 3, and the tie rotates to 0.
    assert [a["replica"] for a in answer["admissions"]] == [1, 1, 0]
    assert {a["stage"] for a in answer["admissions"]} == {None}


@pytest.mark.parametrize("arrivals", ["closed:1.25", "open:1.0", "open:rho=0.6", "all"])
def test_simulate_prints_every_metric(arrivals):
    simulated = run_cli(
        "simulate", "--workload", "azure-2023-conv", "--requests", 120, "--router", "br0",
        "--replicas", 2, "--slots", 4, "--arrivals", arrivals, "--seed", 1, "--json",
    )  # fmt: skip
    assert simulated.code == 0, simulated.err
    document = json.loads(simulated.out)
    validate(document, "simulate")
    assert document["requests"] == 120
    assert document["synthetic"] is True
    if arrivals == "all":
        assert document["loaded_window"] is None


def test_simulate_is_reproducible_and_follows_its_seed():
    def once(seed):
        return run_cli(
            "simulate", "--workload", "azure-2023-code", "--requests", 80, "--router", "p2c",
            "--replicas", 3, "--slots", 2, "--seed", seed, "--json",
        ).out  # fmt: skip

    assert once(1) == once(1) != once(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--router", "br0"], "one of --trace FILE and --workload NAME"),
        (["--router", "magic", "--workload", "azure-2023-conv"], "expected one of random"),
        (["--router", "br0", "--workload", "magic"], "azure-2023-conv"),
        (
            ["--router", "br0", "--workload", "azure-2023-conv", "--arrivals", "closed:-1"],
            "closed:X",
        ),
        (
            ["--router", "br0", "--workload", "azure-2023-conv", "--arrivals", "open:rho=nan"],
            "closed:X",
        ),
        (["--router", "br0", "--workload", "azure-2023-conv", "--param", "x"], "K=V"),
        (["--router", "brh", "--workload", "azure-2023-conv", "--param", "horizon=-1"], "horizon"),
        (
            ["--router", "brh", "--workload", "azure-2023-conv", "--param", "horizon=x"],
            "or 'auto', got x",
        ),
        (["--router", "br0", "--workload", "azure-2023-conv", "--a0", "-1"], "a0"),
        (["--router", "br0", "--workload", "azure-2023-conv", "--kv-capacity", "5"], "reserves"),
        (["--router", "br0", "--trace", "missing.csv"], "missing.csv"),
        (["--workload", "azure-2023-conv"], "--router"),
        (["--router", "br0", "--replicas", "0"], "--replicas"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, message):
    simulated = run_cli("simulate", "--json", *arguments)
    assert simulated.code == 2
    assert simulated.out == ""
    assert message in simulated.err
    assert simulated.err.count("\n") == 1


def test_trace_describe_fits_its_contract(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,2\n1.5,7,3\n2,0,3\n")
    described = run_cli("trace", "describe", path, "--json", "--on-error", "skip")
    document = json.loads(described.out)
    validate(document, "trace-describe")
    assert (document["rows"], sum(document["dropped"].values())) == (2, 1)
    failed = run_cli("trace", "describe", path, "--json")
    assert failed.code == 2
    assert f"{path}:4" in failed.err


def test_simulate_counts_dropped_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,2\n1.5,7,3\n2,0,3\n")
    simulated = run_cli(
        "simulate", "--trace", path, "--router", "jsq", "--json", "--on-error", "skip"
    )
    document = json.loads(simulated.out)
    validate(document, "simulate")
    assert document["requests"] == 2
    assert sum(document["dropped"].values()) == 1


def test_debug_shows_the_traceback():
    with pytest.raises(Exception, match="one of random"):
        run_cli("--debug", "simulate", "--router", "magic", "--workload", "azure-2023-conv")


def test_help_lists_every_command():
    text = run_cli("--help").out
    for command in ("judge", "replay", "schema", "simulate", "study", "tick", "trace", "workloads"):
        assert command in text
