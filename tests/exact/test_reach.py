"""The benchmark of what each method proves: its problems, rows and table."""

from itertools import pairwise

import pytest

from benchmarks.formulations import Shape
from benchmarks.reach import GOALS, Goal, Tick, measure, table
from solvers.facade import check_arguments


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.shape}, {goal.requests}")
def test_every_goal_asks_methods_that_take_its_case(goal: Goal) -> None:
    """And names a problem that can be made, here at most 64 requests: another for each seed."""
    requests = min(goal.requests, 64)
    problem = goal.shape.problem(requests, 0)
    for method in goal.methods:
        check_arguments(method, problem.case)
    size = len(problem.state.pool if problem.case == "C" else problem.instance.requests)
    assert size == requests
    assert goal.shape.problem(requests, 1) != problem


def test_a_ticks_loads_grow_by_whom_it_holds_and_fall_when_they_leave() -> None:
    """48 active at h = 0, so from one row to the next a load rises by at most 48."""
    state = Tick(4, 80).problem(6, 0).state
    rises = [later - now for loads in state.loads for now, later in pairwise(loads)]
    assert len(rises) == 4 * 80
    assert min(rises) < 0 < max(rises) <= 48
    assert sum(state.free_slots) == 4


def test_methods_that_prove_the_same_problem_agree() -> None:
    goals = [Goal(Shape("A", 2, 3), 7, ("dp", "milp", "cpsat")), Goal(Tick(3, 1), 5, ("milp",))]
    rows = list(measure(goals, seeds=2))
    assert [row["method"] for row in rows] == ["dp", "milp", "cpsat", "milp"]
    assert all(run["proved"] for row in rows for run in row["runs"])
    optima = [[run["incumbent"] for run in row["runs"]] for row in rows[:3]]
    assert optima[0] == optima[1] == optima[2]


def test_no_time_proves_nothing() -> None:
    goal = Goal(Shape("B", 2, 3), 10, ("cpsat",), cpu_limit_s=0.0)
    (row,) = measure([goal], seeds=1)
    assert row["runs"][0]["proved"] is False


def test_the_table_counts_what_was_proved() -> None:
    run = {"proved": True, "cpu_s": 1.25, "incumbent": 5, "bound": 5}
    runs = [run, run | {"proved": False, "cpu_s": 60.01, "bound": 4}]
    row = {"problem": "A, 2 x 8", "requests": 2000, "method": "dp", "cpu_limit_s": 60.0}
    assert "| A, 2 x 8 | 2,000 | dp | 1 of 2 | 60.0 | 60 |" in table([row | {"runs": runs}])
