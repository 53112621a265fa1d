"""How predictions become projected loads: gate, refresh and growth, the same wherever they run."""

from dataclasses import dataclass

from brtheory.prediction.contribution import GATE, contribution
from brtheory.prediction.protocol import Prediction


@dataclass(frozen=True, slots=True)
class ProjectionRules:
    """Choices left to the user between a prediction and Lhat_g(h).

    Parameters
    ----------
    gate
        Below this p_finish a request counts as an anchor; None is no gate.
    refresh
        Steps between two predictions for one request, >= 1; None is max(1, H // 2).
    growth
        Whether a projected request gains a token a step; if not, completions alone change the
        projected loads (the companion paper's published program).
    """

    gate: float | None = GATE
    refresh: int | None = None
    growth: bool = True

    def refresh_steps(self, horizon: int) -> int:
        """Steps between two predictions for one request at this H."""
        return max(1, horizon // 2) if self.refresh is None else self.refresh

    def contribution(self, prediction: Prediction, *, horizon: int) -> float:
        """c_hat in steps, gated."""
        gate = 0.0 if self.gate is None else self.gate
        return contribution(prediction, horizon=horizon, gate=gate)


DEFAULT_RULES = ProjectionRules()
