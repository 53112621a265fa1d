"""Pool order, cluster bookkeeping, subsets and the ledger of one tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.cluster import Cluster
from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.core.subsets import members, subset_masks
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.errors import InputError
from tests.strategies import tick_states


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), unique_by=lambda t: t[1]))
def test_the_pool_is_ordered_by_ready_time_then_id(entries):
    pool = PromptPool(Request(i, 1, float(ready)) for ready, i in entries)
    assert [(r.ready_s, r.id) for r in pool] == sorted((float(t), i) for t, i in entries)


def test_taking_from_the_pool_is_all_or_nothing():
    pool = PromptPool([Request(1, 5), Request(2, 6), Request(3, 7)])
    with pytest.raises(InputError, match="ids of pooled requests"):
        pool.take([1, 9])
    with pytest.raises(InputError, match="each once"):
        pool.take([1, 1])
    assert [r.id for r in pool.take([3, 1])] == [3, 1]
    assert [r.id for r in pool] == [2]


def test_an_id_enters_the_pool_once():
    pool = PromptPool([Request(1, 5)])
    with pytest.raises(InputError, match="id 1 twice"):
        pool.add(Request(1, 6))


@pytest.mark.parametrize(("candidates", "largest"), [(1, 1), (4, 4), (4, 2), (5, 1), (3, 9)])
def test_subsets_are_all_masks_of_the_allowed_sizes_in_order(candidates, largest):
    masks = subset_masks(candidates, largest)
    expected = [m for m in range(1, 2**candidates) if bin(m).count("1") <= largest]
    assert list(masks) == expected
    assert all(sum(1 << j for j in members(mask)) == mask for mask in masks)


def test_a_cluster_accounts_for_growth_and_release():
    cluster = Cluster(replicas=2, slots=1, kv_capacity=20)
    request = Request(0, 10, reserved_tokens=15)
    cluster.admit(request, 1)
    cluster.advance(3)
    assert cluster.loads.tolist() == [0, 13]
    assert cluster.free_tokens.tolist() == [20, 5]
    cluster.retire(request, 1, tokens=13)
    assert cluster.loads.tolist() == cluster.active.tolist() == cluster.reserved.tolist() == [0, 0]


def test_a_cluster_refuses_what_does_not_fit():
    cluster = Cluster(replicas=1, slots=2, kv_capacity=20)
    with pytest.raises(InputError, match="free slot and KV capacity"):
        cluster.admit(Request(0, 10, reserved_tokens=21), 0)
    with pytest.raises(InputError, match="slots"):
        Cluster(replicas=1, slots=0)


@given(tick_states(horizon=2), st.data())
def test_a_ledger_refreshes_margins_after_every_admission(state, data):
    """The envelope is always the maximum of the rows; slots and KV room shrink together."""
    ledger = TickLedger(state)
    for request in state.pool:
        replica = data.draw(st.integers(0, ledger.replicas - 1))
        if ledger.cap[replica] and ledger.fits([request], replica):
            ledger.admit([request], replica)
            assert ledger.envelope == [max(c) for c in zip(*ledger.rows, strict=True)]
            assert ledger.margin(replica) == ledger.margins(replica)[0] >= 0
    assert all(cap >= 0 for cap in ledger.cap)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (TickState([], [], []), "at least one replica"),
        (TickState([[1], [2]], [1], []), "2 entries"),
        (TickState([[1, 2]], [1], []), "horizon . 1 = 1 entries, got 2"),
        (TickState([[-1]], [1], []), "loads >= 0"),
        (TickState([[1]], [-1], []), "integer >= 0"),
        (TickState([[1]], [1], [Request(1, 0)]), "prompt_tokens >= 1"),
        (TickState([[1]], [1], [Request(1, 1), Request(1, 2)]), "id 1 twice"),
        (TickState([[1]], [1], [], free_tokens=[1, 2]), "free_tokens: expected 1 entries"),
    ],
)
def test_states_that_do_not_fit_are_refused(state, message):
    with pytest.raises(InputError, match=message):
        check_state(state, horizon=0)
