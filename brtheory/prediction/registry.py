"""Predictors by name, as a proxy may build them. The oracle is not one of them."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from brtheory.errors import InputError
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.learned import LearnedPredictor
from brtheory.prediction.protocol import OnlinePredictor, PrefixOf
from brtheory.prediction.survival import (
    DEFAULT_REFIT_EVERY,
    DEFAULT_WINDOW,
    SurvivalPredictor,
)
from brtheory.prediction.two_stage import TwoStageModel

OnlineName = Literal["survival", "exact-match", "learned"]
ONLINE_PREDICTORS: tuple[OnlineName, ...] = get_args(OnlineName)


def _no_prefix(_request: object) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class PredictorOptions:
    """What the predictors need besides their name.

    Parameters
    ----------
    prefix_of
        Prompt-hash prefix of a request; by default no request has one.
    window, refit_every
        As ``SurvivalPredictor``.
    model
        For ``learned``: start with this model and do not retrain; None is to train online.
    seed
        Of the training.
    """

    prefix_of: PrefixOf = _no_prefix
    window: int = DEFAULT_WINDOW
    refit_every: int = DEFAULT_REFIT_EVERY
    model: TwoStageModel | None = None
    seed: int = 0


def build_online_predictor(
    name: str, *, horizon: int, options: PredictorOptions = PredictorOptions()
) -> OnlinePredictor:
    """Make a fresh predictor.

    Parameters
    ----------
    name
        One of ``ONLINE_PREDICTORS``.
    horizon
        H >= 1 it will be asked about; only ``learned`` is bound to it.
    options
        See ``PredictorOptions``.

    Raises
    ------
    InputError
        If the name is unknown, an option is out of range, or the model was made for another
        horizon.
    """
    if name not in ONLINE_PREDICTORS:
        raise InputError("predictor", "one of " + ", ".join(ONLINE_PREDICTORS), repr(name))
    survival = SurvivalPredictor(window=options.window, refit_every=options.refit_every)
    if name == "survival":
        return survival
    memory = ExactMatchPredictor(options.prefix_of, fallback=survival)
    if name == "exact-match":
        return memory
    if options.model is not None:
        return LearnedPredictor(
            memory,
            horizon=horizon,
            rng=np.random.default_rng(options.seed),
            model=options.model,
            retrain_every=None,
        )
    return LearnedPredictor(memory, horizon=horizon, rng=np.random.default_rng(options.seed))
