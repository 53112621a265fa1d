"""Survival predictor: the law of recent output lengths, given the age. No features, no training.

Rolling window of the last admissions, right-censored at the ages of those still running, refitted
every few completions; a query is two binary searches.
"""

from collections.abc import Sequence

from brtheory.core.requests import Request
from brtheory.prediction.cohort import Cohort
from brtheory.prediction.length_law import LengthLaw, kaplan_meier
from brtheory.prediction.protocol import ANCHOR, Prediction, Running
from brtheory.prediction.refits import RefitPolicy

DEFAULT_WINDOW = 2048
DEFAULT_REFIT_EVERY = 64


class SurvivalPredictor:
    """An ``OnlinePredictor`` from output lengths alone.

    Parameters
    ----------
    window
        Admitted requests the law is estimated from, >= 1; more where many run at once (``Cohort``).
    refit_every
        Completions between two refits in the long run, >= 1 (``RefitPolicy``).

    Raises
    ------
    InputError
        If a number is below 1.
    """

    def __init__(
        self, *, window: int = DEFAULT_WINDOW, refit_every: int = DEFAULT_REFIT_EVERY
    ) -> None:
        self._cohort = Cohort(window)
        self._refits = RefitPolicy(refit_every)
        self._law: LengthLaw | None = None

    @property
    def law(self) -> LengthLaw | None:
        """The law in use, None before the first refit."""
        return self._law

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Predict from the age; an anchor while no request of a greater length has been seen."""
        del request
        return ANCHOR if self._law is None else self._law.predict(age=age, horizon=horizon)

    def observe_admitted(self, request: Request) -> None:
        """Start counting a request as running."""
        self._cohort.admit(request.id)

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        """Learn a length (tokens >= 1); predictions change at the next refit."""
        self._cohort.finish(request.id, output_tokens=output_tokens)
        self._refits.completed()

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        """Keep a request as right-censored at the tokens it made before its client left."""
        self._cohort.cut_short(request.id, output_tokens=output_tokens)

    @property
    def refit_due(self) -> bool:
        """Whether enough completions came since the last refit."""
        return self._refits.due

    def refit(self, running: Sequence[Running]) -> None:
        """Estimate the law anew, in O(window log window)."""
        ages = {request.id: age for request, age in running}
        self._law = kaplan_meier(*self._cohort.samples(ages))
        self._refits.refitted(len(self._cohort))
