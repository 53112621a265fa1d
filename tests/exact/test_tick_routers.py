"""``exact-tick`` and ``bf-io-exact``: each tick optimal, whole replays feasible."""

import os
import subprocess
import sys
import warnings
from itertools import product

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.prediction.oracle import OraclePredictor
from brtheory.routers.params import BalanceRouteParams, params_from_text
from brtheory.routers.protocol import PooledRouter
from brtheory.routers.reference import BalanceRoute
from brtheory.simulation.metrics import summarise
from brtheory.simulation.replay import ordered_lengths, replay
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.workloads import generate_workload
from solvers.budget import Budget, Options
from solvers.facade import solve_problem, solve_tick
from solvers.problem import TickProblem
from solvers.result import Limit, Stop
from solvers.routers import BF_IO_EXACT, EXACT_TICK, ExactTick, ExactTickParams
from solvers.tick import evaluate_tick
from tests.exact.problems import tiny_tick

RNG = np.random.default_rng(0)
NOT = -1
"""Not admitted."""


def admitted(router: PooledRouter, state: TickState) -> tuple[Placement, ...]:
    """What a router does in one tick."""
    return tuple(Placement(a.id, a.replica, 0) for a in router.tick(state))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("method", ["cpsat", "milp"])
def test_a_tick_is_the_brute_force_optimum(seed: int, method: str) -> None:
    """As many admissions, and the same imbalance over all rows."""
    state = tiny_tick(seed, horizon=seed % 3, kv=seed % 2 == 1)
    router = ExactTick(ExactTickParams(method=method), horizon=seed % 3)
    chosen = admitted(router, state)
    best = solve_tick(state, method="brute")
    found = evaluate_tick(state, chosen)
    assert found.violations == ()
    assert len(chosen) == len(best.assignment)
    assert len(state.loads) * found.sum_peak - found.sum_load == best.incumbent


@pytest.mark.parametrize("seed", range(15))
def test_no_tick_of_br0_is_better(seed: int) -> None:
    """Same state, slots only: both fill them, the exact one with at most BR-0's imbalance."""
    state = tiny_tick(100 + seed)
    imbalances = [
        len(state.loads) * found.sum_peak - found.sum_load
        for router in (ExactTick(ExactTickParams()), BalanceRoute(BalanceRouteParams()))
        for found in [evaluate_tick(state, admitted(router, state))]
    ]
    assert imbalances[0] <= imbalances[1]


def test_of_equal_requests_the_older_are_taken() -> None:
    """Two slots, five requests of 4 tokens: the optimum is 4 | 4 and it is the first two's."""
    pool = [Request(i, 4) for i in (9, 3, 7, 5, 1)]
    state = TickState(loads=[[0], [0]], free_slots=[1, 1], pool=pool)
    assert [p.id for p in admitted(ExactTick(ExactTickParams()), state)] == [9, 3]


def test_only_the_oldest_candidates_are_offered() -> None:
    """One slot, margin 10: the 10 would fit it exactly, but only the first two are looked at."""
    pool = [Request(i, s) for i, s in enumerate((3, 8, 10))]
    state = TickState(loads=[[0], [10]], free_slots=[1, 0], pool=pool)
    assert [p.id for p in admitted(ExactTick(ExactTickParams()), state)] == [2]
    assert [p.id for p in admitted(ExactTick(ExactTickParams(candidates=2)), state)] == [1]


@pytest.mark.parametrize("kv_headroom", [None, 2.0])
def test_replays_are_feasible_and_reproducible(kv_headroom: float | None) -> None:
    """Both routers on one instance, each twice, through the judge."""
    instance = random_instance(
        np.random.default_rng(7), requests=25, replicas=3, slots=2, kv_headroom=kv_headroom
    )
    outputs = dict(enumerate(ordered_lengths(instance).output_tokens.tolist()))
    horizon = params_from_text(BF_IO_EXACT.params, {"horizon": "4"}, where="test")
    for spec, params in ((EXACT_TICK, EXACT_TICK.params()), (BF_IO_EXACT, horizon)):
        first, second = (
            replay(instance, spec.build(params, RNG), predictor=OraclePredictor(outputs))
            for _ in range(2)
        )
        assert first == second
        assert evaluate(instance, first).violations == ()


def test_without_a_horizon_both_are_one() -> None:
    """bf-io-exact at H = 0 looks at present loads only."""
    flat = params_from_text(BF_IO_EXACT.params, {"horizon": "0"}, where="test")
    for seed in range(10):
        state = tiny_tick(200 + seed)
        both = [
            admitted(spec.build(params, RNG), state)
            for spec, params in ((EXACT_TICK, EXACT_TICK.params()), (BF_IO_EXACT, flat))
        ]
        assert both[0] == both[1]


def test_nothing_to_do_is_no_admission() -> None:
    """An empty pool, or no free slot."""
    router = ExactTick(ExactTickParams())
    assert router.tick(TickState(loads=[[5]], free_slots=[1], pool=[])) == []
    assert router.tick(TickState(loads=[[5]], free_slots=[0], pool=[Request(0, 3)])) == []


def every_best_choice(state: TickState, *, admissions: int, value: int) -> list[Placement]:
    """All choices of a tick with the best value, in the order of ``solvers.cpsat.canonical``."""
    loads = [row[0] for row in state.loads]
    replicas = sorted(range(len(loads)), key=lambda g: (loads[g], g))
    choices = (
        tuple(Placement(r.id, g, 0) for r, g in zip(state.pool, chosen, strict=True) if g != NOT)
        for chosen in product([*replicas, NOT], repeat=len(state.pool))
    )
    return [
        choice
        for choice in choices
        for found in [evaluate_tick(state, choice)]
        if len(choice) == admissions
        and not found.violations
        and len(loads) * found.sum_peak - found.sum_load == value
    ]


@pytest.mark.parametrize("seed", range(40))
def test_of_equally_good_choices_the_first_in_the_stated_order_is_taken(seed: int) -> None:
    """Against the enumeration of all of them, with rows and KV room too."""
    state = tiny_tick(seed, horizon=seed % 3, kv=seed % 2 == 1)
    found = solve_problem(
        TickProblem(state, "imbalance"), method="cpsat", options=Options(canonical=True)
    )
    best = every_best_choice(state, admissions=len(found.assignment), value=found.incumbent)
    assert set(found.assignment) == set(best[0])


def test_the_decision_does_not_depend_on_hint_seed_or_workers() -> None:
    """Six requests, six empty replicas of one slot: all 720 choices have the largest as peak."""
    pool = [Request(i, 20 + i) for i in range(6)]
    problem = TickProblem(
        TickState(loads=[[0]] * 6, free_slots=[1] * 6, pool=pool), objective="imbalance"
    )
    backwards = tuple(Placement(i, 5 - i, 0) for i in range(6))
    every = [
        Options(canonical=True),
        Options(canonical=True, hint=backwards, seed=7),
        Options(canonical=True, seed=3, workers=2),
    ]
    found = {solve_problem(problem, method="cpsat", options=each).assignment for each in every}
    assert found == {tuple(Placement(i, i, 0) for i in range(6))}


def test_a_process_of_its_own_decides_alike() -> None:
    """A hundred ticks in two processes whose hashes are seeded differently."""
    program = (
        "from tests.exact.problems import tiny_tick\n"
        "from solvers.routers import ExactTick, ExactTickParams\n"
        "router = ExactTick(ExactTickParams())\n"
        "print([[(a.id, a.replica) for a in router.tick(tiny_tick(s))] for s in range(100)])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def hard_tick(requests: int = 40) -> TickState:
    """Long prompts for eight empty replicas: a partition whose best cannot be proved soon."""
    prompts = np.random.default_rng(0).integers(1000, 9000, size=requests).tolist()
    pool = [Request(i, s) for i, s in enumerate(prompts)]
    return TickState(loads=[[0]] * 8, free_slots=[6] * 8, pool=pool)


@pytest.mark.parametrize("method", ["cpsat", "milp"])
def test_a_work_limit_ends_a_tick_at_the_same_point_and_says_so(method: str) -> None:
    """Much too little work: still a full choice, no worse than BR-0's, twice the same."""
    state = hard_tick()
    params = ExactTickParams(method=method, work_limit=0.002)
    chosen = []
    for _ in range(2):
        router = ExactTick(params)
        with pytest.warns(RuntimeWarning, match="work_limit"):
            chosen.append(admitted(router, state))
        assert router.limited_ticks == 1
    assert chosen[0] == chosen[1]
    exact, br0 = (
        evaluate_tick(state, choice)
        for choice in (chosen[0], admitted(BalanceRoute(BalanceRouteParams()), state))
    )
    assert exact.violations == ()
    assert exact.sum_peak <= br0.sum_peak


def test_only_the_first_limited_tick_warns() -> None:
    """The count goes on; a run of thousands of ticks prints one line."""
    router = ExactTick(ExactTickParams(work_limit=0.002))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            router.tick(hard_tick())
    assert [each.category for each in warned] == [RuntimeWarning]
    assert router.limited_ticks == 3


def test_a_simulation_counts_its_limited_ticks() -> None:
    """Nine requests at once: with hardly any work some ticks are limited, with plenty none is."""
    trace = generate_workload("proprietary-surrogate", requests=9)
    counts = []
    for work_limit in (0.0001, 60.0):
        config = RunConfig(
            router="exact-tick",
            shape=ClusterShape(2, 3),
            params=ExactTickParams(work_limit=work_limit),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            counts.append(summarise(simulate(trace, config))["limited_ticks"])
    assert counts[0] > 0 == counts[1]
    jsq = RunConfig(router="jsq", shape=ClusterShape(2, 3))
    assert "limited_ticks" not in summarise(simulate(trace, jsq))


@pytest.mark.parametrize("method", ["cpsat", "milp"])
def test_a_result_names_the_work_limit(method: str) -> None:
    """Not the time limit, of which there is plenty."""
    budget = Budget(600.0, work_limit=0.002)
    found = solve_problem(TickProblem(hard_tick(), "imbalance"), method=method, budget=budget)
    assert (found.stop, found.limit) == (Stop.LIMIT, Limit.WORK)


@pytest.mark.parametrize(
    "given",
    [{"method": "brute"}, {"time_limit": "0"}, {"work_limit": "0"}, {"width": "3"}],
)
def test_parameters_are_checked(given: dict[str, str]) -> None:
    """Unknown backend, no time or work at all, unknown name."""
    with pytest.raises(InputError):
        params_from_text(EXACT_TICK.params, given, where="test")


def test_rows_must_fit_the_horizon() -> None:
    """H = 0 takes one entry a replica."""
    with pytest.raises(InputError, match="entries"):
        ExactTick(ExactTickParams()).tick(TickState(loads=[[1, 2]], free_slots=[1], pool=[]))
