"""Arrival texts, seeds, loads of the open loop, and the metrics of a window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.simulation import run as run_module
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, saturated_rate, seeded, simulate
from brtheory.simulation.spec import ArrivalSpec, parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.schema import Trace

SHAPE = ClusterShape(replicas=3, slots=4)


def trace_of(n, *, synthetic=False, seed=0):
    rng = np.random.default_rng(seed)
    return Trace(
        name="t",
        source="test",
        synthetic=synthetic,
        arrival_s=np.cumsum(rng.exponential(0.3, size=n)),
        prompt_tokens=rng.integers(1, 400, size=n),
        output_tokens=rng.integers(1, 30, size=n),
        prefix_id=None,
    )


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("closed:1.25", ArrivalSpec("closed", 1.25)),
        ("open:2", ArrivalSpec("open", 2.0)),
        ("open:rho=0.8", ArrivalSpec("rho", 0.8)),
        ("all", ArrivalSpec("all")),
    ],
)
def test_arrival_texts(text, spec):
    assert parse_arrivals(text) == spec
    assert parse_arrivals(str(spec)) == spec


@pytest.mark.parametrize(
    "text", ["", "closed", "closed:", "closed:0", "open:-1", "open:inf", "ALL"]
)
def test_arrival_texts_that_are_none(text):
    with pytest.raises(InputError, match="closed:X, open:X"):
        parse_arrivals(text)


@given(st.integers(1, 10**6))
def test_a_seed_rotates_a_real_trace(seed):
    """The same requests in the same cyclic order, times increasing from 0."""
    trace = trace_of(20)
    rotated = seeded(trace, seed)
    pairs = list(zip(trace.prompt_tokens, trace.output_tokens, strict=True))
    turned = list(zip(rotated.prompt_tokens, rotated.output_tokens, strict=True))
    assert turned in [pairs[k:] + pairs[:k] for k in range(20)]
    assert rotated.arrival_s[0] == 0
    assert (np.diff(rotated.arrival_s) > 0).all()


def test_seed_zero_and_synthetic_traces_keep_their_order():
    assert seeded(trace_of(20), 0).prompt_tokens.tolist() == trace_of(20).prompt_tokens.tolist()
    synthetic = trace_of(20, synthetic=True)
    assert seeded(synthetic, 7) is synthetic


def config(arrivals, router="jsq", **fields):
    return RunConfig(router=router, shape=SHAPE, arrivals=parse_arrivals(arrivals), **fields)


def test_doubling_the_open_rate_halves_the_arrival_times():
    trace = trace_of(30)
    slow, fast = (simulate(trace, config(f"open:{x}")) for x in (1, 2))
    assert fast.arrival_s == pytest.approx(slow.arrival_s / 2)


def test_rho_sets_the_poisson_rate_against_saturated_br0():
    trace = trace_of(2000)
    wanted = config("open:rho=0.5", seed=3)
    record = simulate(trace, wanted)
    rate = (len(trace) - 1) / record.arrival_s[-1]
    # The mean of n exponential gaps has a relative standard error of 1/sqrt(n) = 2.2 %.
    assert rate == pytest.approx(0.5 * saturated_rate(trace, wanted), rel=0.1)


@pytest.mark.parametrize("router", ["jsq", "br0"])
def test_the_loaded_window_is_full_in_a_saturated_closed_loop(router):
    trace = trace_of(600)
    record = simulate(trace, config("closed:2", router=router))
    window = summarise(record)["loaded_window"]
    # Every slot busy at every step: one token each.
    assert record.window_end.decoded_tokens - record.window_start.decoded_tokens == (
        SHAPE.replicas * SHAPE.slots * window["steps"]
    )
    assert window["requests"] < 600


@pytest.mark.parametrize(
    ("arrivals", "end"),
    [
        # A completion makes the last request ready at once, though no slot is free for it yet.
        ("closed:2", lambda record: record.ready_s.max()),
        # At light load the last one is admitted at the first step boundary after its arrival.
        ("open:4", lambda record: record.admitted_s[record.ready_s.argmax()]),
    ],
)
def test_the_loaded_window_runs_from_a_tenth_completed_to_the_last_one_ready(arrivals, end):
    record = simulate(trace_of(200), config(arrivals))
    tenth = np.sort(record.finished_s)[19]
    assert record.window_start.clock_s == tenth
    assert record.window_start.completed == (record.finished_s <= tenth).sum()
    assert record.window_end.clock_s == end(record)
    assert record.window_end.completed == (record.finished_s <= end(record)).sum()


def test_requests_of_the_window_are_the_middle_ones_by_arrival():
    # Far beyond saturation: the last tenth waits longest, and is left out.
    record = simulate(trace_of(200), config("open:100"))
    middle = np.argsort(record.arrival_s, kind="stable")[20:180]
    waits = (record.admitted_s - record.ready_s)[middle]
    window = summarise(record)["loaded_window"]
    assert window["wait_max_s"] == waits.max()
    assert window["wait_p99_s"] == pytest.approx(np.percentile(waits, 99))
    assert window["wait_max_s"] != summarise(record)["wait_max_s"]


def test_the_window_is_none_where_it_is_empty():
    assert summarise(simulate(trace_of(50), config("all")))["loaded_window"] is None


def test_an_unknown_predictor_is_refused():
    with pytest.raises(InputError, match="predictor"):
        simulate(trace_of(5), config("all", router="brh", predictor="crystal-ball"))


@pytest.mark.parametrize(
    ("requests", "cached", "wanted"),
    [(9_999, True, False), (10_000, True, True), (10_000, False, False), (500_000, False, True)],
)
def test_auto_compiles_where_it_pays(requests, cached, wanted, monkeypatch):
    monkeypatch.setattr(run_module, "compiled_available", lambda: True)
    monkeypatch.setattr(run_module, "kernels_cached", lambda: cached)
    assert run_module._wants_compiled(requests, "auto") is wanted
