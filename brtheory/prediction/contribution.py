"""From a prediction to c_hat, the steps for which a request counts in the projected loads.

c_hat = (1 - p)*H + p*mu; the gate puts c_hat = H (the anchor) where p < 0.5.
"""

from brtheory.prediction.protocol import Prediction

GATE = 0.5


def contribution(prediction: Prediction, *, horizon: int, gate: float = GATE) -> float:
    """c_hat in steps, in [p*mu, H].

    Parameters
    ----------
    prediction
        p_finish and mean_remaining.
    horizon
        H >= 0.
    gate
        Below this p_finish the request is an anchor; 0 switches the gate off.
    """
    p = prediction.p_finish
    if p < gate or prediction.mean_remaining is None:
        return float(horizon)
    return (1 - p) * horizon + p * prediction.mean_remaining
