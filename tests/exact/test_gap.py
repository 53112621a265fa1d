"""Gaps are intervals around the truth; parts add up; cuts, curves and shrinking keep their laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.errors import InfeasibleError, InputError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import generate_workload
from solvers.facade import solve
from solvers.gap.cuts import Cut, random_cut
from solvers.gap.decomposition import decomposition
from solvers.gap.families import families, find_family, trace_family
from solvers.gap.hold import HOLDS, HoldPoint, hold_curve, tightened
from solvers.gap.measure import Gap, measure
from solvers.gap.policies import find_policy, replay_policy
from solvers.gap.shrink import shrink
from tests.exact.problems import tiny_instance

ROUTERS = ("jsq", "br0", "brh", "brh:survival", "exact-tick")


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


def test_unsolved_the_fastest_known_schedule_waits_for_every_request() -> None:
    """Two requests, the second ready late: routers take two steps, both at once are one.

    p = q = 1: 2 steps and peaks 5 + 5 are 12; one step with peak 5 is 6, and no less is possible.
    Who never waits beside a free slot takes 2 steps, too; work bounds the peaks by 10/2.
    """
    requests = (OfflineRequest(0, 0, 5, 1), OfflineRequest(1, 9, 5, 1))
    instance = Instance(2, 1, None, 1.0, 1.0, requests)
    (found,) = measure(instance, ["jsq"], time_limit_s=10.0, seed=0)
    assert (found.time_any.value, found.time_any.incumbent, found.time_any.bound) == (12, 6, 6)
    assert (found.time_conserving.incumbent, found.time_conserving.bound) == (12, 7)


@pytest.mark.parametrize("seed", range(6))
def test_gaps_agree_with_brute_force(seed: int) -> None:
    """Case A at each router's admissions, and case B over all schedules."""
    instance = tiny_instance(
        seed, requests=4, replicas=2, slots=2, latest_ready=2, longest_output=3
    )
    free = solve(instance, method="brute", case="B", objective="time")
    busy = solve(instance, method="brute", case="B", objective="time", work_conserving=True)
    curve = hold_curve(instance, time_limit_s=60.0)
    for found in measure(instance, ROUTERS, time_limit_s=20.0, seed=0, curve=curve):
        steps = {p.id: p.step for p in found.assignment}
        verdict = evaluate(instance, found.assignment)
        for mine, objective in ((found.time, "time"), (found.imbalance, "imbalance")):
            best = solve(instance, method="brute", objective=objective, admissions=steps)
            assert (mine.incumbent, mine.bound) == (best.incumbent, best.incumbent)
        assert found.imbalance.value == verdict.imbalance_total
        # b0/a0 = 0.01/1e-7 = 100000
        assert found.time.value == 100_000 * verdict.steps + verdict.sum_peak
        for mine, best in ((found.time_any, free), (found.time_conserving, busy)):
            assert (mine.incumbent, mine.bound) == (best.incumbent, best.incumbent)


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
        assert rushed.time_any.bound <= rushed.time_conserving.bound
        assert rushed.time_any.incumbent <= rushed.time_conserving.incumbent
        assert rushed.time_conserving.bound <= rushed.time_conserving.incumbent


@pytest.mark.parametrize("seed", range(4))
def test_the_decomposition_adds_up(seed: int) -> None:
    """BR-0 - fastest = rule + greedy ticks + online + holding where all optima are proved."""
    instance = tiny_instance(seed, requests=6, replicas=2, slots=2)
    curve = hold_curve(instance, time_limit_s=60.0)
    found = measure(instance, ROUTERS, time_limit_s=60.0, seed=0, curve=curve)
    assert all(each.time.proved and each.time_any.proved for each in found)
    parts, by_name = decomposition(found), {each.router: each for each in found}
    greedy, online, rule = parts.greedy_ticks, parts.online, parts.two_stage_rule
    busy = tuple(rule + g + o for g, o in zip(greedy, online, strict=True))
    assert busy == by_name["br0"].time_conserving.absolute
    total = tuple(b + h for b, h in zip(busy, parts.holding, strict=True))
    assert total == by_name["br0"].time_any.absolute
    assert parts.placement == list(by_name["br0"].time.absolute)
    brh, survival = by_name["brh"].time.value, by_name["brh:survival"].time.value
    assert parts.prediction_error == survival - brh
    assert parts.perfect_prediction == parts.br0_time - brh


def test_what_was_not_replayed_costs_nothing_known() -> None:
    """No routers, no parts."""
    assert set(decomposition([]).model_dump().values()) == {None}


def test_an_open_interval_of_a_part_holds_the_proved_one() -> None:
    """With no time to solve, the part widens around the truth."""
    instance = tiny_instance(7, requests=6, replicas=2, slots=2)
    curve = hold_curve(instance, time_limit_s=60.0)
    exact, rushed = (
        decomposition(measure(instance, ["exact-tick"], time_limit_s=limit, seed=0, curve=known))
        for limit, known in ((60.0, curve), (0.0, None))
    )
    for name in ("greedy_ticks", "online", "holding"):
        (low, high), (low_rushed, high_rushed) = getattr(exact, name), getattr(rushed, name)
        assert low_rushed <= low == high <= high_rushed


@pytest.mark.parametrize("name", sorted(families()))
def test_families_repeat_and_can_be_served(name: str) -> None:
    """The same seed gives the same instance; BR-0 serves it."""
    family = find_family(name)
    first, second = (family.make(np.random.default_rng(3)) for _ in range(2))
    assert first == second
    assert evaluate(first, replay_policy(first, find_policy("br0"), seed=0)).feasible


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (lambda: find_family("huge"), "tiny, small"),
        (lambda: find_policy("oracle-router"), "br0"),
        (lambda: find_policy("brh:crystal-ball"), "brh:oracle or brh:survival"),
        (lambda: find_policy("jsq:survival"), "needs no predictor"),
        (lambda: Cut(load=0.0), "load"),
        (lambda: Cut(load=float("nan")), "load"),
        (lambda: Cut(requests=0), "requests"),
        (lambda: trace_family(TRACE, Cut(requests=201)), "at least 201 requests"),
    ],
)
def test_what_does_not_exist_is_refused(look_up, message: str) -> None:
    """Families, routers, predictors and cuts."""
    with pytest.raises(InputError, match=message):
        look_up()


TRACE = generate_workload("azure-2023-conv", requests=200, seed=1)


@given(seed=st.integers(0, 10**6), requests=st.integers(1, 200))
def test_a_cut_is_a_stretch_of_the_trace_in_order(seed: int, requests: int) -> None:
    """Same lengths as consecutive rows; ready steps do not go back and start at 0."""
    instance = random_cut(TRACE, Cut(requests=requests), rng=np.random.default_rng(seed))
    mine = [(r.prompt_tokens, r.output_tokens) for r in instance.requests]
    rows = list(zip(TRACE.prompt_tokens.tolist(), TRACE.output_tokens.tolist(), strict=True))
    assert mine in [rows[i : i + requests] for i in range(len(rows) - requests + 1)]
    ready = [r.ready for r in instance.requests]
    assert ready == sorted(ready)
    assert ready[0] == 0


def test_a_cut_asks_for_the_load_it_was_given() -> None:
    """30 outputs of 8 tokens on 2 x 3 slots at load 0.5: 240 / (6 * 0.5) = 80 steps."""
    times, ones = np.arange(30.0), np.ones(30, dtype=np.int64)
    trace = Trace("even", "by hand", True, times, 10 * ones, 8 * ones)
    cut = Cut(requests=30, replicas=2, slots=3, load=0.5)
    instance = random_cut(trace, cut, rng=np.random.default_rng(0))
    assert instance.requests[-1].ready == 80
    at_once = replace(trace, arrival_s=np.zeros(30))
    together = random_cut(at_once, cut, rng=np.random.default_rng(0))
    assert {r.ready for r in together.requests} == {0}


@pytest.mark.parametrize("seed", range(3))
def test_the_hold_curve_agrees_with_brute_force(seed: int) -> None:
    """Each rule's optimum, or that no schedule obeys it; a longer hold never costs time."""
    instance = tiny_instance(
        seed, requests=4, replicas=1, slots=2, latest_ready=2, longest_output=3
    )
    *curve, conserving = hold_curve(instance, time_limit_s=20.0)
    assert [point.hold for point in curve] == [*HOLDS, None]
    for point in (*curve, conserving):
        rule = {"hold": point.hold, "work_conserving": point.work_conserving}
        try:
            best = solve(instance, method="brute", case="B", objective="time", **rule).incumbent
        except InfeasibleError:
            assert point.feasible is False
            continue
        assert (point.feasible, point.incumbent, point.bound) == (True, best, best)
    known = [point.incumbent for point in curve if point.feasible]
    assert known == sorted(known, reverse=True)


def test_neighbours_tighten_a_curve() -> None:
    """An incumbent serves longer holds, a bound shorter ones; what is infeasible stays so."""
    curve = [
        HoldPoint(0, False, False, None, None),
        HoldPoint(1, False, True, 10, 5),
        HoldPoint(2, False, None, None, None),
        HoldPoint(4, False, True, 12, 8),
    ]
    ends = [(p.feasible, p.incumbent, p.bound) for p in tightened(curve)]
    assert ends == [(False, None, None), (True, 10, 8), (True, 10, 8), (True, 10, 8)]


def test_a_curve_without_time_is_unknown_and_not_wrong() -> None:
    """No incumbent below the optimum, no bound above it."""
    instance = tiny_instance(3, requests=6, replicas=2, slots=2)
    exact, rushed = (hold_curve(instance, time_limit_s=limit) for limit in (60.0, 0.0))
    for best, point in zip(exact, rushed, strict=True):
        if best.feasible:
            assert best.proved
            assert point.bound is None or point.bound <= best.incumbent
            assert point.incumbent is None or point.incumbent >= best.incumbent


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


def test_shrinking_ends_when_it_is_told_to() -> None:
    """After three attempts what holds so far is returned."""
    requests = tuple(OfflineRequest(i, 0, 1, 1) for i in range(16))
    asked = iter([True] * 3 + [False] * 100)
    instance = Instance(2, 8, None, 1e-7, 0.01, requests)
    smaller = shrink(instance, lambda _each: True, may_go_on=lambda: next(asked))
    assert 0 < len(smaller.requests) < 16
