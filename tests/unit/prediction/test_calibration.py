"""Scores by hand, of perfect and of constant predictors, and where nothing can be said."""

import math

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.prediction.calibration import calibration_curve, score

NAN = np.nan


def scores(p, mean, remaining, horizon=10):
    return score(
        np.array(p, dtype=float),
        np.array(mean, dtype=float),
        remaining=np.array(remaining, dtype=np.int64),
        horizon=horizon,
    )


def test_four_predictions_by_hand():
    # Outcomes: ended, ended, ended, not. The anchor counts H = 10, the others blend.
    result = scores([0.8, 0.6, 0.2, 0.2], [4, 8, 5, NAN], [3, 10, 6, 25])
    assert (result.predictions, result.positives, result.positives_without_mean) == (4, 3, 0)
    # Pairs (0.8, 0.2) and (0.6, 0.2) are right, (0.2, 0.2) is a tie: 2.5 of 3.
    assert result.auc == pytest.approx(2.5 / 3)
    # (0.04 + 0.16 + 0.64 + 0.04) / 4
    assert result.brier == pytest.approx(0.22)
    assert result.log_loss == pytest.approx(-math.log(0.8 * 0.6 * 0.2 * 0.8) / 4)
    # |4 - 3|, |8 - 10|, |5 - 6|
    assert result.mae_steps == pytest.approx(4 / 3)
    # c_hat: 0.2*10 + 0.8*4 = 5.2, 0.4*10 + 0.6*8 = 8.8, 10, 10 against 3, 10, 6, 10.
    assert result.contribution_mae_steps == pytest.approx((2.2 + 1.2 + 4 + 0) / 4)
    # Bins: two at 0.2 (observed 1/2), one at 0.6 and one at 0.8 (observed 1).
    assert result.calibration_error == pytest.approx((2 * 0.3 + 0.4 + 0.2) / 4)


def test_a_perfect_predictor_scores_perfectly():
    result = scores([1, 0, 1], [2, NAN, 9], [2, 11, 9])
    assert (result.auc, result.brier, result.mae_steps) == (1.0, 0.0, 0.0)
    assert result.contribution_mae_steps == result.calibration_error == 0.0
    assert result.log_loss == pytest.approx(0.0)


def test_a_certain_mistake_costs_much_but_not_infinitely_much():
    assert scores([0.0], [NAN], [3]).log_loss == pytest.approx(-math.log(1e-6))


def test_a_predictor_that_always_says_the_base_rate_is_calibrated_and_useless():
    result = scores([0.25] * 4, [5] * 4, [5, 20, 20, 20])
    assert (result.auc, result.calibration_error) == (0.5, 0.0)


def test_a_positive_without_a_mean_is_counted_not_dropped():
    result = scores([0.0, 0.9], [NAN, 3], [4, 5])
    assert (result.positives_without_mean, result.mae_steps) == (1, 2.0)


def test_what_cannot_be_said_is_none():
    nothing = scores([], [], [])
    assert nothing.predictions == 0
    assert [nothing.auc, nothing.brier, nothing.log_loss, nothing.mae_steps] == [None] * 4
    assert nothing.contribution_mae_steps is nothing.calibration_error is None
    assert nothing.curve == ()
    assert scores([0.3], [NAN], [50]).auc is None
    assert scores([0.3], [NAN], [50]).mae_steps is None


def test_the_last_bin_holds_certainty():
    curve = calibration_curve(np.array([0.95, 1.0]), np.array([True, True]))
    assert [(b.low, b.high, b.count) for b in curve] == [(0.9, 1.0, 2)]


def test_shapes_and_probabilities_are_checked():
    with pytest.raises(InputError, match="mean_remaining"):
        score(np.array([0.5]), np.array([]), remaining=np.array([1]), horizon=4)
    for wrong in (1.5, NAN):
        with pytest.raises(InputError, match="p_finish"):
            score(np.array([wrong]), np.array([1.0]), remaining=np.array([1]), horizon=4)
    with pytest.raises(InputError, match="bins"):
        calibration_curve(np.array([0.5]), np.array([True]), bins=0)
