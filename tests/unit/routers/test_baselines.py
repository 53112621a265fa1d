"""Baselines: what each counts, how ties rotate, what the pooled FIFO keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.cluster import Cluster, as_int_array
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.registry import find_router, router_specs
from tests.strategies import tick_states

REQUEST = Request(0, 10)
COUNTS = st.lists(st.integers(0, 9), min_size=4, max_size=4)


def build(name, seed=0, **params):
    spec = find_router(name)
    return spec.build(spec.params(**params), np.random.default_rng(seed))


def cluster(*, loads=(0, 0, 0, 0), active=(0, 0, 0, 0), queued=(0, 0, 0, 0), tokens=(0, 0, 0, 0)):
    view = Cluster(replicas=len(loads), slots=10)
    view.loads, view.active = as_int_array(loads), as_int_array(active)
    view.queued, view.queued_tokens = as_int_array(queued), as_int_array(tokens)
    return view


@given(COUNTS, COUNTS)
def test_jsq_takes_a_replica_with_fewest_requests(active, queued):
    replica = build("jsq").place(REQUEST, cluster(active=active, queued=queued))
    totals = [a + q for a, q in zip(active, queued, strict=True)]
    assert totals[replica] == min(totals)


@given(COUNTS, COUNTS)
def test_engine_score_counts_a_waiting_request_as_four(active, queued):
    replica = build("engine-score").place(REQUEST, cluster(active=active, queued=queued))
    scores = [4 * q + a for a, q in zip(active, queued, strict=True)]
    assert scores[replica] == min(scores)


@given(COUNTS, COUNTS)
def test_least_tokens_counts_running_and_queued_tokens(loads, tokens):
    replica = build("least-tokens").place(REQUEST, cluster(loads=loads, tokens=tokens))
    totals = [a + q for a, q in zip(loads, tokens, strict=True)]
    assert totals[replica] == min(totals)


@pytest.mark.parametrize("name", ["jsq", "engine-score", "least-tokens", "round-robin"])
def test_ties_rotate(name):
    router = build(name)
    assert [router.place(REQUEST, cluster()) for _ in range(6)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("name", ["random", "p2c"])
def test_random_routers_use_every_replica_and_follow_their_seed(name):
    draws = [build(name, seed=5).place(REQUEST, cluster()) for _ in range(2)]
    assert draws[0] == draws[1]
    router = build(name, seed=6)
    assert {router.place(REQUEST, cluster()) for _ in range(200)} == {0, 1, 2, 3}


def test_power_of_two_never_takes_the_single_worst_replica():
    router = build("p2c")
    view = cluster(active=(0, 9, 0, 0))
    assert 1 not in {router.place(REQUEST, view) for _ in range(100)}


def test_power_of_two_on_one_replica():
    assert build("p2c").place(REQUEST, cluster(loads=[0], active=[0], queued=[0], tokens=[0])) == 0


@given(tick_states())
def test_pool_fifo_admits_a_prefix_of_the_pool(state):
    made = build("pool-fifo").tick(state)
    assert [a.id for a in made] == [r.id for r in state.pool[: len(made)]]
    if state.free_tokens is None:
        assert len(made) == min(len(state.pool), sum(state.free_slots))


def test_pool_fifo_does_not_overtake_its_head():
    pool = [Request(0, 5, reserved_tokens=50), Request(1, 5, reserved_tokens=5)]
    assert build("pool-fifo").tick(TickState([[0]], [2], pool, free_tokens=[20])) == []


def test_every_registered_router_builds_with_its_defaults():
    for name, spec in router_specs().items():
        router = spec.build(spec.params(), np.random.default_rng(0))
        assert hasattr(router, "place" if spec.family == "immediate" else "tick"), name
