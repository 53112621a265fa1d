"""The learned model: equal to the library that grew it, in order of time, calibrated, portable."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from brtheory.errors import InputError, MissingExtraError
from brtheory.prediction.calibration import score
from brtheory.prediction.features import FEATURES
from brtheory.prediction.training import TrainingSettings, train, trainable
from brtheory.prediction.training_rows import TrainingRows
from brtheory.prediction.trees import TreeEnsemble, join_trees
from brtheory.prediction.two_stage import TwoStageModel

HORIZON = 40
SMALL = TrainingSettings(trees=20)


def rows(count, seed, *, noise=10.0):
    """Rows whose remaining steps are the prompt feature plus noise."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 100, size=(count, len(FEATURES)))
    remaining = np.maximum(1, np.round(features[:, 0] + rng.normal(0, noise, count)))
    return TrainingRows(features, np.minimum(remaining, HORIZON + 1).astype(np.int64))


def fit(data, seed=1, settings=SMALL):
    return train(data, horizon=HORIZON, rng=np.random.default_rng(seed), settings=settings)


@pytest.fixture(scope="module")
def model():
    return fit(rows(4000, seed=0))


def predictions(model, features):
    made = [model.predict(row) for row in features]
    return np.array([m.p_finish for m in made]), np.array([m.mean_remaining for m in made])


def scores(model, data):
    p, mean = predictions(model, data.features)
    return score(p, mean, remaining=data.remaining, horizon=HORIZON)


def test_both_stages_equal_the_library_that_grew_them(model):
    # Grown again from the same draws: random_state is the first and the second integer of the rng.
    data, rng = rows(4000, seed=0), np.random.default_rng(1)
    earlier = data.part(0, 3000)
    common = {"n_estimators": 20, "max_depth": 3, "min_samples_leaf": 20, "subsample": 0.5}
    classifier = GradientBoostingClassifier(**common, random_state=int(rng.integers(2**31)))
    classifier.fit(earlier.features, earlier.remaining <= HORIZON)
    ended = earlier.remaining <= HORIZON
    regressor = GradientBoostingRegressor(**common, random_state=int(rng.integers(2**31)))
    regressor.fit(earlier.features[ended], earlier.remaining[ended])
    later = rows(500, seed=2).features
    decision = classifier.decision_function(later)
    np.testing.assert_allclose(model.finish.evaluate(later), decision, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.mean.evaluate(later), regressor.predict(later), rtol=1e-9)


def test_it_learns_what_can_be_learned_and_says_how_sure_it_is(model):
    result = scores(model, rows(4000, seed=3))
    # Twice the noise around H is uncertain; the truth itself has a Brier score of about 0.03.
    assert result.auc > 0.97
    assert result.brier < 0.06
    assert result.calibration_error < 0.03
    # Noise of standard deviation 10, cut off at H: about 7 steps in the mean.
    assert result.mae_steps < 8.0


def test_calibration_on_later_rows_follows_a_shift_that_the_trees_have_not_seen():
    # In the last quarter, on which only slope and intercept are fitted, a good half of what used
    # to end goes on: the share that ends falls from 0.4 to below 0.2.
    data = rows(4000, seed=4)
    goes_on = (np.random.default_rng(5).random(4000) < 0.6) & (np.arange(4000) >= 3000)
    shifted = np.where(goes_on, HORIZON + 1, data.remaining)
    model = fit(TrainingRows(data.features, shifted))
    p, _ = predictions(model, data.features[3000:])
    assert p.mean() == pytest.approx((shifted[3000:] <= HORIZON).mean(), abs=0.01)


def test_the_mean_is_learned_from_ends_only():
    # Half the rows never end and say nothing about when: all others end after exactly 7 steps.
    features = np.zeros((400, len(FEATURES)))
    features[::2, 0] = 1.0
    remaining = np.where(features[:, 0] == 1.0, HORIZON + 1, 7)
    model = fit(TrainingRows(features, remaining))
    _, mean = predictions(model, features)
    np.testing.assert_allclose(mean, 7.0)


def test_scores_that_rank_later_rows_the_wrong_way_round_are_given_up():
    # What the feature says is turned around in the last quarter.
    features = np.zeros((800, len(FEATURES)))
    features[:, 0] = np.arange(800) % 2
    ends = (features[:, 0] == 0) ^ (np.arange(800) >= 600)
    model = fit(TrainingRows(features, np.where(ends, 5, HORIZON + 1)))
    p, _ = predictions(model, features)
    assert model.slope == 0.0
    np.testing.assert_allclose(p, 0.5)


def test_a_prediction_is_what_the_two_stages_say(model):
    features = rows(50, seed=6).features
    p, mean = predictions(model, features)
    logit = model.slope * model.finish.evaluate(features) + model.intercept
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-logit)), rtol=1e-12)
    np.testing.assert_allclose(mean, np.clip(model.mean.evaluate(features), 1, HORIZON), rtol=1e-12)


def test_answers_stay_in_the_range_of_the_contract(model):
    wild = np.random.default_rng(7).uniform(-1e6, 1e6, size=(1000, len(FEATURES)))
    p, mean = predictions(model, wild)
    assert ((p >= 0) & (p <= 1)).all()
    assert ((mean >= 1) & (mean <= HORIZON)).all()


def test_the_same_seed_gives_the_same_model():
    data = rows(800, seed=8)
    one, same, other = fit(data, seed=9), fit(data, seed=9), fit(data, seed=10)
    assert (one.finish.value == same.finish.value).all()
    assert not np.array_equal(one.finish.value, other.finish.value)


def test_too_few_rows_of_a_kind_are_refused():
    data = rows(4000, seed=0)
    late = TrainingRows(data.features, np.where(np.arange(4000) < 3000, 5, HORIZON + 1))
    for unfit in (data.part(0, 30), late):
        assert not trainable(unfit, horizon=HORIZON)
        with pytest.raises(InputError, match="training rows: expected at least 20 that end"):
            fit(unfit)


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"brtheory\[learned\]"):
        fit(rows(400, seed=0))


@pytest.mark.parametrize(
    "numbers",
    [
        {"trees": 0},
        {"depth": 9},
        {"learning_rate": 0.0},
        {"least_leaf": 0},
        {"row_share": 1.1},
        {"calibration_share": 1.0},
    ],
)
def test_settings_out_of_range_are_refused(numbers):
    with pytest.raises(InputError, match=next(iter(numbers))):
        TrainingSettings(**numbers)


def stump(threshold, low, high):
    """x0 <= threshold gives low, else high; scikit-learn's marks for leaves."""
    return (
        np.array([1, -1, -1]),
        np.array([2, -1, -1]),
        np.array([0, -2, -2]),
        np.array([threshold, -2.0, -2.0]),
        np.array([0.0, low, high]),
    )


@given(
    st.lists(st.tuples(*[st.integers(-9, 9)] * 3), min_size=1, max_size=6),
    st.lists(st.integers(-10, 10), min_size=1, max_size=6),
)
def test_an_ensemble_is_its_base_plus_the_sum_of_its_trees(stumps, xs):
    trees = join_trees([stump(*map(float, s)) for s in stumps], base=2.0, depth=1, rate=0.5)
    expected = [2 + 0.5 * sum(low if x <= t else high for t, low, high in stumps) for x in xs]
    assert trees.evaluate(np.array(xs, dtype=float)[:, None]).tolist() == expected


def arrays(**changed):
    trees = join_trees([stump(1.0, 2.0, 3.0)], base=0.0, depth=1, rate=1.0)
    names = ("base", "depth", "roots", "feature", "left", "right", "threshold", "value")
    return {name: getattr(trees, name) for name in names} | changed


@pytest.mark.parametrize(
    "changed",
    [
        {"left": np.array([9, 1, 2], dtype=np.int32)},
        {"right": np.array([-1, 1, 2], dtype=np.int32)},
        {"roots": np.array([3], dtype=np.int32)},
        {"roots": np.array([], dtype=np.int32)},
        {"feature": np.array([-1, 0, 0], dtype=np.int32)},
        {"feature": np.array([0, 0], dtype=np.int32)},
        {"left": np.array([1.0, 1.0, 2.0])},
        {"value": np.array([0.0, np.nan, 1.0])},
        {"threshold": np.array([np.inf, 0.0, 0.0])},
        {"value": np.zeros((3, 1))},
        {"depth": 1000},
        {"base": float("nan")},
    ],
)
def test_trees_that_lead_nowhere_are_refused(changed):
    with pytest.raises(InputError, match="trees"):
        TreeEnsemble(**arrays(**changed))


def test_a_row_too_short_for_its_trees_is_refused():
    wide = TreeEnsemble(**arrays(feature=np.array([5, 0, 0], dtype=np.int32)))
    with pytest.raises(InputError, match=r"shape \(n, 6\) or wider"):
        wide.evaluate(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("name", "value"),
    [("horizon", 0), ("slope", -1.0), ("intercept", float("inf"))],
)
def test_a_model_out_of_range_is_refused(model, name, value):
    fields = {f: getattr(model, f) for f in ("horizon", "finish", "mean", "slope", "intercept")}
    with pytest.raises(InputError, match="model"):
        TwoStageModel(**(fields | {name: value}))
