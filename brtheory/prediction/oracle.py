"""The oracle: true remaining lengths. Simulation and solvers only; the proxy cannot import it."""

from collections.abc import Mapping

from brtheory.core.requests import Request
from brtheory.prediction.protocol import Prediction


class OraclePredictor:
    """Knows every output length.

    Parameters
    ----------
    output_tokens
        True o_i by request id.
    """

    def __init__(self, output_tokens: Mapping[int, int]) -> None:
        self._output_tokens = output_tokens

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Certain: r = o - age steps are left, this one included."""
        remaining = self._output_tokens[request.id] - age
        if remaining > horizon:
            return Prediction(p_finish=0.0, mean_remaining=None)
        return Prediction(p_finish=1.0, mean_remaining=float(remaining))
