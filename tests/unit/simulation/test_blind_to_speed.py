"""Routers that do not know speeds: they decide as if replicas were alike, and time tells."""

from dataclasses import replace

import numpy as np
import pytest

from brtheory.core.unequal import Replica
from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import ArrivalSpec
from brtheory.simulation.workload import ClusterShape, StepTime, unequal_shape
from tests.unit.simulation.cases import assert_same
from tests.unit.simulation.test_run import trace_of

SPEEDS = (1.0, 0.5, 0.25)
DIFFERENT = unequal_shape([Replica(4, speed) for speed in SPEEDS])
BLIND = Perturbation(knows_speeds=False)
CLOSED = ArrivalSpec("closed", 1.5)


@pytest.mark.parametrize("router", ["least-tokens", "pool-fifo", "br0", "brh"])
def test_a_blind_router_decides_as_on_equal_replicas(router):
    """In a closed loop only completions admit requests, and they come by steps, not by time."""
    trace = trace_of(150, synthetic=True)
    alike = simulate(trace, RunConfig(router, ClusterShape(3, 4), arrivals=CLOSED))
    blind = simulate(trace, RunConfig(router, DIFFERENT, arrivals=CLOSED, perturbation=BLIND))
    assert np.array_equal(blind.replica, alike.replica)
    assert blind.totals.sum_peak == alike.totals.sum_peak
    assert blind.totals.clock_s > alike.totals.clock_s


@pytest.mark.parametrize("router", ["least-tokens", "br0", "window"])
def test_knowing_speeds_changes_decisions_and_saves_time(router):
    """Tokens dominate a step here, so putting them where they are cheap must pay."""
    trace, step_time = trace_of(300, synthetic=True), StepTime(a0=1e-5, b0=1e-4)
    config = RunConfig(router, DIFFERENT, arrivals=CLOSED, step_time=step_time)
    known = simulate(trace, config)
    blind = simulate(trace, replace(config, perturbation=BLIND))
    assert known.totals.clock_s < blind.totals.clock_s


@pytest.mark.parametrize("router", ["jsq", "round-robin", "p2c"])
def test_a_router_that_counts_requests_has_nothing_to_forget(router):
    trace = trace_of(150, synthetic=True)
    config = RunConfig(router, DIFFERENT, arrivals=CLOSED)
    blind = RunConfig(router, DIFFERENT, arrivals=CLOSED, perturbation=BLIND)
    assert_same(simulate(trace, blind), simulate(trace, config))
