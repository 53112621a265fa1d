"""The engine: steps by hand, agreement with the judge, with the step loop, and conservation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.admission import Admission
from brtheory.errors import BrtheoryError, InfeasibleError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.prediction.oracle import OraclePredictor
from brtheory.routers.registry import find_router
from brtheory.simulation.arrivals import ClosedArrivals, StepArrivals, TimedArrivals
from brtheory.simulation.engine import Simulation
from brtheory.simulation.metrics import summarise
from brtheory.simulation.replay import ordered_lengths, replay
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.strategies import instances
from tests.unit.simulation.cases import ROUTERS, lengths_of

SECOND = StepTime(a0=0.0, b0=1.0)
TOKEN = StepTime(a0=1.0, b0=0.0)


def build(name, seed=0, **params):
    spec = find_router(name)
    if name == "brh":
        params.setdefault("horizon", 4)
    return spec.build(spec.params(**params), np.random.default_rng(seed))


def run(requests, router, arrivals, *, replicas=2, slots=1, step_time=SECOND, **options):
    outputs = dict(enumerate(requests.output_tokens.tolist()))
    return Simulation(
        requests,
        build(router),
        shape=ClusterShape(replicas, slots),
        arrivals=arrivals,
        step_time=step_time,
        predictor=OraclePredictor(outputs),
        **options,
    ).run()


def at_once(n):
    return StepArrivals(np.zeros(n, dtype=np.int64))


def no_prefill(n):
    return np.zeros(n)


def test_two_requests_on_two_replicas_by_hand():
    # Loads (10, 4), (11, 5), (-, 6): peaks 10 + 11 + 6, loads 14 + 16 + 6, spreads 6 + 6 + 6.
    record = run(lengths_of([(10, 2), (4, 3)]), "jsq", at_once(2), step_time=TOKEN)
    totals = record.totals
    assert (totals.steps, totals.sum_peak, totals.sum_load, totals.sum_spread) == (3, 27, 36, 18)
    assert totals.decoded_tokens == 5
    assert record.finished_s.tolist() == [21.0, 27.0]


def test_a_slot_freed_by_a_completion_is_taken_in_the_same_step():
    record = run(lengths_of([(5, 2), (5, 2)]), "pool-fifo", at_once(2), replicas=1)
    assert record.admitted_step.tolist() == [0, 2]
    assert record.admitted_s.tolist() == [0.0, 2.0]


def test_the_clock_jumps_over_idle_time():
    arrivals = TimedArrivals(np.array([0.0, 100.0]), no_prefill(2))
    record = run(lengths_of([(5, 2), (5, 2)]), "br0", arrivals)
    assert record.finished_s.tolist() == [2.0, 102.0]
    assert record.totals.steps == 4


def test_an_open_arrival_joins_at_the_next_step_boundary():
    arrivals = TimedArrivals(np.array([0.0, 0.5]), no_prefill(2))
    record = run(lengths_of([(5, 4), (5, 1)]), "jsq", arrivals)
    assert record.admitted_s.tolist() == [0.0, 1.0]
    assert (record.admitted_s - record.ready_s).tolist() == [0.0, 0.5]


def test_prefill_delays_readiness_and_counts_as_latency_not_as_wait():
    arrivals = TimedArrivals(np.array([0.0, 0.0]), np.array([3.0, 1.0]))
    record = run(lengths_of([(5, 1), (5, 1)]), "pool-fifo", arrivals, replicas=1)
    assert record.ready_s.tolist() == [3.0, 1.0]
    assert record.admitted_s.tolist() == [3.0, 1.0]
    assert (record.finished_s - record.arrival_s).tolist() == [4.0, 2.0]


def test_a_closed_loop_keeps_its_population():
    requests = lengths_of([(5, 1 + i % 4) for i in range(40)])
    record = run(
        requests, "jsq", ClosedArrivals(40, population=7, prefill_s=no_prefill(40)), slots=2
    )
    for time in np.unique(record.ready_s):
        inside = (record.ready_s <= time) & ~(record.finished_s <= time)
        assert inside.sum() == min(7, 40 - (record.finished_s <= time).sum())


def test_an_immediate_router_waits_in_its_own_queue():
    # Round-robin puts 0 and 2 on replica 0; request 2 waits there although replica 1 is free.
    record = run(lengths_of([(5, 5), (5, 1), (5, 1)]), "round-robin", at_once(3))
    assert record.replica.tolist() == [0, 1, 0]
    assert record.admitted_step.tolist() == [0, 0, 5]


def test_a_request_larger_than_the_kv_capacity_is_named():
    with pytest.raises(InfeasibleError, match="request 1 reserves 14 KV tokens"):
        Simulation(
            lengths_of([(5, 2), (10, 4)]),
            build("jsq"),
            shape=ClusterShape(1, 1, kv_capacity=13),
            arrivals=at_once(2),
        )


def test_a_router_that_strands_requests_is_an_error():
    class Lazy:
        horizon = 0

        def tick(self, state):
            return []

    with pytest.raises(BrtheoryError, match="left 2 requests waiting"):
        Simulation(
            lengths_of([(5, 2), (5, 2)]), Lazy(), shape=ClusterShape(1, 1), arrivals=at_once(2)
        ).run()


def test_a_router_that_overfills_a_replica_is_an_error():
    class Greedy:
        horizon = 0

        def tick(self, state):
            return [Admission(r.id, 0) for r in state.pool]

    with pytest.raises(BrtheoryError, match="free slot"):
        Simulation(
            lengths_of([(5, 2), (5, 2)]), Greedy(), shape=ClusterShape(1, 1), arrivals=at_once(2)
        ).run()


@settings(max_examples=150)
@given(instances(), st.sampled_from(ROUTERS))
def test_every_replay_is_feasible_and_its_totals_are_the_judges(instance, name):
    """The engine's running sums equal what the solver-free judge recomputes."""
    requests = ordered_lengths(instance)
    oracle = OraclePredictor(dict(enumerate(requests.output_tokens.tolist())))
    verdict = evaluate(instance, replay(instance, build(name), predictor=oracle))
    assert verdict.feasible
    order = sorted(instance.requests, key=lambda r: (r.ready, r.id))
    record = Simulation(
        requests,
        build(name),
        shape=ClusterShape(instance.replicas, instance.slots, instance.kv_capacity),
        arrivals=StepArrivals(np.array([r.ready for r in order])),
        predictor=oracle,
    ).run()
    totals = record.totals
    assert (totals.steps, totals.sum_peak, totals.sum_load) == (
        verdict.steps,
        verdict.sum_peak,
        verdict.sum_load,
    )
    assert totals.sum_load == instance.total_work


@pytest.mark.parametrize(("kv_capacity", "told"), [(None, [0, 0]), (20, [7, 14])])
def test_a_router_is_told_reservations_only_where_kv_capacity_is_limited(kv_capacity, told):
    """A reservation is prompt + output: anywhere else it would give the output length away."""

    class Curious:
        def __init__(self):
            self.seen = []

        def place(self, request, view):
            self.seen.append(request.reserved_tokens)
            return 0

    router = Curious()
    Simulation(
        lengths_of([(5, 2), (10, 4)]),
        router,
        shape=ClusterShape(1, 1, kv_capacity=kv_capacity),
        arrivals=at_once(2),
    ).run()
    assert router.seen == told


def test_observers_see_every_executed_step_once():
    class Recorder:
        def __init__(self):
            self.steps, self.peaks = [], 0

        def on_steps(self, step, loads):
            self.steps += range(step, step + loads.shape[1])
            self.peaks += int(loads.max(axis=0).sum())

    recorder = Recorder()
    record = run(lengths_of([(5, 9), (7, 4), (2, 6)]), "br0", at_once(3), observers=[recorder])
    assert recorder.steps == list(range(record.totals.steps))
    assert recorder.peaks == record.totals.sum_peak


def test_progress_counts_every_completion():
    seen = []
    run(lengths_of([(5, 9), (7, 4), (2, 6)]), "br0", at_once(3), on_progress=seen.append)
    assert sum(seen) == 3


def test_an_instance_in_file_order_keeps_its_ids():
    instance = Instance(
        2, 1, None, 1e-7, 0.01, (OfflineRequest(9, 3, 5, 2), OfflineRequest(4, 0, 5, 9))
    )
    assert [(p.id, p.step) for p in replay(instance, build("jsq"))] == [(4, 0), (9, 3)]


def test_metrics_of_a_run_by_hand():
    record = run(lengths_of([(10, 2), (4, 3)]), "jsq", at_once(2), step_time=TOKEN)
    metrics = summarise(record)
    assert metrics["imbalance_mean_tokens"] == pytest.approx((2 * 27 - 36) / 3)
    assert metrics["spread_mean_tokens"] == 6
    assert metrics["barrier_idle_fraction"] == pytest.approx(18 / 54)
    assert metrics["throughput_tokens_per_s"] == pytest.approx(5 / 27)
    assert metrics["tpot_p50_s"] == pytest.approx((21 / 2 + 27 / 3) / 2)
    assert metrics["wait_max_s"] == 0
    assert metrics["loaded_window"] is None


def test_energy_of_one_replica_is_full_power():
    # u = 1 throughout: 400 W for the simulated time.
    record = run(lengths_of([(10, 5)]), "jsq", at_once(1), replicas=1, step_time=StepTime(0.1, 1.0))
    assert record.totals.energy_j == pytest.approx(400 * record.totals.clock_s)
