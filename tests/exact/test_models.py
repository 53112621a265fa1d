"""The index models and their backends: constants, merging, hints, limits, missing extras."""

import sys
from dataclasses import replace

import numpy as np
import pulp
import pytest

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError, MissingExtraError
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.routers.baselines import LeastTokens
from brtheory.simulation.replay import replay
from solvers.answers import Answer, claim_of, rounded_bound
from solvers.budget import Budget, Options, Progress
from solvers.certify import CertificationError
from solvers.facade import solve, solve_problem
from solvers.incumbents import best_known
from solvers.milp.engines import cbc_program
from solvers.model import canonical
from solvers.model_build import fewest_steps, schedule_model
from solvers.problem import FixedAdmissions, FreeAdmissions, TickProblem
from solvers.result import Limit, Stop
from solvers.tick_model import tick_model
from tests.exact.problems import fifo_steps, tiny_instance, tiny_tick

BACKENDS = ("milp", "cpsat")


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_every_peak_hold_at_an_optimum(seed: int) -> None:
    """Variable bounds of case A, and the merged sums, against the loads of the optimum."""
    instance = tiny_instance(seed, kv=seed % 2 == 1)
    problem = FixedAdmissions(instance, "time", fifo_steps(instance))
    best = solve_problem(problem, method="dp")
    replica = {p.id: p.replica for p in best.assignment}
    model, total = schedule_model(problem), 0
    for block in model.blocks:
        loads = [0] * model.replicas
        for (i, _), weight in block.terms:
            loads[replica[model.requests[i].id]] += weight
        assert block.lower <= max(loads) <= block.upper
        total += block.length * max(loads) + block.growth
    assert total == best.sum_peak


def test_only_segments_with_one_slope_are_merged() -> None:
    """Full (two of two slots busy): one block of 3 steps; a pair on two slots of one: per step."""
    pair = (OfflineRequest(0, 0, 9, 3), OfflineRequest(1, 0, 2, 3))
    full = Instance(2, 1, None, 1e-7, 0.01, pair)
    loose = Instance(2, 2, None, 1e-7, 0.01, pair)
    assert [b.length for b in schedule_model(FixedAdmissions(full, "time")).blocks] == [3]
    assert [b.length for b in schedule_model(FixedAdmissions(loose, "time")).blocks] == [1, 1, 1]


def test_slot_rows_are_the_maximal_cliques() -> None:
    """Three requests overlap at step 2 on two replicas of two slots; nowhere more."""
    requests = tuple(OfflineRequest(i, i, 5, 4) for i in range(3))
    model = schedule_model(FixedAdmissions(Instance(2, 2, None, 1e-7, 0.01, requests), "time"))
    assert model.slot_rows == (((0, 0), (1, 1), (2, 2)),)


def test_rows_of_a_tick_that_differ_by_a_constant_share_a_peak() -> None:
    """Columns (3, 8), (5, 10), (9, 9): the second exceeds the first by 2 everywhere."""
    state = TickState([[3, 5, 9], [8, 10, 9]], [1, 1], [Request(0, 4)])
    rows = tick_model(TickProblem(state, "imbalance")).rows
    assert [(row.loads, row.copies, row.offset) for row in rows] == [((3, 8), 2, 2), ((9, 9), 1, 0)]


@pytest.mark.parametrize("seed", range(25))
def test_the_fewest_steps_are_a_bound_and_the_end_holds_an_optimum(seed: int) -> None:
    """Case B, both objectives: no brute-force optimum has fewer steps or ends later."""
    instance = tiny_instance(
        seed, requests=3, kv=seed % 2 == 1, latest_ready=2, longest_output=3, replicas=2, slots=1
    )
    for objective in ("imbalance", "time"):
        problem = FreeAdmissions(instance, objective)
        best = solve_problem(problem, method="brute")
        outputs = {r.id: r.output_tokens for r in instance.requests}
        assert fewest_steps(problem) <= best.steps
        assert max(p.step + outputs[p.id] for p in best.assignment) <= problem.end
        model = schedule_model(problem, incumbent=best.incumbent)
        starts = {model.requests[i].id: steps for i, steps in enumerate(model.starts)}
        if objective == "time":
            assert all(p.step in starts[p.id] for p in best.assignment)


def test_renumbering_replicas_changes_no_figure() -> None:
    """Canonical numbers follow first use."""
    instance = tiny_instance(11, replicas=3, slots=3)
    assignment = replay(instance, LeastTokens())
    number = canonical(assignment, (r.id for r in instance.requests))
    renumbered = tuple(Placement(p.id, number[p.id], p.step) for p in assignment)
    assert evaluate(instance, renumbered) == evaluate(instance, assignment)
    assert number[instance.requests[0].id] == 0


@pytest.mark.parametrize("seed", range(20))
def test_routers_give_feasible_starts(seed: int) -> None:
    """At least the optimum, in every case; work conservation and hold are respected."""
    instance = tiny_instance(seed, kv=seed % 2 == 1, requests=4, latest_ready=3, longest_output=3)
    problems = (
        FixedAdmissions(instance, "time", fifo_steps(instance)),
        FreeAdmissions(instance, "time", hold=6),
        FreeAdmissions(instance, "time", work_conserving=True),
    )
    for problem in problems:
        known = best_known(problem, None)
        if known is not None:
            assert known[1] >= solve_problem(problem, method="cpsat").incumbent


def test_a_better_hint_wins_and_one_that_breaks_a_rule_is_passed_over() -> None:
    """A hint at the optimum is the incumbent even without any time; an invalid one is not used."""
    instance = tiny_instance(5, replicas=2, slots=2)
    problem = FreeAdmissions(instance, "time")
    best = solve_problem(problem, method="cpsat")
    assert best_known(problem, best.assignment)[1] == best.incumbent
    broken = tuple(replace(p, replica=9) for p in best.assignment)
    assert best_known(problem, broken)[1] >= best.incumbent


def hard_problem() -> FixedAdmissions:
    """Nobody proves it within a second."""
    instance = random_instance(
        np.random.default_rng(1),
        requests=70,
        replicas=4,
        slots=5,
        longest_prompt=90,
        longest_output=30,
        latest_ready=60,
    )
    return FixedAdmissions(instance, "imbalance", fifo_steps(instance))


@pytest.mark.parametrize("method", BACKENDS)
def test_a_time_limit_leaves_a_judged_bracket_and_progress(method: str) -> None:
    """One second: stop, limit, incumbent and bound are told apart."""
    seen: list[Progress] = []
    budget = Budget(1.0, on_progress=seen.append)
    result = solve_problem(hard_problem(), method=method, budget=budget)
    assert (result.stop, result.limit, result.status) == (Stop.LIMIT, Limit.TIME, "feasible")
    assert result.bound < result.incumbent
    assert 0 < result.gap < 1
    assert seen
    assert result.incumbent <= min(p.incumbent for p in seen if p.incumbent is not None)


def test_the_number_of_threads_may_change_within_a_process() -> None:
    """HiGHS' scheduler is global: the second count needs a new one, not a wrong answer."""
    instance = tiny_instance(8, replicas=2, slots=3)
    problem = FixedAdmissions(instance, "time", fifo_steps(instance))
    results = [
        solve_problem(problem, method="milp", options=Options(workers=workers))
        for workers in (1, 2, 1)
    ]
    assert len({r.incumbent for r in results}) == 1
    assert all(r.optimal for r in results)


def installed(backend: str) -> bool:
    """Whether CBC (a program) or SCIP (PySCIPOpt) is there."""
    return cbc_program() is not None if backend == "cbc" else pulp.SCIP_PY().available()


@pytest.mark.parametrize("backend", ["cbc", "scip"])
@pytest.mark.parametrize("seed", range(6))
def test_unrelated_codes_agree_on_all_cases(backend: str, seed: int) -> None:
    """CBC and SCIP against brute force, where they are installed."""
    if not installed(backend):
        pytest.skip(f"{backend} is not installed: nothing was compared")
    instance = tiny_instance(seed, requests=4, latest_ready=2, longest_output=3)
    options = Options(milp_backend=backend, seed=seed)
    for problem in (
        FixedAdmissions(instance, "imbalance", fifo_steps(instance)),
        FreeAdmissions(instance, "time"),
        TickProblem(tiny_tick(seed, horizon=1, kv=seed % 2 == 1), "imbalance"),
    ):
        found = solve_problem(problem, method="milp", options=options)
        assert found.optimal
        assert found.incumbent == solve_problem(problem, method="brute").incumbent


@pytest.mark.parametrize("backend", ["cbc", "scip"])
def test_a_backend_that_is_missing_is_named_with_how_to_get_it(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine without it."""
    monkeypatch.setattr("solvers.milp.engines.cbc_program", lambda: None)
    monkeypatch.setattr(pulp.SCIP_PY, "available", lambda _self: False)
    problem = FixedAdmissions(tiny_instance(9), "time", fifo_steps(tiny_instance(9)))
    with pytest.raises(InputError, match="pip install"):
        solve_problem(problem, method="milp", options=Options(milp_backend=backend))


def test_scip_obeys_the_work_limit_and_reports_its_bound() -> None:
    """One node of a hard problem: stopped by work, a judged bracket remains."""
    if not installed("scip"):
        pytest.skip("scip is not installed: nothing was compared")
    found = solve_problem(
        hard_problem(),
        method="milp",
        budget=Budget(work_limit=0.001),
        options=Options(milp_backend="scip"),
    )
    assert (found.stop, found.limit) == (Stop.LIMIT, Limit.WORK)
    assert 0 < found.bound < found.incumbent


def test_an_unknown_backend_is_refused() -> None:
    """One line."""
    problem = FixedAdmissions(tiny_instance(1), "time", fifo_steps(tiny_instance(1)))
    with pytest.raises(InputError, match="highs, cbc or scip"):
        solve_problem(problem, method="milp", options=Options(milp_backend="gurobi"))


@pytest.mark.parametrize(("method", "package"), [("milp", "pulp"), ("cpsat", "ortools")])
def test_a_missing_backend_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    """As on a machine without the package."""
    for name in list(sys.modules):
        if name.startswith((f"solvers.{method}", package)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    problem = FixedAdmissions(tiny_instance(1), "time", fifo_steps(tiny_instance(1)))
    with pytest.raises(MissingExtraError, match=r"brtheory\[solvers\]"):
        solve_problem(problem, method=method)


@pytest.mark.parametrize(
    ("bound", "least"), [(7.0, 7), (7.0000000001, 7), (7.2, 8), (-3.5, -3), (float("-inf"), None)]
)
def test_a_floating_bound_is_rounded_up_but_not_over_its_error(bound: float, least: object) -> None:
    """1e-9 relative is error, 0.2 is proof."""
    assert rounded_bound(bound) == least


def test_a_backend_that_contradicts_the_judge_is_refused() -> None:
    """An objective below the judge's, or infeasibility against a known assignment."""
    instance = tiny_instance(5, replicas=2, slots=2)
    problem = FreeAdmissions(instance, "time")
    best = solve_problem(problem, method="cpsat")
    known = (best.assignment, best.incumbent)
    with pytest.raises(CertificationError, match="the judge finds"):
        claim_of(problem, Answer(best.assignment, best.incumbent - 1, 0, Stop.EXHAUSTED), known)
    with pytest.raises(CertificationError, match="infeasible"):
        claim_of(problem, Answer(None, None, None, Stop.INFEASIBLE), known)


@pytest.mark.parametrize("method", ["brute", "dp", "milp", "cpsat"])
def test_nothing_to_place_is_an_optimum_of_no_steps(method: str) -> None:
    """An instance without requests."""
    result = solve_problem(
        FixedAdmissions(Instance(2, 1, None, 1e-7, 0.01, ()), "time"), method=method
    )
    assert (result.status, result.steps, result.assignment) == ("optimal", 0, ())


@pytest.mark.parametrize(
    ("method", "case", "message"),
    [("milp", "A", "terms"), ("cpsat", "B", "terms"), ("brute", "A", "output tokens")],
)
def test_what_is_far_too_long_is_refused_before_it_is_built(
    method: str, case: str, message: str
) -> None:
    """Two requests of a billion tokens: no step-indexed method may try; the program may."""
    requests = tuple(OfflineRequest(i, i, 5, 10**9) for i in range(2))
    instance = Instance(2, 2, None, 1e-7, 0.01, requests)
    with pytest.raises(InputError, match=message):
        solve(instance, method=method, case=case)
    assert solve(instance, method="dp").optimal


def test_brute_force_refuses_more_requests_than_it_has_levels() -> None:
    """201 of them."""
    requests = tuple(OfflineRequest(i, i, 5, 1) for i in range(201))
    with pytest.raises(InputError, match="at most 200 requests"):
        solve(Instance(2, 2, None, 1e-7, 0.01, requests), method="brute")
