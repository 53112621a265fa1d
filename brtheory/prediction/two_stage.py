"""The learned two-stage model: will it end within H steps, and if so, when.

    p  = sigmoid(slope * score(x) + intercept)       score: boosted trees, log loss
    mu = clip(mean(x), 1, H)                         mean: boosted trees, squared error, r <= H only

Slope and intercept are fitted on rows later than those the trees were grown on (Platt scaling), so
that p is a probability and not only a ranking. A model is arrays and numbers, nothing else.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.prediction.features import FEATURES
from brtheory.prediction.protocol import Prediction
from brtheory.prediction.trees import TreeEnsemble, side_by_side

FloatArray = NDArray[np.float64]

LARGEST_LOGIT = 30.0


@dataclass(frozen=True, slots=True)
class TwoStageModel:
    """Predicts from rows of ``brtheory.prediction.features.FEATURES``.

    Parameters
    ----------
    horizon
        H >= 1, the only one it can be asked about.
    finish, mean
        The two stages.
    slope, intercept
        Calibration of the first, slope >= 0: scores keep their order.

    Raises
    ------
    InputError
        If a number is out of range or a stage asks for more features than there are.
    """

    horizon: int
    finish: TreeEnsemble
    mean: TreeEnsemble
    slope: float
    intercept: float
    _both: TreeEnsemble = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise InputError("model: horizon", "at least 1 step", self.horizon)
        if not (0 <= self.slope < np.inf and np.isfinite(self.intercept)):
            got = (self.slope, self.intercept)
            raise InputError("model: calibration", "a slope >= 0 and a finite intercept", got)
        wanted = max(self.finish.features, self.mean.features)
        if wanted > len(FEATURES):
            raise InputError("model: features", f"at most {len(FEATURES)}", wanted)
        object.__setattr__(self, "_both", side_by_side(self.finish, self.mean))

    def predict(self, row: FloatArray) -> Prediction:
        """Prediction from one row of features, shape (f,)."""
        leaves, stage_one = self._both.leaves(row[None, :])[0], len(self.finish.roots)
        score = self.finish.base + float(leaves[:stage_one].sum())
        logit = self.slope * score + self.intercept
        p_finish = 1.0 / (1.0 + math.exp(-min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)))
        mean = self.mean.base + float(leaves[stage_one:].sum())
        return Prediction(p_finish, min(max(mean, 1.0), float(self.horizon)))
