"""What is known of a request when a prediction is asked for, as a row of numbers.

Only the request itself, its age, and statistics of requests that ended before: the two simpler
predictors' answers are features of the learned one. ``UNKNOWN`` stands where there is none.
"""

import numpy as np
from numpy.typing import NDArray

from brtheory.core.requests import Request
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.protocol import Prediction

FEATURES = (
    "prompt_tokens",
    "age",
    "survival_p_finish",
    "survival_mean_remaining",
    "prefix_finished",
    "prefix_p_finish",
    "prefix_mean_remaining",
    "prefix_longest",
)
UNKNOWN = -1.0


def features_of(
    request: Request, *, age: int, horizon: int, memory: ExactMatchPredictor
) -> NDArray[np.float64]:
    """Features of a request at an age, shape (len(FEATURES),).

    Parameters
    ----------
    request, age, horizon
        As ``predict``.
    memory
        What has been learned of prompts and lengths so far.
    """
    survival = memory.fallback.predict(request, age=age, horizon=horizon)
    row = [request.prompt_tokens, age, *_as_features(survival), memory.finished_of(request)]
    law = memory.law_of(request)
    if law is None:
        return np.array([*row, UNKNOWN, UNKNOWN, UNKNOWN], dtype=np.float64)
    own = law.predict(age=age, horizon=horizon)
    return np.array([*row, *_as_features(own), law.longest], dtype=np.float64)


def _as_features(prediction: Prediction) -> tuple[float, float]:
    mean = prediction.mean_remaining
    return prediction.p_finish, UNKNOWN if mean is None else mean
