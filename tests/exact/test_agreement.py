"""Four independent methods, one optimum: on 620 random tiny problems of cases A, B and C.

Brute force is the root of trust; every method runs on the cases it declares. Both objectives, with
and without KV capacity, feasible and infeasible alike. Nothing is compared but judged figures.
"""

import pytest

from brtheory.errors import InfeasibleError
from solvers.budget import Options
from solvers.certify import certify
from solvers.facade import solve_problem
from solvers.problem import FixedAdmissions, FreeAdmissions, Problem, TickProblem
from tests.exact.problems import fifo_steps, tiny_instance, tiny_tick

OBJECTIVES = ("imbalance", "time")


def case_a(seed: int) -> Problem:
    """Admissions of a FIFO router; every fifth starts all requests when ready, crammed or not."""
    objective, kv = OBJECTIVES[seed % 2], seed // 2 % 2 == 1
    if seed % 5 == 0:
        crammed = tiny_instance(seed, kv=kv, slots=6, latest_ready=3)
        return FixedAdmissions(crammed, objective)
    instance = tiny_instance(seed, kv=kv)
    return FixedAdmissions(instance, objective, fifo_steps(instance))


def case_b(seed: int) -> Problem:
    """Free, held for at most 0 .. 3 steps, work-conserving, or both."""
    instance = tiny_instance(
        seed,
        requests=3 + seed % 2,
        kv=seed // 2 % 2 == 1,
        latest_ready=2,
        longest_output=3,
        replicas=1 + seed % 3 % 2,
        slots=1 + seed % 2,
    )
    rules = (
        {},
        {"hold": seed % 4},
        {"work_conserving": True},
        {"hold": 2, "work_conserving": True},
    )
    return FreeAdmissions(instance, OBJECTIVES[seed // 4 % 2], **rules[seed % 4])


def case_c(seed: int) -> Problem:
    """One row or several, in which replicas cross."""
    state = tiny_tick(seed, horizon=seed % 4, kv=seed // 2 % 2 == 1)
    return TickProblem(state, OBJECTIVES[seed % 2])


def outcome(problem: Problem, method: str, **options) -> object:
    """Admissions and judged objective of a proved optimum, or that there is none."""
    try:
        result = solve_problem(problem, method=method, options=Options(**options))
    except InfeasibleError:
        return "infeasible"
    assert certify(problem, result).optimal
    return len(result.assignment), result.incumbent


@pytest.mark.parametrize("seed", range(320))
def test_case_a_has_one_optimum(seed: int) -> None:
    """Brute force, dynamic program, MILP and CP-SAT."""
    problem = case_a(seed)
    expected = outcome(problem, "brute")
    assert [outcome(problem, method) for method in ("dp", "milp", "cpsat")] == [expected] * 3


@pytest.mark.parametrize("seed", range(160))
def test_case_b_has_one_optimum(seed: int) -> None:
    """Brute force, MILP, CP-SAT and, without KV capacity, the dynamic program."""
    problem = case_b(seed)
    expected = outcome(problem, "brute")
    methods = ["milp", "cpsat"] + ["dp"] * (problem.instance.kv_capacity is None)
    assert [outcome(problem, method) for method in methods] == [expected] * len(methods)


@pytest.mark.parametrize("seed", range(140))
def test_case_c_has_one_optimum(seed: int) -> None:
    """Brute force, MILP and CP-SAT; the number of admissions first."""
    problem = case_c(seed)
    expected = outcome(problem, "brute")
    assert [outcome(problem, method) for method in ("milp", "cpsat")] == [expected] * 2


def test_the_random_problems_contain_infeasible_and_binding_ones() -> None:
    """Otherwise agreement would say little: some have no solution, and KV changes some optima."""
    infeasible = sum(outcome(case_a(seed), "dp") == "infeasible" for seed in range(0, 320, 5))
    held = sum(outcome(case_b(seed), "brute") == "infeasible" for seed in range(1, 160, 4))
    assert infeasible > 0
    assert held > 0


@pytest.mark.parametrize("method", ["milp", "cpsat"])
@pytest.mark.parametrize("make", [case_a, case_b])
@pytest.mark.parametrize("seed", range(2, 26))
def test_symmetry_breaking_changes_no_optimum(method: str, make, seed: int) -> None:
    """Forbidding renumbered copies leaves one copy of each optimum."""
    problem = make(seed)
    assert outcome(problem, method, symmetry=True) == outcome(problem, method, symmetry=False)


@pytest.mark.parametrize("method", ["milp", "cpsat"])
@pytest.mark.parametrize("make", [case_a, case_b])
@pytest.mark.parametrize("seed", range(30, 46))
def test_the_textbook_model_has_the_same_optimum(method: str, make, seed: int) -> None:
    """What is derived, cut and merged in the tight model takes nothing away."""
    problem = make(seed)
    assert outcome(problem, method, textbook=True) == outcome(problem, method)
