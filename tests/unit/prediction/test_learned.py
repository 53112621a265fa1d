"""Learned predictor online: no leaks, retrained as it goes, better where features tell more."""

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.causality import find_leak
from brtheory.prediction.evaluation import (
    evaluate,
    query_microseconds,
    step_of_share,
    train_on_start,
)
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.features import FEATURES, UNKNOWN, features_of
from brtheory.prediction.learned import LearnedPredictor
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.prequential import Timeline, play
from brtheory.prediction.protocol import OnlinePredictor
from brtheory.prediction.registry import (
    ONLINE_PREDICTORS,
    PredictorOptions,
    build_online_predictor,
)
from brtheory.prediction.training import TrainingSettings

HORIZON = 20
SMALL = TrainingSettings(trees=12)


def run_of(count, seed, *, prefixes=None):
    """Outputs are a tenth of the prompt, give or take; about sixty requests at a time."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(10, 1000, size=count)
    outputs = np.maximum(1, prompts // 10 + rng.integers(-5, 6, size=count))
    return Timeline(
        prompts,
        outputs,
        np.arange(count, dtype=np.int64),
        None if prefixes is None else rng.integers(0, prefixes, size=count),
    )


def learner(run, **options):
    memory = ExactMatchPredictor(run.prefix_of)
    settings = {"rng": np.random.default_rng(1), "retrain_every": 150, "settings": SMALL}
    return LearnedPredictor(memory, horizon=HORIZON, **(settings | options))


@pytest.fixture(scope="module")
def run():
    return run_of(900, seed=0)


def test_it_learns_online_what_survival_cannot_see(run):
    learned = learner(run)
    assert isinstance(learned, OnlinePredictor)
    result = evaluate(run, learned, horizon=HORIZON)
    survival = evaluate(run, build_online_predictor("survival", horizon=HORIZON), horizon=HORIZON)
    assert learned.model is not None
    assert result.scores.auc > 0.95 > survival.scores.auc
    assert result.scores.brier < survival.scores.brier
    assert result.scores.mae_steps < survival.scores.mae_steps
    assert result.scores.predictions == survival.scores.predictions


def test_it_does_not_leak_though_it_trains_in_the_middle_of_the_run():
    run = run_of(500, seed=2, prefixes=9)
    learned = learner(run, retrain_every=80)
    play(run, learned, horizon=HORIZON, until=250)
    assert learned.model is not None
    rng = np.random.default_rng(3)
    make = lambda twin: learner(twin, retrain_every=80)  # noqa: E731  # named for the reader
    assert find_leak(make, run, horizon=HORIZON, rng=rng, cuts=3) is None


class TrainsOnTheWholeRun(LearnedPredictor):
    """A model trained in advance on rows of the whole run: the usual shuffled split."""

    def __init__(self, run):
        model = train_on_start(
            run, horizon=HORIZON, share=0.999, rng=np.random.default_rng(1), settings=SMALL
        )
        memory = ExactMatchPredictor(run.prefix_of)
        rng = np.random.default_rng(1)
        super().__init__(memory, horizon=HORIZON, rng=rng, model=model, retrain_every=None)


def test_training_rows_from_the_future_are_caught(run):
    rng = np.random.default_rng(4)
    assert find_leak(TrainsOnTheWholeRun, run, horizon=HORIZON, rng=rng, cuts=1) is not None


def test_training_on_the_start_uses_nothing_that_is_known_later(run):
    # Lengths of requests not finished at the end of the part do not matter to the model.
    until = step_of_share(run, 0.6)
    later = run.finish_step > until
    outputs = np.where(later, np.maximum(1, until + 1 - run.admitted_step) + 500, run.output_tokens)
    other = Timeline(run.prompt_tokens, outputs, run.admitted_step)
    # The part ends at the same step of both runs, which is another share of each.
    share = float((other.finish_step <= until).mean())
    one, changed = (
        train_on_start(
            each, horizon=HORIZON, share=part, rng=np.random.default_rng(5), settings=SMALL
        )
        for each, part in ((run, 0.6), (other, share))
    )
    assert step_of_share(other, share) == until
    assert (changed.finish.value == one.finish.value).all()
    assert (changed.slope, changed.intercept) == (one.slope, one.intercept)


def test_until_there_is_a_model_the_memory_answers(run):
    learned, memory = learner(run), ExactMatchPredictor(run.prefix_of)
    until = 60
    assert learned.model is None
    mine = play(run, learned, horizon=HORIZON, until=until)
    others = play(run, memory, horizon=HORIZON, until=until)
    assert (mine.p_finish == others.p_finish).all()


def test_a_given_model_is_used_at_once_and_not_retrained(run):
    model = train_on_start(
        run, horizon=HORIZON, share=0.5, rng=np.random.default_rng(6), settings=SMALL
    )
    options = PredictorOptions(prefix_of=run.prefix_of, model=model)
    learned = build_online_predictor("learned", horizon=HORIZON, options=options)
    result = evaluate(run, learned, horizon=HORIZON, warmup=0.5)
    assert learned.model is model
    assert len(learned.rows()) == 0
    assert result.scores.auc > 0.95


def test_cancelled_requests_reach_the_memory_and_the_rows(run):
    learned = learner(run)
    one = Request(0, 100)
    learned.observe_admitted(one)
    learned.predict(one, age=0, horizon=HORIZON)
    learned.observe_cancelled(one, output_tokens=HORIZON + 1)
    assert learned.rows().remaining.tolist() == [HORIZON + 1]


def test_features_are_what_is_known_by_then():
    memory = ExactMatchPredictor(lambda request: request.id % 2, least_finished=1)
    for index, output in ((0, 10), (1, 30)):
        memory.observe_admitted(Request(index, 5))
        memory.observe_finished(Request(index, 5), output_tokens=output)
    memory.refit([])
    memory.observe_admitted(Request(2, 77))
    row = features_of(Request(2, 77), age=4, horizon=HORIZON, memory=memory)
    # All: 10 or 30, half within 4 + 20, after 6 steps. Same prefix: 10, so p = 1, after 6 steps.
    assert dict(zip(FEATURES, row.tolist(), strict=True)) == {
        "prompt_tokens": 77,
        "age": 4,
        "survival_p_finish": 0.5,
        "survival_mean_remaining": 6,
        "prefix_finished": 1,
        "prefix_p_finish": 1,
        "prefix_mean_remaining": 6,
        "prefix_longest": 10,
    }
    fresh = ExactMatchPredictor(lambda _request: None)
    row = features_of(Request(9, 8), age=0, horizon=HORIZON, memory=fresh)
    assert row.tolist() == [8, 0, 0, UNKNOWN, 0, UNKNOWN, UNKNOWN, UNKNOWN]


def test_another_horizon_than_the_learned_one_is_refused(run):
    with pytest.raises(InputError, match="horizon: expected 20, as learned, got 30"):
        learner(run).predict(Request(0, 5), age=0, horizon=30)
    model = train_on_start(
        run, horizon=HORIZON, share=0.5, rng=np.random.default_rng(6), settings=SMALL
    )
    with pytest.raises(InputError, match="horizon: expected 20, the model's, got 30"):
        LearnedPredictor(
            ExactMatchPredictor(run.prefix_of),
            horizon=30,
            rng=np.random.default_rng(0),
            model=model,
        )
    with pytest.raises(InputError, match="retrain_every"):
        learner(run, retrain_every=0)


def test_every_name_builds_and_others_are_refused():
    for name in ONLINE_PREDICTORS:
        assert isinstance(build_online_predictor(name, horizon=8), OnlinePredictor)
    with pytest.raises(InputError, match="one of survival, exact-match, learned, got 'oracle'"):
        build_online_predictor("oracle", horizon=8)


def test_the_oracle_is_perfect(run):
    oracle = OraclePredictor(dict(enumerate(run.output_tokens.tolist())))
    scores = evaluate(run, oracle, horizon=HORIZON).scores
    assert (scores.auc, scores.brier, scores.mae_steps) == (1.0, 0.0, 0.0)


def test_the_warm_up_is_a_share_of_finished_requests():
    run = Timeline(np.array([1, 1, 1, 1]), np.array([9, 2, 4, 7]), np.array([0, 0, 0, 0]))
    assert [step_of_share(run, share) for share in (0.0, 0.25, 0.5, 0.75)] == [0, 2, 4, 7]
    for wrong in (-0.1, 1.0):
        with pytest.raises(InputError, match="share"):
            step_of_share(run, wrong)


def test_queries_are_timed_by_the_given_clock(run):
    oracle = OraclePredictor(dict(enumerate(run.output_tokens.tolist())))
    answers = play(run, oracle, horizon=HORIZON, until=50)
    ticks = iter([10.0, 10.5])
    mean = query_microseconds(
        run, oracle, answers, horizon=HORIZON, clock=lambda: next(ticks), queries=10
    )
    assert mean == pytest.approx(0.5e6 / 10)
    nothing = play(run, oracle, horizon=HORIZON, until=-1)
    assert query_microseconds(run, oracle, nothing, horizon=HORIZON, clock=lambda: 0.0) is None
