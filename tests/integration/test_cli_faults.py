"""Faults around the command line: streams that are closed or full, devices, odd names and texts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runner import run_cli

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TICK = json.loads((EXAMPLES / "tick.json").read_text())
COMMAND = f"{sys.executable} -m brtheory.cli"


def shell(line, **options):
    return subprocess.run(line, shell=True, capture_output=True, check=False, **options)


def tick_file(folder, **changes):
    path = folder / "tick.json"
    path.write_text(json.dumps({**TICK, **changes}))
    return path


def assert_refused(outcome, *words):
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    for word in ("expected", "got", *words):
        assert word in outcome.err


def test_output_that_cannot_be_written_is_an_error_not_success():
    done = shell(f"{COMMAND} tick {EXAMPLES / 'tick.json'} --json > /dev/full")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: standard input or output: expected ")
    assert done.stderr.count(b"\n") == 1


def test_closed_streams_are_empty_ones_and_no_crash():
    done = shell(f"{COMMAND} tick - <&-")
    assert (done.returncode, done.stderr) == (
        2, b"error: standard input: expected a JSON object, got nothing\n",
    )  # fmt: skip
    done = shell(f"{COMMAND} tick {EXAMPLES / 'tick.json'} --json >&-")
    assert (done.returncode, done.stderr) == (0, b"")


def test_standard_input_is_utf8_with_or_without_a_mark_whatever_the_locale():
    environment = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    marked = b"\xef\xbb\xbf" + (EXAMPLES / "tick.json").read_bytes()
    done = shell(f"{COMMAND} tick - --json", input=marked, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    done = shell(f"{COMMAND} tick -", input=b'{"\xff": 1}', env=environment)
    assert done.returncode == 2
    assert b"expected UTF-8 text" in done.stderr


@pytest.mark.parametrize("command", ["tick", "judge"])
@pytest.mark.parametrize("name", ["", "missing"])
def test_folders_and_missing_files_are_named(tmp_path, command, name):
    path = tmp_path / name
    others = [EXAMPLES / "instance.json"] if command == "judge" else []
    assert_refused(run_cli(command, path, *others), f"{path}: expected a readable file")


def test_what_came_is_shortened_and_control_characters_are_shown(tmp_path):
    huge = run_cli("tick", tick_file(tmp_path, **{"\x1b[31m" + "x" * 100_000: 1}))
    assert_refused(huge, "known fields only", "(100,005 characters)")
    assert len(huge.err) < 600
    assert "\x1b" not in huge.err


def test_a_parameter_given_twice_is_refused_not_overruled():
    twice = ("--param", "max_subset=1", "--param", "max-subset=2")
    outcome = run_cli("replay", EXAMPLES / "instance.json", "--router", "br0", *twice)
    assert_refused(outcome, "--param", "max_subset twice")


def test_immediate_routers_refuse_an_id_twice_and_sums_that_leave_int64(tmp_path):
    pool = [{"id": 7, "prompt_tokens": 2**61}, {"id": 8, "prompt_tokens": 2**61 + 1}]
    base = {"router": "least-tokens", "params": {}}
    replicas = [{"loads": [0], "free_slots": 1}]
    fitting = [pool[0], {**pool[1], "prompt_tokens": 2**61}]  # 2**62 in all: the limit itself
    good = tick_file(tmp_path, **base, pool=fitting, replicas=replicas)
    assert run_cli("tick", good, "--json").code == 0
    large = tick_file(tmp_path, **base, pool=pool, replicas=replicas)
    assert_refused(run_cli("tick", large), "replicas[0]", str(2**62 + 1))
    same = tick_file(tmp_path, **base, pool=[pool[0], pool[0]], replicas=replicas)
    assert_refused(run_cli("tick", same), "id 7 twice")


def test_an_output_that_is_a_device_is_refused_and_left_alone():
    outcome = run_cli(
        "replay", EXAMPLES / "instance.json", "--router", "br0", "--out", "/dev/full"
    )  # fmt: skip
    assert_refused(outcome, "/dev/full")
    assert Path("/dev/full").is_char_device()
