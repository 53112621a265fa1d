"""Replicas that differ: exact units of time, the identity of the score, the ledger of a tick."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.cluster import Cluster
from brtheory.core.fscore import one_step_weights, time_f_score
from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.core.unequal import Paces, Replica, paces_of, slots_of, time_loads
from brtheory.errors import InputError

decimals = st.sampled_from([1e-7, 1.5e-7, 0.02, 0.0213, 1.0, 3.7])
speeds = st.sampled_from([1.0, 0.5, 0.7, 1.25, 3.0])
replicas = st.lists(
    st.builds(
        Replica,
        slots=st.integers(1, 4),
        speed=speeds,
        a0=st.none() | decimals,
        b0=st.none() | decimals,
    ),
    min_size=1,
    max_size=5,
)


def exact(value):
    return Fraction(repr(value))


@given(replicas, decimals, decimals, st.data())
def test_times_in_units_are_the_times_in_seconds(described, a0, b0, data):
    """u*T_g = b_g + a_g*L_g exactly, and no larger unit would do."""
    paces = paces_of(described, a0=a0, b0=b0)
    loads = data.draw(
        st.lists(st.integers(0, 10**6), min_size=len(described), max_size=len(described))
    )
    seconds = [
        (exact(r.b0 or b0) + exact(r.a0 or a0) * load) / exact(r.speed)
        for r, load in zip(described, loads, strict=True)
    ]
    if paces is None:
        assert seconds == [exact(b0) + exact(a0) * load for load in loads]
        return
    times = time_loads(loads, per_step=paces.per_step, per_token=paces.per_token)
    assert [paces.unit_s * time for time in times] == seconds
    assert math.gcd(*paces.per_step, *paces.per_token) == 1


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3), min_size=1, max_size=6), st.data())
def test_the_score_is_the_fall_of_the_idle_time(rows, data):
    """F_g = -(change of G*max T - sum T) for every load, pace, replica and Delta."""
    loads, steps, tokens = (list(column) for column in zip(*rows, strict=True))
    replica = data.draw(st.integers(0, len(rows) - 1))
    delta = data.draw(st.integers(0, 60))
    before = time_loads(loads, per_step=steps, per_token=tokens)
    loads[replica] += delta
    after = time_loads(loads, per_step=steps, per_token=tokens)
    score = time_f_score(
        delta,
        [margins(before)[replica]],
        one_step_weights(len(rows)),
        per_token=tokens[replica],
    )
    assert score == imbalance(before) - imbalance(after)


def test_replicas_as_the_cluster_says_have_no_paces():
    assert paces_of([Replica(3), Replica(5, 1.0, None, 0.02)], a0=1e-7, b0=0.02) is None


def test_paces_by_hand():
    # a = 1.5e-7 and 3e-7, b = 0.02 and 0.2 seconds; the largest unit they all share is 5e-8.
    paces = paces_of([Replica(1), Replica(1, 0.5, None, 0.1)], a0=1.5e-7, b0=0.02)
    assert paces == Paces((400_000, 4_000_000), (3, 6), Fraction(5, 10**8))


@pytest.mark.parametrize(
    "values",
    [{"slots": 0}, {"slots": 1, "speed": 0.0}, {"slots": 1, "a0": -1.0}, {"slots": 1, "b0": 1e10}],
)
def test_replicas_out_of_range_are_refused(values):
    with pytest.raises(InputError, match="replica"):
        Replica(**values)


def test_a_replica_whose_steps_take_no_time_is_refused():
    with pytest.raises(InputError, match="replica 1"):
        paces_of([Replica(1), Replica(1, 1.0, 0.0, 0.0)], a0=1e-7, b0=0.02)


@pytest.mark.parametrize(("count", "slots", "where"), [(3, 4, "unequal"), (2, 3, "slots")])
def test_slots_that_do_not_match_the_description_are_refused(count, slots, where):
    with pytest.raises(InputError) as error:
        slots_of([Replica(4), Replica(2)], count=count, slots=slots)
    assert error.value.where == where


def test_the_ledger_counts_in_time():
    # T = (5 + 2*10, 1 + 3*4) = (25, 13); 7 tokens on replica 1 add 21: (25, 34).
    paces = Paces((5, 1), (2, 3), Fraction(1))
    ledger = TickLedger(TickState(((10, 12), (4, 5)), (1, 1), (), paces=paces))
    assert ledger.rows == [[25, 29], [13, 16]]
    assert ledger.margins(1) == [12, 13]
    ledger.admit([Request(0, 7)], 1)
    assert ledger.rows[1] == [34, 37]
    assert ledger.margins(0) == [9, 8]


def test_paces_of_another_number_of_replicas_are_refused():
    paces = Paces((5, 1), (2, 3), Fraction(1))
    with pytest.raises(InputError, match="paces"):
        check_state(TickState(((1,),), (1,), (), paces=paces), horizon=0)


def test_each_replica_has_its_own_slots():
    cluster = Cluster(replicas=2, slots=(2, 1))
    assert cluster.free_slots.tolist() == [2, 1]
    cluster.admit(Request(0, 5), 1)
    assert not cluster.fits(Request(1, 5), 1)
    assert cluster.fits(Request(1, 5), 0)


@pytest.mark.parametrize("slots", [(2,), (2, 0), 0])
def test_slots_that_are_no_clusters_are_refused(slots):
    with pytest.raises(InputError, match="slots"):
        Cluster(replicas=2, slots=slots)


def test_a_held_request_takes_its_place_and_loads_nothing_until_it_begins():
    cluster = Cluster(replicas=1, slots=1, kv_capacity=20)
    request = Request(0, 5, reserved_tokens=15)
    cluster.hold(request, 0)
    cluster.advance(3)
    assert cluster.loads.tolist() == cluster.active.tolist() == [0]
    assert cluster.free_slots.tolist() == [0]
    assert cluster.free_tokens.tolist() == [5]
    with pytest.raises(InputError, match="free slot"):
        cluster.hold(Request(1, 1, reserved_tokens=1), 0)
    cluster.begin(request, 0)
    cluster.advance(3)
    assert cluster.loads.tolist() == [8]
    assert cluster.free_slots.tolist() == [0]
