"""A result that was tampered with, in any field, is refused; an honest one passes unchanged."""

from dataclasses import fields, replace
from fractions import Fraction

import pytest

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InfeasibleError, InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.certify import CertificationError, certify, judged
from solvers.facade import METHODS, solve, solve_problem
from solvers.objective import Cost, time_weights
from solvers.problem import FixedAdmissions, FreeAdmissions, TickProblem
from solvers.result import Claim, Limit, SolveResult, Stop

INSTANCE = Instance(
    2,
    2,
    40,
    1e-7,
    0.01,
    (OfflineRequest(0, 0, 12, 5), OfflineRequest(1, 0, 3, 4), OfflineRequest(2, 1, 7, 2)),
)
TICK = TickState(loads=[[5], [9]], free_slots=[1, 1], pool=[Request(i, 3 + i) for i in range(3)])
PROBLEMS = {
    "A": FixedAdmissions(INSTANCE, "time"),
    "B": FreeAdmissions(INSTANCE, "imbalance", hold=2),
    "C": TickProblem(TICK, "imbalance"),
}


@pytest.fixture(params=PROBLEMS, scope="module")
def solved(request: pytest.FixtureRequest) -> tuple[object, SolveResult]:
    """Each case, solved."""
    problem = PROBLEMS[request.param]
    return problem, solve_problem(problem, method="brute")


def test_an_honest_result_is_returned_unchanged(solved) -> None:
    """Certifying is the identity on honest results."""
    problem, result = solved
    assert certify(problem, result) is result


TAMPERED = {
    "case": lambda r: "B" if r.case != "B" else "A",
    "objective": lambda r: "imbalance" if r.objective == "time" else "time",
    "cost": lambda r: Cost(r.cost.step, r.cost.peak + 1, r.cost.load),
    "stop": lambda _r: Stop.LIMIT,
    "limit": lambda _r: Limit.TIME,
    "incumbent": lambda r: r.incumbent - 1,
    "bound": lambda r: r.bound - 1,
    "steps": lambda r: r.steps + 1,
    "sum_peak": lambda r: r.sum_peak - 1,
    "sum_load": lambda r: r.sum_load + 1,
    "time_exact_s": lambda r: (r.time_exact_s or 0) + Fraction(1, 10**9),
    "assignment": lambda r: r.assignment[:-1],
}


def test_every_checked_field_has_its_tampering() -> None:
    """Only the method's name and the wall time cannot be recomputed."""
    names = {field.name for field in fields(SolveResult)}
    assert names - TAMPERED.keys() == {"method", "wall_s"}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_field_is_refused(solved, name: str) -> None:
    """One field at a time."""
    problem, result = solved
    forged = replace(result, **{name: TAMPERED[name](result)})
    with pytest.raises(CertificationError):
        certify(problem, forged)


@pytest.mark.parametrize(
    ("placements", "message"),
    [
        ([(0, 0, 0), (1, 0, 0), (2, 0, 1)], "3 active requests"),
        ([(0, 0, 0), (1, 1, 0), (2, 1, 2)], "given 1"),
        ([(0, 0, 0), (1, 5, 0), (2, 1, 1)], "replica 5"),
        ([(0, 0, 0), (1, 1, 0)], "never admitted"),
        ([(0, 0, 0), (1, 1, 0), (2, 1, 0)], "ready at step 1"),
    ],
)
def test_an_assignment_that_breaks_a_limit_is_refused(placements, message: str) -> None:
    """The judge names what is broken."""
    claim = Claim(tuple(Placement(*p) for p in placements), 1, None, Stop.INTERRUPTED)
    with pytest.raises(CertificationError, match=message):
        judged(PROBLEMS["A"], claim, method="forger", wall_s=0.0)


def test_the_rules_of_case_b_are_checked() -> None:
    """Hold, and waiting beside a free slot, are not the judge's business but certify's."""
    late = tuple(Placement(*p) for p in [(0, 0, 0), (1, 1, 0), (2, 1, 4)])
    for problem, message in (
        (FreeAdmissions(INSTANCE, "time", hold=2), "held 3 steps"),
        (FreeAdmissions(INSTANCE, "time", work_conserving=True), "has room"),
    ):
        with pytest.raises(CertificationError, match=message):
            judged(problem, Claim(late, 1, None, Stop.INTERRUPTED), method="forger", wall_s=0.0)


@pytest.mark.parametrize(
    ("admissions", "message"),
    [
        ([(0, 0)], "room"),
        ([(0, 0), (1, 0)], "more than free slots"),
        ([(0, 0), (7, 1)], "not in the pool"),
        ([(0, 0), (0, 1)], "admitted 2 times"),
        ([(0, 0), (1, 2)], "replica 2"),
    ],
)
def test_a_tick_that_breaks_a_limit_is_refused(admissions, message: str) -> None:
    """The tick judge names what is broken."""
    claim = Claim(tuple(Placement(i, g, 0) for i, g in admissions), 1, None, Stop.INTERRUPTED)
    with pytest.raises(CertificationError, match=message):
        judged(PROBLEMS["C"], claim, method="forger", wall_s=0.0)


def test_a_request_that_fits_nowhere_is_named() -> None:
    """Prompt 12 with 5 outputs grows to 12 + 4 = 16 tokens."""
    small = replace(INSTANCE, kv_capacity=15)
    with pytest.raises(InfeasibleError, match=r"request 0: grows to 16 KV tokens, kv_capacity 15"):
        solve(small, method="brute")


def test_a_step_with_more_requests_than_slots_is_named() -> None:
    """Three requests at once on 2 replicas of one slot."""
    crowded = replace(INSTANCE, slots=1)
    with pytest.raises(InfeasibleError, match=r"request 2: admitted at step 1 as active request 3"):
        solve(crowded, method="brute")


def test_kv_capacity_that_search_proves_too_small_names_the_request() -> None:
    """7, 7 and 6 do not share two replicas of 12: 7 + 6 = 13."""
    requests = tuple(OfflineRequest(i, 0, s, 1) for i, s in enumerate((7, 7, 6)))
    instance = Instance(2, 3, 12, 1e-7, 0.01, requests)
    with pytest.raises(InfeasibleError, match=r"request 2: .*kv_capacity 12"):
        solve(instance, method="brute")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "beam", "case": "B"}, "brute, dp, milp, cpsat for case B"),
        ({"method": "oracle"}, "one of brute"),
        ({"method": "brute", "case": "D"}, "one of A, B, C"),
        ({"method": "brute", "objective": "latency"}, "imbalance, time"),
        ({"method": "brute", "hold": 3}, "case B only"),
        ({"method": "brute", "case": "B", "hold": -1}, "hold"),
        ({"method": "brute", "case": "B", "admissions": {0: 0}}, "case A only"),
        ({"method": "brute", "admissions": {0: 0, 1: 0}}, "step for request 2"),
        ({"method": "brute", "admissions": {0: 0, 1: 0, 2: 1, 9: 0}}, "request 9"),
        ({"method": "brute", "admissions": {0: 0, 1: 0, 2: 0}}, "ready 1"),
        ({"method": "brute", "time_limit": -1.0}, "time_limit"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message: str) -> None:
    """One line: what was expected and what came."""
    with pytest.raises(InputError, match=message):
        solve(INSTANCE, **arguments)


def test_every_method_has_its_cases() -> None:
    """The facade names them all."""
    assert METHODS == ("brute", "dp", "beam", "milp", "cpsat")


def test_time_weights_are_exact_on_decimal_texts() -> None:
    """0.1/0.3 is 1:3 although neither is a binary fraction."""
    assert time_weights(0.3, 0.1) == (1, 3)
    assert time_weights(1e-7, 0.0) == (0, 1)
