"""Projected loads of a running simulation: predicted at admission, refreshed every H/2 steps.

A predictor that learns is told of admissions and completions, and refitted, in the order of
``brtheory.prediction.protocol``; every prediction is made with what was known at its own step.
"""

import heapq

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import HorizonState, predicted_finish
from brtheory.core.requests import Request
from brtheory.prediction.contribution import contribution
from brtheory.prediction.protocol import OnlinePredictor, Predictor, Running


class ProjectionTracker:
    """A ``HorizonState`` fed by a predictor.

    Parameters
    ----------
    predictor
        Asked at age 0 and then at every multiple of ``refresh`` steps of a request's life; an
        ``OnlinePredictor`` learns too.
    replicas, horizon
        G and H >= 1.
    refresh
        Steps between two predictions for one request; None is max(1, H // 2).
    """

    def __init__(
        self, predictor: Predictor, *, replicas: int, horizon: int, refresh: int | None = None
    ) -> None:
        self._predictor = predictor
        self._learner = predictor if isinstance(predictor, OnlinePredictor) else None
        self._horizon = horizon
        self._refresh = max(1, horizon // 2) if refresh is None else refresh
        self._state = HorizonState(replicas=replicas, horizon=horizon)
        self._due: list[tuple[int, int]] = []
        self._admitted: dict[int, tuple[Request, int]] = {}

    def admit(self, request: Request, replica: int, *, step: int) -> None:
        """Add an admitted request with its first prediction."""
        self._move_to(step)
        if self._learner is not None:
            self._learner.observe_admitted(request)
        self._admitted[request.id] = (request, step)
        finish = self._predict(request, age=0, step=step)
        self._state.admit(request.id, replica, tokens=request.prompt_tokens, finish=finish)
        heapq.heappush(self._due, (step + self._refresh, request.id))

    def retire(self, request_id: int, *, step: int) -> None:
        """Take out a request that finished with the step before ``step``."""
        if self._learner is not None and self._due and self._due[0][0] < step:
            self._move_to(step - 1)  # what is due before is predicted without knowing this end
        request, admitted = self._admitted.pop(request_id)
        self._state.retire(request_id)
        if self._learner is not None:
            self._learner.observe_finished(request, output_tokens=step - admitted)

    def refit(self, step: int) -> None:
        """Let a learning predictor refit, once all that finished before ``step`` is taken out."""
        if self._learner is not None and self._learner.refit_due:
            self._learner.refit(
                [Running(request, step - admitted) for request, admitted in self._admitted.values()]
            )

    def rows(self, step: int) -> IntArray:
        """Lhat_g(h) at absolute ``step``, shape (G, H + 1)."""
        self._move_to(step)
        return self._state.rows()

    def window(self, step: int) -> tuple[IntArray, int]:
        """Buffer and first column of ``rows``, shape (G, C): as ``TickArrays`` takes them."""
        self._move_to(step)
        return self._state.columns, self._state.start

    def _move_to(self, step: int) -> None:
        """Make every prediction that has come due, each as of its own step, oldest first."""
        while self._due and self._due[0][0] <= step:
            due, request_id = heapq.heappop(self._due)
            if request_id in self._admitted:
                request, admitted = self._admitted[request_id]
                finish = self._predict(request, age=due - admitted, step=due)
                self._state.refresh(request_id, finish=finish)
                heapq.heappush(self._due, (due + self._refresh, request_id))
        self._state.advance(step - self._state.step)

    def _predict(self, request: Request, *, age: int, step: int) -> int:
        prediction = self._predictor.predict(request, age=age, horizon=self._horizon)
        c_hat = contribution(prediction, horizon=self._horizon)
        return predicted_finish(c_hat, step=step, horizon=self._horizon)
