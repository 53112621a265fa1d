"""``brtheory solve``: the contract of its JSON, its refusals in one line, and Ctrl-C."""

import inspect
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from brtheory.cli.main import main
from brtheory.offline.assignment import Placement, assignment_to_json
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest, instance_to_json
from brtheory.routers.baselines import PoolFifo
from brtheory.simulation.replay import replay
from solvers.budget import Budget
from solvers.certify import certify
from solvers.cli import solve
from solvers.documents import read_tick_problem
from solvers.facade import solve_problem
from solvers.problem import FixedAdmissions
from solvers.result import Stop
from tests.exact.problems import fifo_steps

KEYS = {
    "status", "incumbent", "bound", "optimal", "steps", "sum_peak", "barrier_time_s", "wall_s",
    "assignment",
}  # fmt: skip

INSTANCE = Instance(
    2,
    2,
    None,
    1e-7,
    0.01,
    (
        OfflineRequest(0, 0, 12, 5),
        OfflineRequest(1, 0, 3, 4),
        OfflineRequest(2, 1, 7, 2),
        OfflineRequest(3, 2, 9, 2),
    ),
)
TICK = {
    "schema": "brtheory.tick/1",
    "router": "br0",
    "replicas": [{"loads": [100, 101], "free_slots": 2}, {"loads": [500, 400], "free_slots": 1}],
    "pool": [{"id": 7, "prompt_tokens": 900}, {"id": 8, "prompt_tokens": 300}],
}


class Done:
    """What a run of the command left: exit code and both streams, caught at the file descriptor."""

    def __init__(self, returncode: int, stdout: str, stderr: str) -> None:
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process."""

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["brtheory", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        return Done(int(exit_.value.code or 0), *capfd.readouterr())

    return call


@pytest.fixture
def instance_file(tmp_path: Path) -> Path:
    """Four requests on two replicas of two slots."""
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance_to_json(INSTANCE)))
    return path


@pytest.mark.parametrize("method", ["dp", "milp", "cpsat"])
def test_json_is_the_only_thing_on_standard_output(run, instance_file: Path, method: str) -> None:
    """One object with the promised keys; HiGHS' banner does not leak; the judge agrees."""
    done = run("solve", instance_file, "--method", method, "--objective", "imbalance", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer.keys() >= KEYS
    placements = tuple(
        Placement(p["id"], p["replica"], p["step"]) for p in answer["assignment"]["admissions"]
    )
    found = evaluate(INSTANCE, placements)
    assert answer["incumbent"] == answer["bound"] == found.imbalance_total
    assert (answer["status"], answer["optimal"]) == ("optimal", True)
    assert (answer["steps"], answer["sum_peak"]) == (found.steps, found.sum_peak)
    assert answer["barrier_time_s"] == found.time_s


def test_admissions_are_taken_from_an_assignment_and_its_replicas_are_not(
    run, instance_file: Path, tmp_path: Path
) -> None:
    """All on replica 0, which no optimum does: 12 and 3 part at step 0."""
    steps = {0: 0, 1: 0, 2: 4, 3: 5}
    path = tmp_path / "assignment.json"
    path.write_text(json.dumps(assignment_to_json(Placement(i, 0, k) for i, k in steps.items())))
    done = run("solve", instance_file, "--method", "brute", "--admissions", path, "--json")
    admissions = json.loads(done.stdout)["assignment"]["admissions"]
    assert {a["id"]: a["step"] for a in admissions} == steps
    assert admissions[0]["replica"] != admissions[1]["replica"]


def test_case_c_takes_a_tick_state_or_the_first_tick_of_an_instance(
    instance_file: Path, tmp_path: Path
) -> None:
    """900 and 300 to (100, 500): 1000 | 800 leaves 200, every other choice more."""
    path = tmp_path / "tick.json"
    path.write_text(json.dumps(TICK))
    result = solve_problem(read_tick_problem(path, "imbalance"), method="brute")
    assert [(p.id, p.replica) for p in result.assignment] == [(7, 0), (8, 1)]
    # H + 1 = 2 rows: (1000, 800) and (1001, 700), so I = 200 + 301.
    assert result.incumbent == 501
    first = solve_problem(read_tick_problem(instance_file, "imbalance"), method="brute")
    # Ready at step 0: prompts 12 and 3 on two empty replicas.
    assert first.incumbent == 9


def test_the_table_is_for_people(run, instance_file: Path) -> None:
    """Same figures, with units."""
    done = run("solve", instance_file, "--method", "brute", "--objective", "time")
    assert done.returncode == 0
    assert "500086" in done.stdout
    assert "optimal" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "dp", "--case", "C"], "one of brute, milp, cpsat for case C"),
        (["--method", "brute", "--hold", "1"], "case B only"),
        (["--method", "brute", "--case", "C", "--work-conserving"], "case B only"),
        (["--method", "brute", "--time-limit", "-3"], "time_limit"),
        (["--method", "brute", "--admissions", "nowhere.json"], "nowhere.json"),
        (["--method", "simplex"], "simplex"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    run, instance_file: Path, arguments: list[str], message: str
) -> None:
    """Exit code 2, nothing on standard output, no traceback."""
    done = run("solve", instance_file, *arguments, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_tick_state_points_at_its_line(run, tmp_path: Path) -> None:
    """Rows of different length on line 3."""
    path = tmp_path / "tick.json"
    path.write_text('{"schema":"brtheory.tick/1",\n"router":"br0","pool":[],\n"replicas":[]}')
    done = run("solve", path, "--method", "brute", "--case", "C")
    assert done.returncode == 2
    assert f"{path}:3" in done.stderr


def hard_instance() -> Instance:
    """No method finishes it within the time of a test."""
    return random_instance(
        np.random.default_rng(0),
        requests=60,
        replicas=4,
        slots=6,
        longest_prompt=90,
        longest_output=40,
        latest_ready=60,
    )


@pytest.mark.parametrize("method", ["brute", "dp", "milp", "cpsat"])
def test_a_stop_request_returns_the_best_so_far_judged(method: str) -> None:
    """Asked for as soon as an incumbent is known and the clock has been looked at often enough."""
    problem = FixedAdmissions(hard_instance(), "time", fifo_steps(hard_instance()))
    asked = iter(range(10**9))
    budget = Budget(should_stop=lambda: next(asked) > ENOUGH_LOOKS[method])
    result = certify(problem, solve_problem(problem, method=method, budget=budget))
    assert (result.stop, result.limit, result.status) == (Stop.INTERRUPTED, None, "feasible")
    if method != "brute":
        assert result.bound <= result.incumbent


ENOUGH_LOOKS = {
    "brute": 2,  # one look each 4096 nodes
    "dp": 70,  # one look an admission: past the first beam
    "milp": 5,  # one look each 0.05 s
    "cpsat": 5,
}


TELLS_WHEN_IT_LISTENS = """
import signal
from pathlib import Path
from brtheory.cli.main import main

listen = signal.signal

def listen_and_tell(number, handler):
    before = listen(number, handler)
    Path({listens!r}).touch()
    return before

signal.signal = listen_and_tell
main()
"""


def test_ctrl_c_prints_the_best_so_far(tmp_path: Path) -> None:
    """A real SIGINT to a real process, deep in HiGHS's own code."""
    path, fifo = tmp_path / "hard.json", tmp_path / "fifo.json"
    path.write_text(json.dumps(instance_to_json(hard_instance())))
    fifo.write_text(json.dumps(assignment_to_json(replay(hard_instance(), PoolFifo()))))
    arguments = ["solve", path, "--method", "milp", "--admissions", fifo, "--json"]
    listens = tmp_path / "listens"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            TELLS_WHEN_IT_LISTENS.format(listens=str(listens)),
            *map(str, arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not listens.exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    answer = json.loads(output)
    assert (answer["stop"], answer["status"]) == ("interrupted", "feasible")
    assert 0 < answer["bound"] <= answer["incumbent"]


def test_the_time_limit_has_a_default_and_inf_is_none(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    """Sixty seconds where nothing is said; a negative infinity is no time."""
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance_to_json(INSTANCE)))
    assert inspect.signature(solve).parameters["time_limit"].default == 60.0
    answer = run("solve", path, "--method", "dp", "--time-limit", "inf", "--json")
    assert json.loads(answer.stdout)["status"] == "optimal"
    assert run("solve", path, "--method", "dp", "--time-limit", "-inf", "--json").returncode == 2


@pytest.mark.parametrize("backend", ["highs", "cbc", "scip"])
def test_the_backend_of_milp_can_be_chosen(
    run: Callable[..., Done], tmp_path: Path, backend: str
) -> None:
    """The same optimum; one that is not installed is refused with how to get it."""
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance_to_json(INSTANCE)))
    done = run("solve", path, "--method", "milp", "--backend", backend, "--json")
    if done.returncode == 2:
        assert "pip install" in done.stderr
    else:
        exact = json.loads(run("solve", path, "--method", "dp", "--json").stdout)
        assert json.loads(done.stdout)["incumbent"] == exact["incumbent"]
