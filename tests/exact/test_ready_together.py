"""Free admissions without a limit on holding: ready steps do not matter, idle steps can go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.formulations import Shape
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.budget import Budget, Options
from solvers.certify import certify
from solvers.facade import solve_problem
from solvers.incumbents import best_known
from solvers.model_build import fewest_steps
from solvers.problem import FreeAdmissions
from solvers.ready_together import as_early_as_ready, ready_together, without_idle_steps
from tests.exact.problems import tiny_instance


def figures(instance: Instance, assignment: tuple[Placement, ...]) -> tuple[int, ...]:
    """Everything an objective of case B is made of, by the judge."""
    found = evaluate(instance, assignment)
    return found.steps, found.sum_peak, found.sum_load, found.imbalance_total


def scattered(seed: int) -> tuple[FreeAdmissions, tuple[Placement, ...]]:
    """A problem and an assignment with idle steps within it."""
    instance = tiny_instance(seed, slots=6, latest_ready=4)
    rng = np.random.default_rng(seed)
    return FreeAdmissions(instance, "time"), tuple(
        Placement(r.id, int(rng.integers(instance.replicas)), r.ready + int(rng.integers(25)))
        for r in instance.requests
    )


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    objective=st.sampled_from(["time", "imbalance"]),
    kv=st.booleans(),
)
def test_no_optimum_depends_on_ready_steps(seed: int, objective: str, *, kv: bool) -> None:
    """Brute force, which keeps the ready steps, with and without KV capacity."""
    problem = FreeAdmissions(
        tiny_instance(seed, requests=3, kv=kv, latest_ready=3, longest_output=3), objective
    )
    together = ready_together(problem)
    assert len({r.ready for r in together.instance.requests}) == 1
    optimum = solve_problem(problem, method="brute").incumbent
    assert solve_problem(together, method="brute").incumbent == optimum


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_without_idle_steps_nothing_else_changes(seed: int) -> None:
    """Every figure of the judge, and the schedule is one piece from the last ready step on."""
    problem, assignment = scattered(seed)
    dense = without_idle_steps(problem, assignment)
    together = ready_together(problem).instance
    assert figures(together, dense) == figures(problem.instance, assignment)
    first = min(p.step for p in dense)
    outputs = {r.id: r.output_tokens for r in together.requests}
    assert first == together.requests[0].ready
    assert max(p.step + outputs[p.id] for p in dense) - first == evaluate(together, dense).steps


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_moved_early_the_first_request_that_binds_starts_when_ready(seed: int) -> None:
    problem, assignment = scattered(seed)
    early = as_early_as_ready(problem, without_idle_steps(problem, assignment))
    assert figures(problem.instance, early) == figures(problem.instance, assignment)
    ready = {r.id: r.ready for r in problem.instance.requests}
    assert min(p.step - ready[p.id] for p in early) == 0


@pytest.mark.parametrize("rule", [{"hold": 3}, {"work_conserving": True}])
def test_under_a_rule_on_waiting_nothing_is_changed(rule: dict) -> None:
    """Two requests, one ready late: to wait for it is what a rule forbids."""
    requests = (OfflineRequest(0, 0, 5, 1), OfflineRequest(1, 9, 5, 1))
    problem = FreeAdmissions(Instance(2, 1, None, 1.0, 1.0, requests), "time", **rule)
    assert ready_together(problem) is problem
    # p = q = 1. Free: both in one step, 1 + 5. Under the rule: a step each, 2 + 10.
    assert solve_problem(problem, method="cpsat").incumbent == 12
    assert solve_problem(FreeAdmissions(problem.instance, "time"), method="cpsat").incumbent == 6


@pytest.mark.parametrize("method", ["dp", "milp", "cpsat"])
def test_a_hint_with_idle_steps_is_used(method: str) -> None:
    """The optimum of brute force, hinted, is the incumbent without any time."""
    instance = tiny_instance(8, requests=4, latest_ready=4, longest_output=3)
    problem = FreeAdmissions(instance, "time")
    best = solve_problem(problem, method="brute")
    stopped = Budget(should_stop=lambda: True)
    result = solve_problem(
        problem, method=method, options=Options(hint=best.assignment), budget=stopped
    )
    assert result.incumbent == best.incumbent


def test_requests_that_share_a_slot_in_turn_bound_the_steps() -> None:
    """Seven requests on 2 x 3 slots: some two run one after the other, at least 11 + 12 steps."""
    outputs = (13, 12, 15, 11, 14, 15, 15)
    requests = tuple(OfflineRequest(i, 0, 1, o) for i, o in enumerate(outputs))
    problem = FreeAdmissions(Instance(2, 3, None, 0.001, 1.0, requests), "time")
    assert fewest_steps(problem) == 23
    assignment, _ = best_known(problem, None)
    assert evaluate(problem.instance, assignment).steps == 23


@pytest.mark.parametrize("method", ["milp", "cpsat"])
def test_twelve_free_requests_on_three_replicas_are_proved(method: str) -> None:
    """Some 3 and 7 s; ``python -m benchmarks.reach`` has more of them."""
    problem = Shape("B", 3, 2).problem(12, 2)
    assert certify(problem, solve_problem(problem, method=method)).optimal
