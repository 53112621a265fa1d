"""Gaps are intervals around the truth; families repeat; shrinking keeps what it must."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from brtheory.errors import InputError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest, instance_to_json, read_instance
from brtheory.simulation.replay import replay
from solvers.facade import solve
from solvers.gap.cli import gap
from solvers.gap.families import families, find_family, instance_from_trace
from solvers.gap.measure import Gap, decomposition, find_spec, measure
from solvers.gap.report import cases_of, gap_document
from solvers.gap.shrink import shrink
from tests.exact.problems import tiny_instance

ROUTERS = ("jsq", "br0", "brh", "exact-tick")


@pytest.fixture
def app() -> Typer:
    """The command on its own."""
    made = Typer()
    made.command()(gap)
    return made


def test_an_interval_of_a_proved_optimum_is_a_point() -> None:
    """12 against 10: 2, a fifth."""
    found = Gap(value=12, incumbent=10, bound=10)
    assert found.proved
    assert (found.absolute, found.relative) == ((2, 2), (0.2, 0.2))


def test_an_open_interval_keeps_both_ends_and_zero_has_no_ratio() -> None:
    """[12 - 10, 12 - 8]; over an optimum of 0 there is an absolute gap only."""
    found = Gap(value=12, incumbent=10, bound=8)
    assert (found.absolute, found.relative, found.proved) == ((2, 4), (0.2, 0.5), False)
    assert Gap(value=3, incumbent=0, bound=0).relative == (None, None)
    assert Gap(value=3, incumbent=None, bound=0).absolute == (None, 3)


@pytest.mark.parametrize("seed", range(6))
def test_gaps_agree_with_brute_force(seed: int) -> None:
    """Case A at each router's admissions, and case B over all schedules."""
    instance = tiny_instance(
        seed, requests=4, replicas=2, slots=2, latest_ready=2, longest_output=3
    )
    free = solve(instance, method="brute", case="B", objective="time")
    for found in measure(instance, ROUTERS, time_limit_s=20.0, seed=0):
        steps = {p.id: p.step for p in found.assignment}
        verdict = evaluate(instance, found.assignment)
        for mine, objective in ((found.time, "time"), (found.imbalance, "imbalance")):
            best = solve(instance, method="brute", objective=objective, admissions=steps)
            assert (mine.incumbent, mine.bound) == (best.incumbent, best.incumbent)
        assert found.imbalance.value == verdict.imbalance_total
        # b0/a0 = 0.01/1e-7 = 100000
        assert found.time.value == 100_000 * verdict.steps + verdict.sum_peak
        assert (found.time_any.incumbent, found.time_any.bound) == (free.incumbent, free.incumbent)


def test_without_a_proof_the_interval_still_holds() -> None:
    """No time to solve anything: bounds from work and steps, incumbents from the routers."""
    instance = find_family("wide").make(np.random.default_rng(1))
    exact = {found.router: found for found in measure(instance, ROUTERS, time_limit_s=60.0, seed=0)}
    for rushed in measure(instance, ROUTERS, time_limit_s=0.0, seed=0):
        best = exact[rushed.router]
        assert best.time.proved
        assert rushed.time.bound <= best.time.incumbent <= rushed.time.incumbent
        assert rushed.imbalance.bound <= best.imbalance.incumbent <= rushed.imbalance.incumbent
        assert rushed.time_any.bound <= rushed.time_any.incumbent <= rushed.time_any.value


def test_the_decomposition_adds_up() -> None:
    """BR-0 against the optimum = two-stage rule + online, at both ends."""
    instance = find_family("small").make(np.random.default_rng(0))
    found = measure(instance, ROUTERS, time_limit_s=10.0, seed=0)
    parts = decomposition(found)
    br0 = next(each for each in found if each.router == "br0")
    assert [parts["two_stage_rule"] + end for end in parts["online"]] == list(br0.time_any.absolute)
    assert parts["placement"] == list(br0.time.absolute)
    assert decomposition([])["two_stage_rule"] is None


@pytest.mark.parametrize("name", sorted(families()))
def test_families_repeat_and_can_be_served(name: str) -> None:
    """The same seed gives the same instance; BR-0 serves it."""
    family = find_family(name)
    first, second = (family.make(np.random.default_rng(3)) for _ in range(2))
    assert first == second
    spec = find_spec("br0")
    router = spec.build(spec.params(), np.random.default_rng(0))
    assert evaluate(first, replay(first, router)).feasible


def test_what_does_not_exist_is_refused() -> None:
    """Families, routers and loads."""
    with pytest.raises(InputError, match="tiny, small"):
        find_family("huge")
    with pytest.raises(InputError, match="br0"):
        find_spec("oracle-router")
    with pytest.raises(InputError, match="load"):
        instance_from_trace(None, replicas=1, slots=1, load=0.0)


def test_shrinking_leaves_nothing_that_could_go() -> None:
    """Total work of at least 30 needs the request of 25 and one of the 6s: two remain."""
    requests = tuple(OfflineRequest(i, 0, s, 1) for i, s in enumerate((1, 6, 2, 25, 6, 3)))
    instance = Instance(2, 6, None, 1e-7, 0.01, requests)
    smaller = shrink(instance, lambda each: each.total_work >= 30)
    assert len(smaller.requests) == 2
    assert smaller.total_work >= 30
    for left_out in smaller.requests:
        rest = tuple(r for r in smaller.requests if r != left_out)
        assert replace(smaller, requests=rest).total_work < 30


def test_the_document_saves_worst_instances_that_show_their_ratio() -> None:
    """The shrunk instance keeps 90 % of the ratio with fewer requests."""
    cases = cases_of([find_family("tiny")], seeds=2)
    document, worst = gap_document(cases, ["least-tokens"], time_limit_s=1.0, seed=0)
    assert [row["router"] for row in document["summary"]] == ["least-tokens"]
    for each in worst:
        assert each.shrunk_ratio >= 0.9 * each.ratio > 0
        assert len(each.instance.requests) <= 8


def test_the_command_writes_its_files_and_prints_json(app: Typer, tmp_path: Path) -> None:
    """An instance file in, gap.json and worst instances out."""
    path = tmp_path / "mine.json"
    instance = find_family("adversarial").make(np.random.default_rng(0))
    path.write_text(json.dumps(instance_to_json(instance)))
    arguments = [str(path), "--router", "jsq", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "out" / "gap.json").read_text())
    assert printed["cases"][0]["name"] == "mine"
    assert printed["worst_observed"][0]["ratio"] > 0
    assert read_instance(tmp_path / "out" / "worst" / "jsq.json").replicas == 3


def test_families_are_listed(app: Typer) -> None:
    """For people."""
    done = CliRunner().invoke(app, ["--family", "list"])
    assert "adversarial" in done.stdout
