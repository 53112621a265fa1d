"""What is known before any search: below every optimum, and in every result that is cut short."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.routers.baselines import LeastTokens, PoolFifo
from brtheory.simulation.replay import replay
from solvers.budget import Budget
from solvers.facade import solve_problem
from solvers.first_bound import first_bound
from solvers.incumbents import obeying
from solvers.model_build import fewest_steps
from solvers.problem import FixedAdmissions, FreeAdmissions, TickProblem
from solvers.result import Stop
from tests.exact.problems import fifo_steps, tiny_instance


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(["time", "imbalance"]))
def test_no_optimum_lies_below_it(seed: int, objective: str) -> None:
    """Tiny instances: brute force knows the optimum."""
    instance = tiny_instance(seed, requests=4, latest_ready=3, longest_output=3)
    for problem in (
        FixedAdmissions(instance, objective, fifo_steps(instance)),
        FreeAdmissions(instance, objective),
        FreeAdmissions(instance, objective, None, True),
    ):
        optimum = solve_problem(problem, method="brute").incumbent
        assert 0 <= first_bound(problem) <= optimum


def test_it_is_the_sum_of_both_parts() -> None:
    """G = 2, b0 = 3, a0 = 1, so p:q = 3:1; prompts 5, 4, 4 with 2, 1, 1 outputs, all ready at 0.

    Case A: steps 0 and 1. Step 0: ceil(13/2) = 7, largest 5, two of three share 4 + 4 = 8; step 1:
    6 alone. 3*2 + 8 + 6 = 20. Case B: at least 2 steps (the longest output; 4 outputs on 4 places
    need 1), work 5 + 6 + 4 + 4 = 19, so 3*2 + 10 = 16.
    """
    sizes = ((5, 2), (4, 1), (4, 1))
    requests = tuple(OfflineRequest(i, 0, p, o) for i, (p, o) in enumerate(sizes))
    instance = Instance(2, 2, None, 1.0, 3.0, requests)
    assert first_bound(FixedAdmissions(instance, "time")) == 20
    assert first_bound(FreeAdmissions(instance, "time")) == 16


@pytest.mark.parametrize("case", [FixedAdmissions, FreeAdmissions])
@pytest.mark.parametrize("method", ["brute", "dp", "milp", "cpsat"])
def test_a_search_stopped_at_once_knows_it(method: str, case: type[FixedAdmissions]) -> None:
    """Whatever the method: told first, and no more than the incumbent where there is one."""
    instance = random_instance(np.random.default_rng(3), requests=12, replicas=3, slots=20)
    problem, told = case(instance, "time"), []
    stopped = Budget(should_stop=lambda: True, on_progress=told.append)
    result = solve_problem(problem, method=method, budget=stopped)
    assert result.stop is Stop.INTERRUPTED or result.optimal
    assert told[0].bound == first_bound(problem) <= result.bound
    assert result.incumbent is None or result.bound <= result.incumbent


def test_a_tick_has_none() -> None:
    state = TickState(loads=[[1], [2]], free_slots=[1, 1], pool=[Request(0, 5)])
    assert first_bound(TickProblem(state, "imbalance")) is None


@pytest.mark.parametrize("seed", range(40))
def test_no_schedule_that_never_waits_beside_a_free_slot_has_fewer_steps(seed: int) -> None:
    """What routers do, where it obeys the rule; requests far apart, so that their number binds."""
    instance = tiny_instance(seed, requests=5, kv=seed % 2 == 1, latest_ready=25)
    problem = FreeAdmissions(instance, "time", work_conserving=True)
    done = [replay(instance, router) for router in (PoolFifo(), LeastTokens())]
    found = [assignment for assignment, _ in obeying(problem, done)]
    assert found
    assert all(evaluate(instance, each).steps >= fewest_steps(problem) for each in found)


def test_steps_with_a_request_are_counted_where_nobody_waits() -> None:
    """Outputs 3 at step 0, 2 at 2 and 2 at 9: steps 0 .. 3 and 9 .. 10; held together only 3."""
    rows = enumerate(((0, 3), (2, 2), (9, 2)))
    requests = tuple(OfflineRequest(i, ready, 1, output) for i, (ready, output) in rows)
    instance = Instance(2, 2, None, 1.0, 1.0, requests)
    assert fewest_steps(FreeAdmissions(instance, "time", work_conserving=True)) == 6
    assert fewest_steps(FreeAdmissions(instance, "time")) == 3
