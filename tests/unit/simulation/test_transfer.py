"""KV transfer after binding: by hand, what it may not change, and exactness."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.simulation.metrics import summarise
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.transfer import TransferDelay
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.simulation.cases import (
    ROUTERS,
    WITH_OPTIONS,
    alike_shapes,
    assert_same,
    plans,
    requests_lists,
    run,
    step_times,
)

SECOND = StepTime(a0=0.0, b0=1.0)

transfers = st.builds(
    TransferDelay,
    seconds=st.sampled_from([0.0, 0.5, 3.0]),
    seconds_per_token=st.sampled_from([0.0, 2**-5, 0.01]),
    overlap=st.booleans(),
)


def timed(*arrival_s):
    return ArrivalPlan("timed", np.zeros(len(arrival_s)), arrival_s=np.array(arrival_s))


def test_a_transfer_holds_its_slot_and_loads_nothing_meanwhile():
    # One slot. Request 0 is bound at 0, decodes from 2 to 4; request 1 is bound then, from 6 to 7.
    record = run(
        [(5, 2), (7, 1)],
        "pool-fifo",
        shape=ClusterShape(1, 1),
        plan=timed(0.0, 0.0),
        step_time=SECOND,
        transfer=TransferDelay(seconds=2.0),
    )
    assert record.admitted_s.tolist() == [0.0, 4.0]
    assert record.started_s.tolist() == [2.0, 6.0]
    assert record.finished_s.tolist() == [4.0, 7.0]
    assert (record.totals.steps, record.totals.sum_load) == (3, 5 + 6 + 7)
    metrics = summarise(record)
    assert metrics["wait_max_s"] == 4.0
    assert metrics["tpot_p99_s"] == 1.0


def test_an_overlapped_transfer_costs_only_what_waiting_leaves_of_it():
    # Request 1 waits from 0 to 4 for the slot; of its transfer of 4.5 s half a second is left.
    record = run(
        [(5, 2), (7, 1)],
        "pool-fifo",
        shape=ClusterShape(1, 1),
        plan=timed(0.0, 0.0),
        step_time=SECOND,
        transfer=TransferDelay(seconds=2.0, seconds_per_token=0.0, overlap=True),
    )
    assert record.started_s.tolist() == [2.0, 4.0]


def test_a_transfer_that_ends_inside_a_step_joins_the_next():
    # Request 1 is bound at 1 (it arrives at 0.5); its cache is there at 2.5 + 0.25.
    record = run(
        [(5, 9), (4, 1)],
        "jsq",
        shape=ClusterShape(2, 1),
        plan=timed(0.0, 0.5),
        step_time=SECOND,
        transfer=TransferDelay(seconds=0.75, seconds_per_token=0.25),
    )
    # Request 0: 0.75 + 5/4 = 2 s, decodes from 2; request 1 arrives while the cluster is idle.
    assert record.admitted_s.tolist() == [0.0, 0.5]
    assert record.started_s.tolist() == [2.0, 3.0]


def test_a_bound_request_counts_as_load_before_it_decodes():
    # Least tokens: 0 and 1 go to different replicas although neither has started, and 2 follows
    # the shorter of the two.
    record = run(
        [(9, 5), (5, 5), (1, 5)],
        "window",
        shape=ClusterShape(2, 3),
        plan=timed(0.0, 0.25, 0.5),
        step_time=SECOND,
        transfer=TransferDelay(seconds=10.0),
    )
    assert record.replica.tolist() == [0, 1, 1]


@settings(max_examples=60)
@given(st.data(), st.sampled_from(WITH_OPTIONS), requests_lists, alike_shapes, step_times)
def test_striding_equals_the_loop_over_every_step(data, name, requests, shape, step_time):
    case = {
        "shape": shape,
        "plan": data.draw(plans(requests)),
        "step_time": step_time,
        "transfer": data.draw(transfers),
    }
    expected = run(requests, name, longest_stride=1, **case)
    assert_same(run(requests, name, **case), expected)
    assert_same(run(requests, name, backend="numpy", **case), expected)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(ROUTERS), requests_lists, alike_shapes, step_times)
def test_a_transfer_without_delay_changes_nothing(data, name, requests, shape, step_time):
    case = {"shape": shape, "plan": data.draw(plans(requests)), "step_time": step_time}
    record = run(requests, name, transfer=TransferDelay(), **case)
    assert_same(record, run(requests, name, **case))
    assert np.array_equal(record.started_s, record.admitted_s)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(ROUTERS), requests_lists, alike_shapes, transfers)
def test_slots_are_held_from_binding_and_starts_follow_the_transfer(
    data, name, requests, shape, transfer
):
    plan = data.draw(plans(requests))
    record = run(
        requests, name, shape=shape, plan=plan, step_time=StepTime(2**-10, 2**-4), transfer=transfer
    )
    prompts = np.array([prompt for prompt, _ in requests])
    delay = transfer.seconds + transfer.seconds_per_token * prompts
    origin = record.ready_s if transfer.overlap else record.admitted_s
    assert (record.started_s >= np.maximum(record.admitted_s, origin + delay)).all()
    for g in range(shape.replicas):
        here = record.replica == g
        for time in record.admitted_s[here]:
            bound = here & (record.admitted_s <= time) & (time < record.finished_s)
            assert bound.sum() <= shape.slots
    work = sum(o * p + o * (o - 1) // 2 for p, o in requests)
    assert record.totals.sum_load == work


@pytest.mark.parametrize("name", ["seconds", "seconds_per_token"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), 1e10])
def test_delays_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match="transfer"):
        TransferDelay(**{name: value})
