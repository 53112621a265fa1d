"""Growing the learned two-stage model with scikit-learn (extra ``learned``), on ordered rows.

Rows are split by time, never shuffled: trees grow on the earlier rows, the calibration of p is
fitted on the later ones. The result holds arrays only; scikit-learn is needed here and nowhere
else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError, MissingExtraError
from brtheory.prediction.training_rows import TrainingRows
from brtheory.prediction.trees import TreeEnsemble, join_trees
from brtheory.prediction.two_stage import TwoStageModel

FloatArray = NDArray[np.float64]

LEAST_OF_A_KIND = 20
"""Rows that ended within H, and rows that did not, needed in each part of the split."""


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to grow the trees.

    Parameters
    ----------
    trees, depth, learning_rate
        Of both stages; >= 1, 1 .. 8, (0, 1].
    least_leaf
        Rows a leaf holds at least, >= 1.
    row_share
        Share of the rows each tree sees, (0, 1].
    calibration_share
        Share of the rows, the last ones, kept for the calibration of p; (0, 1).

    Raises
    ------
    InputError
        If a number is out of range.
    """

    trees: int = 80
    depth: int = 3
    learning_rate: float = 0.1
    least_leaf: int = 20
    row_share: float = 0.5
    calibration_share: float = 0.25

    def __post_init__(self) -> None:
        ranges = {
            "trees": (1 <= self.trees <= 10_000, "1 to 10,000"),
            "depth": (1 <= self.depth <= 8, "1 to 8"),
            "learning_rate": (0 < self.learning_rate <= 1, "a number in (0, 1]"),
            "least_leaf": (self.least_leaf >= 1, "at least 1 row"),
            "row_share": (0 < self.row_share <= 1, "a number in (0, 1]"),
            "calibration_share": (0 < self.calibration_share < 1, "a number in (0, 1)"),
        }
        for name, (fits, expected) in ranges.items():
            if not fits:
                raise InputError(name, expected, getattr(self, name))


DEFAULT_SETTINGS = TrainingSettings()


def trainable(
    rows: TrainingRows, *, horizon: int, settings: TrainingSettings = DEFAULT_SETTINGS
) -> bool:
    """Whether both parts of the split hold enough rows of each kind."""
    return all(
        min(int(ended.sum()), int((~ended).sum())) >= LEAST_OF_A_KIND
        for ended in (part.remaining <= horizon for part in _split(rows, settings))
    )


def train(
    rows: TrainingRows,
    *,
    horizon: int,
    rng: np.random.Generator,
    settings: TrainingSettings = DEFAULT_SETTINGS,
) -> TwoStageModel:
    """Grow and calibrate a model.

    Parameters
    ----------
    rows
        Labelled rows, oldest first.
    horizon
        H >= 1 the labels were made for.
    rng
        Draws the rows each tree sees.
    settings
        See ``TrainingSettings``.

    Raises
    ------
    InputError
        If there are too few rows of a kind (``trainable``).
    MissingExtraError
        If scikit-learn is not installed.
    """
    if not trainable(rows, horizon=horizon, settings=settings):
        raise InputError(
            "training rows",
            f"at least {LEAST_OF_A_KIND} that end within {horizon} steps and {LEAST_OF_A_KIND} "
            "that do not, in both the earlier and the later part",
            f"{int((rows.remaining <= horizon).sum())} of {len(rows)} that do",
        )
    earlier, later = _split(rows, settings)
    finish = _grow_finish(earlier, horizon=horizon, settings=settings, rng=rng)
    mean = _grow_mean(earlier, horizon=horizon, settings=settings, rng=rng)
    slope, intercept = _calibrate(finish.evaluate(later.features), later.remaining <= horizon)
    return TwoStageModel(horizon, finish, mean, slope, intercept)


def _split(rows: TrainingRows, settings: TrainingSettings) -> tuple[TrainingRows, TrainingRows]:
    cut = round((1 - settings.calibration_share) * len(rows))
    return rows.part(0, cut), rows.part(cut, len(rows))


def _grow_finish(
    rows: TrainingRows, *, horizon: int, settings: TrainingSettings, rng: np.random.Generator
) -> TreeEnsemble:
    """Stage one: log loss."""
    booster = _sklearn("ensemble").GradientBoostingClassifier(
        loss="log_loss", **_booster_options(settings, rng)
    )
    booster.fit(rows.features, rows.remaining <= horizon)
    share = float(booster.init_.class_prior_[1])
    return _as_arrays(booster, base=np.log(share / (1 - share)), settings=settings)


def _grow_mean(
    rows: TrainingRows, *, horizon: int, settings: TrainingSettings, rng: np.random.Generator
) -> TreeEnsemble:
    """Stage two: squared error, on the rows that ended within H only."""
    ended = rows.remaining <= horizon
    booster = _sklearn("ensemble").GradientBoostingRegressor(
        loss="squared_error", **_booster_options(settings, rng)
    )
    booster.fit(rows.features[ended], rows.remaining[ended].astype(np.float64))
    return _as_arrays(booster, base=booster.init_.constant_.item(), settings=settings)


def _booster_options(settings: TrainingSettings, rng: np.random.Generator) -> Mapping[str, Any]:
    return {
        "n_estimators": settings.trees,
        "max_depth": settings.depth,
        "learning_rate": settings.learning_rate,
        "min_samples_leaf": settings.least_leaf,
        "subsample": settings.row_share,
        "random_state": int(rng.integers(2**31)),
    }


def _as_arrays(booster: Any, *, base: float, settings: TrainingSettings) -> TreeEnsemble:
    grown = [estimator.tree_ for estimator in booster.estimators_.ravel()]
    return join_trees(
        [
            (t.children_left, t.children_right, t.feature, t.threshold, t.value[:, 0, 0])
            for t in grown
        ],
        base=float(base),
        depth=max(tree.max_depth for tree in grown),
        rate=settings.learning_rate,
    )


def _calibrate(scores: FloatArray, ended: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept of the logit of p, by maximum likelihood on rows unseen by the trees."""
    # A weak pull towards slope 0 keeps the fit finite where the scores separate the two kinds.
    logistic = _sklearn("linear_model").LogisticRegression(C=1e3, max_iter=1000)
    logistic.fit(scores[:, None], ended)
    # Scores that rank later rows the wrong way round carry no information: only the share is left.
    slope = max(0.0, float(logistic.coef_[0, 0]))
    share = float(ended.mean())
    return slope, float(logistic.intercept_[0]) if slope else float(np.log(share / (1 - share)))


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingExtraError("training the learned predictor", "learned") from error
