"""Perturbed runs: nothing wrong is nothing changed; bursts, drift and errors have their laws."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.protocol import OnlinePredictor, Prediction
from brtheory.prediction.registry import ONLINE_PREDICTORS, build_online_predictor
from brtheory.simulation.bursts import burst_arrivals
from brtheory.simulation.perturbation import Perturbation, drifted, misled, observed
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import ArrivalSpec, parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.simulation.wrong_predictor import PredictionError, WrongPredictor
from tests.unit.simulation.cases import assert_same
from tests.unit.simulation.test_run import trace_of

SHAPE = ClusterShape(3, 4)


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("router", ["p2c", "least-tokens", "br0", "brh", "window"])
def test_nothing_wrong_is_the_unperturbed_run(router):
    trace = trace_of(150, synthetic=True)
    plain = simulate(trace, RunConfig(router, SHAPE))
    assert_same(simulate(trace, RunConfig(router, SHAPE, perturbation=Perturbation())), plain)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stale_steps": 9},
        {"token_noise": 0.7},
        {"token_bias": 0.01},
        {"prediction_noise": 1.0},
        {"prediction_bias": 0.2},
        {"flip_rate": 0.4},
        {"drift": 0.5},
    ],
    ids=str,
)
def test_each_perturbation_changes_a_run_and_the_seed_repeats_it(wrong):
    trace = trace_of(150, synthetic=True)
    config = RunConfig("brh", SHAPE, perturbation=Perturbation(**wrong), seed=3)
    record = simulate(trace, config)
    assert_same(simulate(trace, config), record)
    plain = simulate(trace, RunConfig("brh", SHAPE, seed=3))
    assert not np.array_equal(record.replica, plain.replica)
    assert record.totals.sum_load == plain.totals.sum_load


@pytest.mark.parametrize("predictor", ["survival", "exact-match"])
def test_errors_of_predictors_that_learn_do_not_depend_on_the_stride(predictor):
    trace = trace_of(120, synthetic=True)
    wrong = Perturbation(prediction_noise=0.5, flip_rate=0.2, stale_steps=3, token_noise=0.2)
    config = RunConfig("brh", SHAPE, predictor=predictor, perturbation=wrong)
    assert_same(simulate(trace, config), simulate(trace, config, longest_stride=1))


def test_prompts_are_misjudged_by_the_factor_asked_for():
    prompts = np.full(40_000, 1000)
    seen = observed(Perturbation(token_noise=0.5, token_bias=2.0), prompts, generator())
    assert seen is not None
    # Lognormal of mean 1: standard error sqrt(exp(0.25) - 1)/200 = 0.3 % of the mean.
    assert seen.prompt_tokens.mean() == pytest.approx(2000, rel=0.01)
    assert np.log(seen.prompt_tokens).std() == pytest.approx(0.5, rel=0.02)
    tiny = observed(Perturbation(token_bias=1e-3), np.array([1, 2]), generator())
    assert tiny is not None
    assert tiny.prompt_tokens.tolist() == [1, 1]


@given(st.floats(0, 1), st.integers(1, 60))
def test_drift_keeps_every_request_and_all_arrival_times(drift, n):
    trace = trace_of(n)
    moved = drifted(trace, Perturbation(drift=drift), generator())
    assert np.array_equal(moved.arrival_s, trace.arrival_s)
    pairs = [
        Counter(zip(t.prompt_tokens.tolist(), t.output_tokens.tolist(), strict=True))
        for t in (trace, moved)
    ]
    assert pairs[0] == pairs[1]
    if drift == 1:
        assert (np.diff(moved.output_tokens) >= 0).all()


def test_half_a_drift_is_half_as_steep():
    trace = trace_of(20_000)
    outputs = drifted(trace, Perturbation(drift=0.5), generator()).output_tokens
    # Uniform on 1 .. 29: in the first tenth half the requests average 15, half about 1 + 28/20.
    assert outputs[:2000].mean() == pytest.approx((15 + 1.95) / 2, rel=0.05)
    assert outputs[-2000:].mean() == pytest.approx((15 + 28.05) / 2, rel=0.05)


def test_bursts_keep_the_rate_and_bunch_the_arrivals():
    gaps = generator().exponential(0.1, size=50_000)
    plain, bursts = (
        burst_arrivals(gaps, burst=b, cycle_s=10.0, rng=generator(1)) for b in (1.0, 5.0)
    )
    assert np.array_equal(plain, np.cumsum(gaps) - gaps[0])
    # About 500 cycles of 10 s: off times alone have a standard error of 8 / sqrt(500) = 4 %.
    assert bursts[-1] == pytest.approx(plain[-1], rel=0.12)
    # Counts per second of an interrupted Poisson process are overdispersed, Poisson's are not.
    for times, low, high in ((plain, 0.9, 1.1), (bursts, 5, 100)):
        counts = np.bincount(times.astype(int))
        assert low < counts.var() / counts.mean() < high


def test_burst_texts():
    spec = ArrivalSpec("rho", 0.8, burst=4.0, cycle_s=30.0)
    assert parse_arrivals("open:rho=0.8:burst=4:cycle=30") == spec == parse_arrivals(str(spec))
    assert parse_arrivals("open:rho=0.8:burst=4") == ArrivalSpec("rho", 0.8, burst=4.0)


@pytest.mark.parametrize(
    "text", ["open:rho=1:burst=0.5", "open:rho=1:burst=", "open:rho=1:burst=2:cycle=0"]
)
def test_burst_texts_that_are_none(text):
    with pytest.raises(Exception, match="burst=B"):
        parse_arrivals(text)


def test_bursts_at_one_are_plain_poisson_runs():
    trace = trace_of(100, synthetic=True)
    plain, bursts = (
        simulate(trace, RunConfig("jsq", SHAPE, arrivals=ArrivalSpec("rho", 0.8, burst=b)))
        for b in (1.0, 6.0)
    )
    same = simulate(trace, RunConfig("jsq", SHAPE, arrivals=parse_arrivals("open:rho=0.8")))
    assert_same(plain, same)
    assert bursts.arrival_s[-1] != plain.arrival_s[-1]


class Fixed:
    def __init__(self, answer):
        self.answer = answer

    def predict(self, request, *, age, horizon):
        return self.answer


def answers(answer, error, *, n=4000, horizon=20):
    wrong = WrongPredictor(Fixed(answer), error)
    return [wrong.predict(Request(i, 5), age=0, horizon=horizon) for i in range(n)]


@given(st.floats(0, 1), st.floats(1, 20), st.floats(0, 3), st.floats(0.01, 9), st.floats(0, 1))
def test_wrong_predictions_stay_within_the_contract(p, mean, noise, bias, flips):
    answer = Prediction(p, mean if p > 0 else None)
    for made in answers(answer, PredictionError(noise, bias, flips), n=20):
        assert 0 <= made.p_finish <= 1
        assert (made.mean_remaining is None) == (made.p_finish == 0)
        assert made.mean_remaining is None or 1 <= made.mean_remaining <= 20


def test_verdicts_are_turned_round_at_the_rate_asked_for():
    made = answers(Prediction(1.0, 3.0), PredictionError(flip_rate=0.3))
    # 4000 draws: standard error 0.7 %.
    assert np.mean([m.p_finish == 0 for m in made]) == pytest.approx(0.3, abs=0.03)
    alarms = answers(Prediction(0.0, None), PredictionError(flip_rate=1.0))
    assert np.mean([m.mean_remaining for m in alarms]) == pytest.approx(10.5, rel=0.03)


def test_an_error_belongs_to_the_request_and_its_age():
    wrong = WrongPredictor(Fixed(Prediction(1.0, 9.0)), PredictionError(noise=1.0))
    first = wrong.predict(Request(4, 5), age=8, horizon=20)
    wrong.predict(Request(1, 5), age=8, horizon=20)
    assert wrong.predict(Request(4, 5), age=8, horizon=20) == first
    assert wrong.predict(Request(4, 5), age=9, horizon=20) != first


@pytest.mark.parametrize("name", ONLINE_PREDICTORS)
def test_a_wrong_predictor_learns_exactly_if_the_right_one_does(name):
    learner = build_online_predictor(name, horizon=8)
    wrong = Perturbation(flip_rate=0.1)
    assert isinstance(misled(wrong, learner, seed=0), OnlinePredictor)
    assert not isinstance(misled(wrong, OraclePredictor({}), seed=0), OnlinePredictor)
    assert misled(Perturbation(drift=1.0), learner, seed=0) is learner
