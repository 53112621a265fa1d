"""A predictor that errs: noise and bias on when a request ends, and verdicts turned round.

mu' = clip(mu * bias * exp(noise*Z - noise^2/2), 1, H); with probability ``flip_rate`` the verdict
'ends within H steps' is turned round, p' = 1 - p. One who was not expected to end at all (no mu)
is then expected at a uniformly drawn step of 1 .. H. Z and the draws belong to (seed, request,
age), so an answer does not depend on what was asked before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.core.requests import Request
from brtheory.prediction.protocol import OnlinePredictor, Prediction, Predictor, Running


@dataclass(frozen=True, slots=True)
class PredictionError:
    """How wrong predictions are.

    Parameters
    ----------
    noise, bias
        Spread of the logarithm, >= 0, and factor, > 0, of the mean remaining steps.
    flip_rate
        Share of verdicts turned round, in [0, 1].
    seed
        Of all errors.
    """

    noise: float = 0.0
    bias: float = 1.0
    flip_rate: float = 0.0
    seed: int = 0

    @property
    def is_none(self) -> bool:
        """Whether nothing is wrong."""
        return self.noise == 0 and self.bias == 1 and self.flip_rate == 0


class WrongPredictor:
    """A predictor's answers with errors.

    Parameters
    ----------
    predictor
        Whose answers.
    error
        How wrong.
    """

    def __init__(self, predictor: Predictor, error: PredictionError) -> None:
        self._predictor = predictor
        self._error = error

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """The answer, wrong."""
        answer = self._predictor.predict(request, age=age, horizon=horizon)
        error = self._error
        if answer.mean_remaining is None and error.flip_rate == 0:
            return answer  # Nothing to be wrong about: most answers of an oracle, and draws cost.
        rng = np.random.default_rng([error.seed, request.id, age])
        normal, flip, drawn = rng.standard_normal(), rng.random(), rng.integers(1, horizon + 1)
        p, mean = answer.p_finish, answer.mean_remaining
        if mean is not None:
            factor = error.bias * np.exp(error.noise * normal - error.noise**2 / 2)
            mean = min(max(float(mean * factor), 1.0), float(horizon))
        if flip < error.flip_rate:
            p, mean = 1 - p, float(drawn) if mean is None else mean
        return Prediction(p, mean if p > 0 else None)


class WrongOnlinePredictor(WrongPredictor):
    """The same of a predictor that learns: what it is taught is true, what it answers is not."""

    def __init__(self, predictor: OnlinePredictor, error: PredictionError) -> None:
        super().__init__(predictor, error)
        self._learner = predictor

    def observe_admitted(self, request: Request) -> None:
        """Passed on."""
        self._learner.observe_admitted(request)

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        """Passed on."""
        self._learner.observe_finished(request, output_tokens=output_tokens)

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        """Passed on."""
        self._learner.observe_cancelled(request, output_tokens=output_tokens)

    @property
    def refit_due(self) -> bool:
        """The learner's."""
        return self._learner.refit_due

    def refit(self, running: Sequence[Running]) -> None:
        """Passed on."""
        self._learner.refit(running)
