"""The prediction contract: the chance that a request ends within H steps, and when it then does."""

from dataclasses import dataclass
from typing import Protocol

from brtheory.core.requests import Request


@dataclass(frozen=True, slots=True)
class Prediction:
    """Answer for one request at one age.

    Parameters
    ----------
    p_finish
        P(r <= H | features, age), in [0, 1].
    mean_remaining
        E[r | r <= H] in steps, in [1, H]; None where ``p_finish`` is 0.
    """

    p_finish: float
    mean_remaining: float | None


class Predictor(Protocol):
    """Anything that answers the contract; learning happens outside this protocol."""

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Predict the remaining steps r (this one included) of a request of age ``age``."""
