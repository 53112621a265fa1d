"""Brute force against plain enumeration through the judge: nothing shared but the judge."""

import itertools

import pytest

from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.facade import solve, solve_problem, solve_tick
from solvers.problem import FreeAdmissions
from solvers.rules import rule_violations
from solvers.tick import evaluate_tick
from tests.exact.problems import fifo_steps, tiny_instance, tiny_tick


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("objective", ["imbalance", "time"])
def test_case_a_is_the_least_over_every_assignment_of_replicas(seed: int, objective: str) -> None:
    """G^n assignments, each judged, without any symmetry or pruning."""
    instance = tiny_instance(seed, requests=4, kv=seed % 2 == 1)
    steps = fifo_steps(instance)
    result = solve(instance, method="brute", case="A", objective=objective, admissions=steps)
    values = [
        _value(instance, placements, objective)
        for replicas in itertools.product(range(instance.replicas), repeat=len(steps))
        if evaluate(
            instance,
            placements := tuple(
                Placement(i, g, k) for (i, k), g in zip(steps.items(), replicas, strict=True)
            ),
        ).feasible
    ]
    assert result.incumbent == min(values)
    assert result.optimal


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", ["free", "hold", "work-conserving"])
@pytest.mark.parametrize("objective", ["imbalance", "time"])
def test_case_b_is_the_least_over_a_window_longer_than_its_own(
    seed: int, rule: str, objective: str
) -> None:
    """The enumeration goes two steps beyond the end the search allows itself."""
    instance = tiny_instance(
        seed, requests=3, kv=seed % 3 == 0, latest_ready=2, longest_output=3, replicas=2, slots=1
    )
    problem = FreeAdmissions(
        instance, objective, 4 if rule == "hold" else None, rule == "work-conserving"
    )
    choices = [
        [
            Placement(r.id, g, k)
            for k in range(r.ready, problem.end + 3 - r.output_tokens)
            for g in range(instance.replicas)
        ]
        for r in instance.requests
    ]
    values = [
        _value(instance, placements, objective)
        for placements in itertools.product(*choices)
        if not any(rule_violations(problem, placements)) and evaluate(instance, placements).feasible
    ]
    result = solve_problem(problem, method="brute")
    assert result.incumbent == min(values)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("objective", ["imbalance", "time"])
def test_case_c_admits_the_most_and_then_costs_the_least(seed: int, objective: str) -> None:
    """(G + 1)^pool choices, each through the tick judge."""
    state = tiny_tick(seed, horizon=seed % 3, kv=seed % 2 == 1)
    options = [None, *range(len(state.loads))]
    keys = []
    for choice in itertools.product(options, repeat=len(state.pool)):
        admissions = tuple(
            Placement(r.id, g, 0) for r, g in zip(state.pool, choice, strict=True) if g is not None
        )
        found = evaluate_tick(state, admissions)
        if not found.violations:
            value = found.sum_peak
            if objective == "imbalance":
                value = len(state.loads) * found.sum_peak - found.sum_load
            keys.append((-len(admissions), value))
    result = solve_tick(state, method="brute", objective=objective)
    assert (-len(result.assignment), result.incumbent) == min(keys)


def test_holding_back_buys_imbalance_with_time() -> None:
    """A lone 5 beside nothing costs 5 of imbalance; held one step it meets its twin.

    Ready 0: prompt 5, ready 1: prompt 5, one token each, G = 2. At once: I = 5 + 5 in two steps.
    Held: both at step 1, I = 0 in one step: time falls too, as b0 > 0 buys the step back.
    """
    instance = Instance(
        2, 1, None, 1e-7, 0.01, (OfflineRequest(0, 0, 5, 1), OfflineRequest(1, 1, 5, 1))
    )
    at_once = solve(instance, method="brute", case="A", objective="imbalance")
    held = solve(instance, method="brute", case="B", objective="imbalance")
    assert (at_once.incumbent, at_once.steps) == (10, 2)
    assert (held.incumbent, held.steps) == (0, 1)


def _value(instance: Instance, placements: tuple[Placement, ...], objective: str) -> int:
    found = evaluate(instance, placements)
    if objective == "imbalance":
        return found.imbalance_total
    # b0/a0 = 0.01/1e-7 = 100000 : 1
    return 100_000 * found.steps + found.sum_peak
