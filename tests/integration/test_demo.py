"""The demo as a process: says where to look, switches routers, stops cleanly when told to."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from brtheory.cli.demo_phases import MOST_SEEN, Phase, Totals, cost_between
from brtheory.proxy.ticker import RouterChoice
from tests.browser import browser
from tests.cli_runner import run_cli

SMALL = ("--replicas", "2", "--slots", "2", "--json")
PROGRAM = "import sys; from brtheory.cli.main import main; sys.argv[0] = 'brtheory'; main()"


@contextmanager
def demo(*arguments):
    """The command as a process of its own; yields it with the dashboard's address and key."""
    command = [sys.executable, "-c", PROGRAM, "demo", *SMALL, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            address, key = process.stderr.readline().split()[1].split("#key=")
            process.stderr.readline()
            yield process, address, key
        finally:
            if process.poll() is None:
                process.kill()


def state(address, key):
    url = address.replace("/dashboard", "/admin/state")
    with urlopen(Request(url, headers={"Authorization": f"Bearer {key}"}), timeout=10) as reply:
        return json.loads(reply.read())


def test_it_plays_so_many_seconds_takes_turns_and_sums_up():
    with demo("--seconds", "5", "--switch-every", "2", "--seed", "3") as (process, address, key):
        assert urlsplit(address).hostname == "127.0.0.1"
        assert len(state(address, key)["replicas"]) == 2
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    summary = json.loads(out)
    assert [phase["router"] for phase in summary["phases"]] == ["jsq", "window", "jsq"]
    assert summary["decoded_tokens"] == sum(p["decoded_tokens"] for p in summary["phases"]) > 0
    assert summary["requests"]["failed"] == 0
    for phase in summary["phases"][:2]:
        assert phase["seconds"] == pytest.approx(2, abs=1)
        assert 0 <= phase["barrier_idle_fraction"] < 1


def test_it_ends_when_told_to_and_opens_only_with_the_key_of_this_run():
    keys = []
    for how in (signal.SIGINT, signal.SIGTERM):
        with demo("--router", "window") as (process, address, key):
            assert state(address, key)["router"] == "window"
            for given in ("", *keys):
                with pytest.raises(OSError, match="401"):
                    state(address, given)
            process.send_signal(how)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out)["schema"] == "brtheory.demo/1"
        assert re.fullmatch(r"[\w-]{20,}", key)
        keys.append(key)


def test_the_address_it_prints_opens_in_a_browser():
    async def look(url):
        async with browser() as tab:
            await tab.open(url)
            await tab.until("document.querySelector('#router-now').textContent === 'jsq'")
            await tab.until("document.querySelector('#v-decoding').textContent === '4'")
            assert tab.problems == []

    with demo() as (process, address, key):
        asyncio.run(look(f"{address}#key={key}"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--router", "nobody"], "router: expected one of"),
        (["--workload", "nothing"], "workload: expected one of"),
        (["--replicas", "1"], "--replicas"),
        (["--pressure", "0"], "--pressure"),
        (["--switch-every", "0"], "--switch-every"),
    ],
)
def test_options_that_make_no_sense_are_one_line(arguments, message):
    outcome = run_cli("demo", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


# -- the sums --------------------------------------------------------------------------------------


def test_costs_of_stretches_add_up():
    """Idle is a ratio of sums: 30 of 100, then 10 of 300, are 40 of 400 together."""
    a, b, c = Totals(0, 0, 0, 0, 0), Totals(2, 4, 100, 30, 8), Totals(6, 10, 400, 40, 20)
    assert cost_between(a, b)["barrier_idle_fraction"] == 0.3
    assert cost_between(a, c)["barrier_idle_fraction"] == 0.1
    assert cost_between(a, c)["imbalance_mean_tokens"] == 4.0
    assert cost_between(b, c)["tokens_per_s"] == 3.0
    assert cost_between(b, b)["barrier_idle_fraction"] is None
    # The middle of 0 .. 6 s is 3 s; the first totals not before it are the last ones.
    phase = Phase(RouterChoice("jsq"), [a, b, c]).document()
    assert (phase["router"], phase["seconds"], phase["second_half"]["seconds"]) == ("jsq", 6, 0)


def test_a_phase_of_days_is_remembered_in_bounded_memory():
    phase = Phase(RouterChoice("jsq"))
    for number in range(100_000):
        phase.add(Totals(number, number, 10 * number, number, number))
    assert len(phase.seen) <= MOST_SEEN
    document = phase.document()
    assert (document["steps"], document["barrier_idle_fraction"]) == (99_999, 0.1)
    assert document["second_half"]["steps"] == pytest.approx(50_000, rel=0.01)
