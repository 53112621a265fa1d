"""``exact-tick`` and ``bf-io-exact``: each tick optimal, whole replays feasible."""

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
from brtheory.simulation.replay import ordered_lengths, replay
from solvers.facade import solve_tick
from solvers.routers import BF_IO_EXACT, EXACT_TICK, ExactTick, ExactTickParams
from solvers.tick import evaluate_tick
from tests.exact.problems import tiny_tick

RNG = np.random.default_rng(0)


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


@pytest.mark.parametrize("given", [{"method": "brute"}, {"time_limit": "0"}, {"width": "3"}])
def test_parameters_are_checked(given: dict[str, str]) -> None:
    """Unknown backend, no time at all, unknown name."""
    with pytest.raises(InputError):
        params_from_text(EXACT_TICK.params, given, where="test")


def test_rows_must_fit_the_horizon() -> None:
    """H = 0 takes one entry a replica."""
    with pytest.raises(InputError, match="entries"):
        ExactTick(ExactTickParams()).tick(TickState(loads=[[1, 2]], free_slots=[1], pool=[]))
