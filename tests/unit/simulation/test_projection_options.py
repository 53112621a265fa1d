"""BR-H's options in a run: horizon=auto is causal, all paths agree; gate, refresh, growth."""

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.auto_horizon import FIRST_HORIZON
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.prediction.protocol import Prediction
from brtheory.routers.params import BalanceFutureParams, HorizonParams
from brtheory.routers.reference import BalanceRouteHorizon
from brtheory.routers.registry import build_router, find_router
from brtheory.simulation.compiled.support import supported
from brtheory.simulation.metrics import summarise
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.projection import ProjectionTracker
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, Lengths
from brtheory.traces.schema import Trace


def trace_of(count, seed, *, longest=60):
    rng = np.random.default_rng(seed)
    return Trace(
        "drawn", "by hand", True, np.arange(count, dtype=np.float64) / 20,
        rng.integers(10, 2000, size=count), rng.integers(1, longest, size=count),
    )  # fmt: skip


def run(
    trace,
    *,
    predictor="oracle",
    backend="numpy",
    router="brh",
    stride=None,
    arrivals="closed:1.5",
    **options,
):
    kind = {"brh": HorizonParams, "bf-io": BalanceFutureParams}[router]
    config = RunConfig(
        router=router, shape=ClusterShape(3, 6), params=kind(**options), predictor=predictor,
        arrivals=parse_arrivals(arrivals), backend=backend,
    )  # fmt: skip
    return simulate(trace, config, longest_stride=stride)


class Fixed:
    """Says of every request what it is told to say, and counts how often it is asked."""

    def __init__(self, p_finish, mean):
        self.answer = Prediction(p_finish, mean)
        self.ages = []

    def predict(self, request, *, age, horizon):
        self.ages.append(age)
        return self.answer


class Follower:
    """A router that writes down which horizons it is told."""

    def __init__(self):
        self.horizons = []
        self.horizon_follows = True

    def look_ahead(self, horizon):
        self.horizons.append(horizon)


OPTIONS = [
    {"horizon": "auto"},
    {"horizon": "auto", "growth": "off", "discount": 0.9},
    {"horizon": 9, "growth": "off"},
    {"horizon": 9, "refresh": 2},
    {"horizon": 9, "gate": None},
    {"horizon": 9, "gate": 0.9, "refresh": 30},
]


@pytest.mark.parametrize("predictor", ["oracle", "survival"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_path_takes_the_same_decisions(options, predictor):
    trace = trace_of(250, seed=1)
    reference = run(trace, predictor=predictor, backend="reference", **options)
    for other in (
        run(trace, predictor=predictor, backend="numpy", **options),
        run(trace, predictor=predictor, backend="numpy", stride=1, **options),
    ):
        assert (other.admitted_step == reference.admitted_step).all()
        assert (other.replica == reference.replica).all()


@pytest.mark.parametrize("options", [{"horizon": "auto"}, {"horizon": 9, "refresh": 2}], ids=str)
def test_compiled_runs_take_them_too(options):
    pytest.importorskip("numba")
    trace = trace_of(250, seed=2)
    one, other = (run(trace, backend=name, **options) for name in ("reference", "compiled"))
    assert (one.admitted_step == other.admitted_step).all()
    assert (one.replica == other.replica).all()


@pytest.mark.parametrize("arrivals", ["open:1", "all"])
def test_the_horizon_does_not_depend_on_the_stride_across_idle_times(arrivals):
    trace = trace_of(200, seed=3, longest=8)
    one, other = (
        run(trace, predictor="survival", horizon="auto", arrivals=arrivals, stride=stride)
        for stride in (None, 1)
    )
    assert summarise(one) == summarise(other)


def test_options_change_what_is_decided():
    trace = trace_of(250, seed=4)
    plain = run(trace, predictor="survival", horizon=9)
    for options in ({"gate": None}, {"growth": "off"}):
        other = run(trace, predictor="survival", horizon=9, **options)
        assert (other.admitted_step != plain.admitted_step).any() or (
            other.replica != plain.replica
        ).any()


def tracked(predictor, *, horizon=6, rules=ProjectionRules(), router=None):
    return ProjectionTracker(predictor, replicas=1, horizon=horizon, rules=rules, router=router)


def test_the_gate_turns_uncertain_ends_into_anchors_and_none_does_not():
    # p = 0.4, mu = 1: c_hat = 0.6 * 6 + 0.4 * 1 = 4, present at h = 0 .. 3; gated: to the end.
    for gate, present in ((0.5, 7), (None, 4), (0.4, 4)):
        tracker = tracked(Fixed(0.4, 1.0), rules=ProjectionRules(gate=gate))
        tracker.admit(Request(0, 10), 0, step=0)
        row = tracker.rows(0)[0].tolist()
        assert row == [10 + h if h < present else 0 for h in range(7)]


def test_without_growth_a_request_weighs_what_it_weighs_now():
    tracker = tracked(Fixed(1.0, 3.0), rules=ProjectionRules(growth=False))
    tracker.admit(Request(0, 10), 0, step=0)
    assert tracker.rows(1)[0].tolist() == [11, 11, 0, 0, 0, 0, 0]


def test_a_request_is_asked_about_every_refresh_steps_of_its_life():
    for refresh, ages in ((None, [0, 3, 6, 9]), (4, [0, 4, 8]), (1, list(range(11)))):
        predictor = Fixed(0.0, None)
        tracker = tracked(predictor, rules=ProjectionRules(refresh=refresh))
        tracker.admit(Request(0, 10), 0, step=5)
        tracker.rows(15)
        assert predictor.ages == ages


def test_the_horizon_is_the_gap_once_enough_has_completed():
    # One request at a time on one replica, 5 steps each: a completion every 5 steps.
    router = Follower()
    tracker = tracked(Fixed(0.0, None), horizon=FIRST_HORIZON, router=router)
    for number in range(70):
        tracker.admit(Request(number, 10), 0, step=5 * number)
        tracker.retire(number, step=5 * number + 5)
        tracker.refit(5 * number + 5)
        # Known after the 64th completion and not before: nothing ahead is looked at.
        assert router.horizons == ([5] if number >= 63 else [])
    assert tracker.rows(350).shape == (1, 6)


def test_idle_steps_do_not_count():
    # As above with 100 idle steps after each request: steps with nothing active are not executed.
    router = Follower()
    tracker = tracked(Fixed(0.0, None), horizon=FIRST_HORIZON, router=router)
    for number in range(70):
        start = 105 * number
        tracker.admit(Request(number, 10), 0, step=start)
        tracker.retire(number, step=start + 5)
        tracker.refit(start + 5)
    assert router.horizons == [5]


def test_a_new_horizon_keeps_what_is_running():
    router = Follower()
    tracker = tracked(Fixed(0.0, None), horizon=FIRST_HORIZON, router=router)
    tracker.admit(Request(1000, 500), 0, step=0)
    for number in range(64):
        tracker.admit(Request(number, 10), 0, step=4 * number)
        tracker.retire(number, step=4 * number + 4)
        tracker.refit(4 * number + 4)
    assert router.horizons == [4]
    # 256 steps on, the long request weighs 756 and grows by one a step.
    assert tracker.rows(256)[0].tolist() == [756, 757, 758, 759, 760]


def test_the_compiled_loop_refuses_what_it_does_not_have():
    lengths = Lengths(np.array([5, 6]), np.array([3, 4]))
    plan = ArrivalPlan("closed", np.zeros(2), population=2)
    spec = find_router("brh")
    rng = np.random.default_rng(0)
    for options, expected in (
        ({}, True),
        ({"refresh": 3, "gate": None}, True),
        ({"horizon": "auto"}, False),
        ({"growth": "off"}, False),
    ):
        router = build_router(spec, HorizonParams(**options), rng, backend="reference")
        assert supported(lengths, router, plan, None) is expected
    rule = build_router(find_router("bf-io"), BalanceFutureParams(), rng)
    assert not supported(lengths, rule, plan, None)


def test_a_model_bound_to_one_horizon_is_refused():
    with pytest.raises(InputError, match="not bound to a fixed horizon"):
        run(trace_of(10, seed=5), predictor="learned", horizon="auto")


def test_a_fixed_horizon_stays():
    router = BalanceRouteHorizon(HorizonParams(horizon=7))
    router.look_ahead(7)
    with pytest.raises(InputError, match="horizon: expected 7, as in the parameters, got 8"):
        router.look_ahead(8)
    fast = build_router(find_router("brh"), HorizonParams(horizon=7), np.random.default_rng(0))
    with pytest.raises(InputError, match="horizon: expected 7"):
        fast.look_ahead(8)


@pytest.mark.parametrize("predictor", ["oracle", "survival"])
def test_bf_io_runs_with_any_predictor(predictor):
    record = run(trace_of(150, seed=6), router="bf-io", predictor=predictor)
    assert record.totals.completed == 150
    again = run(trace_of(150, seed=6), router="bf-io", predictor=predictor, stride=1)
    assert (again.admitted_step == record.admitted_step).all()
