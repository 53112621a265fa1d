"""Every fast tick decides exactly as the reference: admissions, stages, scores, refusals.

The states come from seeded generators made for ties, empty pools, full replicas, binding KV
capacity and numbers at the limit of exact arithmetic; BRTHEORY_TICK_STATES sets how many a router
sees (10,000 unless set, 100,000 in the nightly run).
"""

import os

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.backend import compiled_available
from brtheory.routers.baselines import PoolFifo
from brtheory.routers.fast import FastBalanceRoute, FastPoolFifo, FastWindow
from brtheory.routers.params import BalanceRouteParams, HorizonParams, WindowParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from brtheory.routers.window import Window, window_token_limit

STATES = int(os.environ.get("BRTHEORY_TICK_STATES", "10000"))
BATCHES = 4
ENGINES = ("numpy", "compiled") if compiled_available() else ("numpy",)


def sized(rng, low, high, *, often):
    """A size in low..high, mostly at most ``often``: the reference is slow on large ones."""
    return int(rng.integers(low, (high if rng.random() < 0.03 else often) + 1))


def random_state(rng, *, horizon, limit):
    """A state with few distinct numbers, or with numbers that reach the limit of exactness."""
    replicas, waiting = sized(rng, 1, 12, often=5), sized(rng, 0, 40, often=8)
    scale = int(rng.choice([3, 12, 500, 10**6])) if rng.random() < 0.95 else limit
    top = min(2**62, max(1, 2 * scale // max(1, waiting))) if scale == limit else scale
    growth = rng.integers(0, scale // 4 + 1, size=(replicas, horizon + 1))
    base = rng.integers(0, scale // 2 + 1, size=(replicas, 1))
    loads = np.where(rng.random((replicas, 1)) < 0.3, base, growth + base)
    prompts = rng.integers(1, top + 1, size=waiting).tolist()
    limited = rng.random() < 0.3
    reserved = rng.integers(0, 20, size=waiting).tolist() if limited else [0] * waiting
    ready = np.sort(rng.integers(0, 40, size=waiting)) / 8
    return TickState(
        loads=loads.tolist(),
        free_slots=rng.choice([0, 0, 1, 1, 2, 3, 6], size=replicas).tolist(),
        pool=[Request(100 + i, s, float(ready[i]), reserved[i]) for i, s in enumerate(prompts)],
        now_s=float(rng.integers(0, 80)) / 8,
        free_tokens=rng.integers(0, 60, size=replicas).tolist() if limited else None,
    )


def random_orders(rng):
    return {
        "greedy_threshold": None if rng.random() < 0.5 else int(rng.integers(0, 12)),
        "max_subset": sized(rng, 1, 7, often=4),
        "key_order": str(rng.choice(["slots-first", "margin-first"])),
        "candidate_order": str(rng.choice(["oldest", "newest", "largest"])),
        "stage1": str(rng.choice(["f-score", "longest"])),
    }


def br0_case(rng):
    router = BalanceRoute(BalanceRouteParams(**random_orders(rng)))
    return router, random_state(rng, horizon=0, limit=router.weights(4).token_limit)


def brh_case(rng):
    params = HorizonParams(
        **random_orders(rng),
        horizon=sized(rng, 0, 128, often=6),
        discount=float(rng.choice([1.0, 1.0, 0.9, 0.5])),
        reward_weight=float(rng.choice([1.0, 1.0, 0.001, 3.7])),
        overflow_weight=None if rng.random() < 0.6 else float(rng.choice([0.0, 0.4, 1.0, 43.0])),
    )
    router = BalanceRouteHorizon(params)
    limit = router.weights(4).token_limit
    return router, random_state(rng, horizon=params.horizon, limit=limit)


CASES = {"br0": br0_case, "brh": brh_case}


def outcome(router, state):
    """Admissions, or the words of the refusal."""
    try:
        return router.tick(state)
    except InputError as error:
        return str(error)


def count_kinds(seen, state, expected):
    kinds = {
        "refused": isinstance(expected, str),
        "empty pool": not state.pool,
        "full": not any(state.free_slots),
        "one replica": len(state.loads) == 1,
        "kv": state.free_tokens is not None,
        "stage 1": not isinstance(expected, str) and any(a.stage == 1 for a in expected),
        "stage 2": not isinstance(expected, str) and any(a.stage == 2 for a in expected),
        "set": not isinstance(expected, str)
        and len({(a.replica, a.score) for a in expected}) < len(expected),
    }
    for kind, present in kinds.items():
        seen[kind] = seen.get(kind, 0) + present


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("name", CASES)
def test_scored_ticks_equal_the_reference(name, batch):
    rng = np.random.default_rng([2605, batch, len(name)])
    seen = {}
    for _ in range(STATES // BATCHES):
        reference, state = CASES[name](rng)
        expected = outcome(reference, state)
        count_kinds(seen, state, expected)
        for engine in ENGINES:
            assert outcome(FastBalanceRoute(reference, engine), state) == expected, (engine, state)
    # A generator that stops producing one of these would make the test blind to it.
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize("batch", range(BATCHES))
def test_pool_fifo_ticks_equal_the_reference(batch):
    rng = np.random.default_rng([1206, batch])
    for _ in range(STATES // BATCHES):
        state = random_state(rng, horizon=0, limit=2**60)
        expected = PoolFifo().tick(state)
        for engine in ENGINES:
            assert FastPoolFifo(PoolFifo(), engine).tick(state) == expected, (engine, state)


def window_params(rng):
    return WindowParams(
        window=sized(rng, 1, 64, often=6),
        wait_weight=None if rng.random() < 0.7 else float(rng.choice([0.0, 2.5, 1e12])),
        wait_scale=float(rng.choice([1.0, 1.15])),
        size_weight=float(rng.choice([0.0, 0.3, 5.0])),
        overflow_weight=int(rng.choice([0, 2, 1024])),
        spare_order=str(rng.choice(["longest", "fit"])),
        hold_s=float(rng.choice([0.0, 2.0, 5.0])),
        age_limit=None if rng.random() < 0.3 else float(rng.choice([0.5, 1.0, 16.0])),
        memory=int(rng.integers(1, 12)),
        age_floor_s=float(rng.choice([0.0, 1.0, 4.0])),
        room_share=float(rng.choice([0.0, 0.3, 1.0])),
    )


@pytest.mark.parametrize("batch", range(BATCHES))
def test_window_ticks_equal_the_reference_along_its_memory(batch):
    """Ten ticks share a router, so that what it has learned from waits must agree as well."""
    rng = np.random.default_rng([64, batch])
    learned = 0
    for _ in range(STATES // BATCHES // 10):
        params = window_params(rng)
        reference = Window(params)
        fast = {engine: FastWindow(Window(params), engine) for engine in ENGINES}
        for _ in range(10):
            state = random_state(rng, horizon=0, limit=window_token_limit(4, params))
            expected = outcome(reference, state)
            for engine, router in fast.items():
                assert outcome(router, state) == expected, (engine, params, state)
        learned += reference.wait_weight() > 0
    assert learned > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("excess", [0, 1])
def test_the_token_limit_is_exact_and_refused_beyond_in_the_same_words(engine, excess):
    reference = BalanceRouteHorizon(HorizonParams(horizon=3))
    limit = reference.weights(2).token_limit
    for loads, prompts in (
        ([[0, 0, 0, limit + excess], [0] * 4], [1]),
        ([[0] * 4] * 2, [limit - 7, 7 + excess]),
    ):
        state = TickState(loads, [1, 1], [Request(i, s) for i, s in enumerate(prompts)])
        expected = outcome(reference, state)
        assert isinstance(expected, str) == bool(excess)
        assert outcome(FastBalanceRoute(reference, engine), state) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_beyond_64_bits_are_decided_all_the_same(engine):
    """Slots and KV counts have no limit of their own: such a tick is left to the reference."""
    pool = [Request(0, 5, reserved_tokens=2**70), Request(1, 3, reserved_tokens=1)]
    for state in (
        TickState([[4], [0]], [2**64, 3], pool),
        TickState([[4], [0]], [1, 1], pool, free_tokens=[2**71, 1]),
    ):
        reference = BalanceRoute(BalanceRouteParams())
        assert FastBalanceRoute(reference, engine).tick(state) == reference.tick(state)
        assert FastPoolFifo(PoolFifo(), engine).tick(state) == PoolFifo().tick(state)
