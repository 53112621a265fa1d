"""The dynamic program of case B beyond agreement: limits, what it refuses, the size it reaches."""

from dataclasses import replace

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance
from solvers.budget import Budget
from solvers.certify import certify
from solvers.facade import solve, solve_problem
from solvers.free_search import LOOK_EVERY, STATE_BYTES
from solvers.problem import FreeAdmissions
from solvers.result import Limit, Stop
from tests.exact.problems import tiny_instance


def crowded(requests: int, *, seed: int = 0) -> Instance:
    """Requests that ask for about all slots of three replicas."""
    return random_instance(
        np.random.default_rng([seed, requests]),
        requests=requests,
        replicas=3,
        slots=2,
        longest_output=16,
        longest_prompt=400,
        latest_ready=max(1, requests * 16 // 12),
    )


def optimum(instance: Instance, **rules) -> int:
    """The proved optimum in barrier time."""
    problem = FreeAdmissions(instance, "time", **rules)
    result = certify(problem, solve_problem(problem, method="dp"))
    assert result.optimal
    return result.incumbent


@pytest.mark.parametrize("seed", [0, 2])
def test_sixteen_work_conserving_requests_on_three_replicas_are_proved(seed: int) -> None:
    """Seed 1 is proved too, in some 7 s."""
    assert optimum(crowded(16, seed=seed), work_conserving=True) > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_rule_less_never_costs_more(seed: int) -> None:
    """Free <= held at most two steps <= not held at all, each wherever it is feasible."""
    instance = tiny_instance(seed, requests=4, latest_ready=3, longest_output=4, slots=4)
    free, held, strict = optimum(instance), optimum(instance, hold=2), optimum(instance, hold=0)
    assert free <= held <= strict


@pytest.mark.parametrize("seed", range(10))
def test_the_order_in_which_requests_are_listed_changes_nothing(seed: int) -> None:
    instance = crowded(9, seed=seed)
    listed = replace(instance, requests=instance.requests[::-1])
    assert optimum(listed, work_conserving=True) == optimum(instance, work_conserving=True)


@pytest.mark.parametrize("looks", [1, 2, 5])
def test_a_search_cut_short_gives_an_interval_that_holds_the_optimum(looks: int) -> None:
    """Seven requests held freely take more than five looks; CP-SAT knows their optimum."""
    instance = random_instance(
        np.random.default_rng(1), requests=7, replicas=2, slots=3, longest_output=9, latest_ready=8
    )
    answers = iter([False] * looks + [True] * 10**6)
    budget = Budget(should_stop=lambda: next(answers))
    result = solve(instance, method="dp", case="B", budget=budget)
    assert result.stop is Stop.INTERRUPTED
    assert result.bound < result.incumbent
    best = solve(instance, method="cpsat", case="B")
    assert result.bound <= best.incumbent <= result.incumbent


def test_memory_is_limited() -> None:
    instance = crowded(28)
    budget = Budget(memory_limit_bytes=2 * LOOK_EVERY * STATE_BYTES)
    result = solve(instance, method="dp", case="B", work_conserving=True, budget=budget)
    assert (result.stop, result.limit) == (Stop.LIMIT, Limit.MEMORY)


def test_kv_capacity_is_refused_not_ignored() -> None:
    with pytest.raises(InputError, match="kv_capacity: expected none"):
        solve(tiny_instance(0, kv=True), method="dp", case="B")
