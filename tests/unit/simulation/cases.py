"""Runs of the engine for tests: every router, small random requests, arrivals of every kind."""

import numpy as np
from hypothesis import strategies as st

from brtheory.core.unequal import Replica
from brtheory.prediction.oracle import OraclePredictor
from brtheory.routers.params import params_from_text
from brtheory.routers.registry import build_router, find_router
from brtheory.simulation.engine import Simulation
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime, unequal_shape

ROUTERS = [
    "random",
    "round-robin",
    "p2c",
    "jsq",
    "engine-score",
    "least-tokens",
    "pool-fifo",
    "br0",
    "brh",
    "window",
]
WITH_OPTIONS = [*ROUTERS, "brh:horizon=auto", "brh:growth=off"]
"""Routers by name, and with an option."""
# Powers of two make sums of times exact, so that arrivals tie with the clock; 0.1 does not.
STEP_TIMES = [StepTime(a0=2**-10, b0=2**-4), StepTime(a0=1e-3, b0=0.1), StepTime(a0=0.0, b0=0.5)]

requests_lists = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=25
)
step_times = st.sampled_from(STEP_TIMES)
alike_shapes = st.builds(
    ClusterShape,
    replicas=st.integers(1, 4),
    slots=st.integers(1, 3),
    kv_capacity=st.one_of(st.none(), st.integers(70, 150)),
)
unequal_shapes = st.lists(
    st.builds(Replica, slots=st.integers(1, 3), speed=st.sampled_from([1.0, 0.5, 0.7, 2.0])),
    min_size=1,
    max_size=4,
).map(unequal_shape)


@st.composite
def plans(draw, requests, prefill_s=st.just((0.0, 0.0))):
    """Closed, timed or stepwise arrivals; ``prefill_s`` draws seconds a request and a token."""
    n = len(requests)
    fixed, per_token = draw(prefill_s)
    prefill = fixed + per_token * np.array([float(prompt) for prompt, _ in requests])
    kind = draw(st.sampled_from(["closed", "timed", "steps"]))
    gaps = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    if kind == "closed":
        return ArrivalPlan("closed", prefill, population=draw(st.integers(1, 12)))
    if kind == "timed":
        return ArrivalPlan("timed", prefill, arrival_s=np.cumsum(gaps) / 16)
    return ArrivalPlan("steps", prefill, ready_step=np.cumsum(gaps) * draw(st.integers(1, 9)))


def lengths_of(requests):
    """Pairs of prompt and output tokens as the engine takes them."""
    prompts, outputs = zip(*requests, strict=True)
    return Lengths(np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64))


def run(requests, name, **case):
    """Run a router of a name as in ``WITH_OPTIONS``."""
    name, _, option = name.partition(":")
    given = {"horizon": "4"} if name == "brh" else {}
    given |= dict([option.split("=")]) if option else {}
    params = params_from_text(find_router(name).params, given, where=name)
    return run_params(requests, name, params, **case)


def run_params(
    requests,
    name,
    params,
    *,
    shape,
    plan,
    step_time,
    backend="reference",
    predictor=None,
    **options,
):
    """Run a router of these parameters on pairs of prompt and output tokens."""
    lengths = lengths_of(requests)
    return Simulation(
        lengths,
        build_router(find_router(name), params, np.random.default_rng(7), backend=backend),
        shape=shape,
        arrivals=plan.source(),
        step_time=step_time,
        predictor=predictor or OraclePredictor(dict(enumerate(lengths.output_tokens.tolist()))),
        **options,
    ).run()


def assert_same(record, expected):
    """Equal to the last bit."""
    assert record.totals == expected.totals
    assert record.window_start == expected.window_start
    assert record.window_end == expected.window_end
    names = ["replica", "admitted_step", "arrival_s", "ready_s", "admitted_s", "finished_s"]
    if expected.started_s is not None:
        names.append("started_s")
    for name in names:
        assert np.array_equal(getattr(record, name), getattr(expected, name)), name
