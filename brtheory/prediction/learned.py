"""Learned predictor: a two-stage model on what is known of a request, retrained as it goes.

It wraps an exact-match predictor, whose memory gives the features and whose answers stand in until
a model is there. Every prediction asked for becomes a training row whose label comes later.
"""

from collections.abc import Sequence

import numpy as np

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.features import features_of
from brtheory.prediction.protocol import Prediction, Running
from brtheory.prediction.training import DEFAULT_SETTINGS, TrainingSettings, train, trainable
from brtheory.prediction.training_rows import RowLog, TrainingRows
from brtheory.prediction.two_stage import TwoStageModel

DEFAULT_RETRAIN_EVERY = 2000
DEFAULT_MOST_ROWS = 30_000


class LearnedPredictor:
    """An ``OnlinePredictor`` with a model.

    Parameters
    ----------
    memory
        Exact match with its survival fallback, fresh.
    horizon
        H >= 1, the only one it can be asked about.
    rng
        Drives the training.
    model
        To start with, e.g. a loaded one; None is none yet.
    retrain_every
        Completions between two trainings, >= 1; None is never, and then no row is kept.
    most_rows
        The most recent training rows kept, >= 1.
    settings
        Of the training.

    Raises
    ------
    InputError
        If a number is below 1 or the model was made for another horizon.
    """

    def __init__(
        self,
        memory: ExactMatchPredictor,
        *,
        horizon: int,
        rng: np.random.Generator,
        model: TwoStageModel | None = None,
        retrain_every: int | None = DEFAULT_RETRAIN_EVERY,
        most_rows: int = DEFAULT_MOST_ROWS,
        settings: TrainingSettings = DEFAULT_SETTINGS,
    ) -> None:
        if retrain_every is not None and retrain_every < 1:
            raise InputError("retrain_every", "at least 1 completion", retrain_every)
        if model is not None and model.horizon != horizon:
            raise InputError("horizon", f"{model.horizon}, the model's", horizon)
        self._memory = memory
        self._horizon = horizon
        self._rng = rng
        self._model = model
        self._retrain_every = retrain_every
        self._settings = settings
        self._log = RowLog(horizon=horizon, most_rows=most_rows)
        self._completions = 0

    @property
    def model(self) -> TwoStageModel | None:
        """The model in use, None before the first training."""
        return self._model

    def rows(self) -> TrainingRows:
        """Training rows whose labels are known, oldest first."""
        return self._log.labelled()

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Predict with the model, or with the memory while there is none.

        Raises
        ------
        InputError
            If the horizon is another one.
        """
        if horizon != self._horizon:
            raise InputError("horizon", f"{self._horizon}, as learned", horizon)
        row = features_of(request, age=age, horizon=horizon, memory=self._memory)
        if self._retrain_every is not None:
            self._log.sample(request.id, age=age, features=row)
        if self._model is None:
            return self._memory.predict(request, age=age, horizon=horizon)
        return self._model.predict(row)

    def observe_admitted(self, request: Request) -> None:
        """Remember the request and its prompt."""
        self._memory.observe_admitted(request)

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        """Learn a length, and with it the labels of the request's rows."""
        self._memory.observe_finished(request, output_tokens=output_tokens)
        self._log.finish(request.id, output_tokens=output_tokens)
        self._completions += 1

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        """Keep the request as right-censored."""
        self._memory.observe_cancelled(request, output_tokens=output_tokens)
        self._log.cut_short(request.id, output_tokens=output_tokens)

    @property
    def refit_due(self) -> bool:
        """As the memory; the model is retrained at refits."""
        return self._memory.refit_due

    def refit(self, running: Sequence[Running]) -> None:
        """Refit the memory, and train anew once ``retrain_every`` requests have completed."""
        self._memory.refit(running)
        if self._retrain_every is None:
            return
        self._log.survive(running)
        if self._completions >= self._retrain_every:
            self._completions = 0
            rows = self._log.labelled()
            if trainable(rows, horizon=self._horizon, settings=self._settings):
                self._model = train(
                    rows, horizon=self._horizon, rng=self._rng, settings=self._settings
                )
