"""Projected loads of a running simulation: predicted at admission, refreshed as the rules say.

A predictor that learns is told of admissions and completions, and refitted, in the order of
``brtheory.prediction.protocol``; every prediction is made with what was known at its own step.

Where the router's horizon follows the load, it changes at steps with completions only, from the
completions seen so far; every running request is then predicted anew. So a run does not depend on
how many steps are taken at once, and a proxy that saw the same completions would have the same H.
"""

import heapq
from typing import NamedTuple

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import predicted_finish
from brtheory.core.requests import Request
from brtheory.core.still_horizon import make_horizon_state
from brtheory.prediction.auto_horizon import HorizonEstimator
from brtheory.prediction.projection_rules import DEFAULT_RULES, ProjectionRules
from brtheory.prediction.protocol import OnlinePredictor, Predictor, Running
from brtheory.routers.protocol import FollowingRouter


class _Decoding(NamedTuple):
    request: Request
    replica: int
    admitted: int


class ProjectionTracker:
    """Projected loads fed by a predictor.

    Parameters
    ----------
    predictor
        Asked at age 0 and then at every multiple of the refresh of a request's life; an
        ``OnlinePredictor`` learns too.
    replicas, horizon
        G and H >= 1.
    rules
        Gate, refresh and growth.
    router
        Told when H changes, where it follows the load; None where H is fixed.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        replicas: int,
        horizon: int,
        rules: ProjectionRules = DEFAULT_RULES,
        router: FollowingRouter | None = None,
    ) -> None:
        self._predictor = predictor
        self._learner = predictor if isinstance(predictor, OnlinePredictor) else None
        self._replicas = replicas
        self._rules = rules
        self._router = router
        self._gaps = HorizonEstimator(replicas=replicas, initial=horizon) if router else None
        self._admitted: dict[int, _Decoding] = {}
        self._completed = 0
        self._idle_since = 0
        self._idle_steps = 0
        self._use(horizon, step=0)

    def admit(self, request: Request, replica: int, *, step: int) -> None:
        """Add an admitted request with its first prediction."""
        self._move_to(step)
        if not self._admitted:
            self._idle_steps += step - self._idle_since
        if self._learner is not None:
            self._learner.observe_admitted(request)
        self._admitted[request.id] = _Decoding(request, replica, step)
        self._put(request.id, step=step)

    def retire(self, request_id: int, *, step: int) -> None:
        """Take out a request that finished with the step before ``step``."""
        if self._learner is not None and self._due and self._due[0][0] < step:
            self._move_to(step - 1)  # what is due before is predicted without knowing this end
        request, _, admitted = self._admitted.pop(request_id)
        self._state.retire(request_id)
        self._completed += 1
        self._idle_since = step
        if self._learner is not None:
            self._learner.observe_finished(request, output_tokens=step - admitted)

    def refit(self, step: int) -> None:
        """Learn from the completions, once all that finished before ``step`` is taken out."""
        if self._learner is not None and self._learner.refit_due:
            self._learner.refit(
                [Running(one.request, step - one.admitted) for one in self._admitted.values()]
            )
        if self._router is not None and self._gaps is not None:
            completed, self._completed = self._completed, 0
            if self._gaps.observe(completed, step=step - self._idle_steps):
                self._use(self._gaps.horizon, step=step)
                self._router.look_ahead(self._gaps.horizon)

    def rows(self, step: int) -> IntArray:
        """Lhat_g(h) at absolute ``step``, shape (G, H + 1)."""
        self._move_to(step)
        return self._state.rows()

    def steps_present(self, request: Request) -> int:
        """Steps of the horizon at which a waiting request would count as present, admitted now."""
        finish = self._predict(request, age=0, step=0)
        return min(finish, self._horizon + 1)

    def window(self, step: int) -> tuple[IntArray, int]:
        """Buffer and first column of ``rows``, shape (G, C): as ``TickArrays`` takes them."""
        self._move_to(step)
        return self._state.columns, self._state.start

    def _use(self, horizon: int, *, step: int) -> None:
        """Project over another horizon from ``step`` on: every prediction is due."""
        self._horizon = horizon
        self._refresh = self._rules.refresh_steps(horizon)
        self._state = make_horizon_state(
            replicas=self._replicas, horizon=horizon, growth=self._rules.growth
        )
        self._state.advance(step)
        self._due: list[tuple[int, int]] = []
        for request_id in self._admitted:
            self._put(request_id, step=step)

    def _put(self, request_id: int, *, step: int) -> None:
        request, replica, admitted = self._admitted[request_id]
        age = step - admitted
        finish = self._predict(request, age=age, step=step)
        tokens = request.prompt_tokens + age
        self._state.admit(request_id, replica, tokens=tokens, finish=finish)
        heapq.heappush(self._due, (step + self._refresh, request_id))

    def _move_to(self, step: int) -> None:
        """Make every prediction that has come due, each as of its own step, oldest first."""
        while self._due and self._due[0][0] <= step:
            due, request_id = heapq.heappop(self._due)
            if request_id in self._admitted:
                request, _, admitted = self._admitted[request_id]
                finish = self._predict(request, age=due - admitted, step=due)
                self._state.refresh(request_id, finish=finish)
                heapq.heappush(self._due, (due + self._refresh, request_id))
        self._state.advance(step - self._state.step)

    def _predict(self, request: Request, *, age: int, step: int) -> int:
        prediction = self._predictor.predict(request, age=age, horizon=self._horizon)
        c_hat = self._rules.contribution(prediction, horizon=self._horizon)
        return predicted_finish(c_hat, step=step, horizon=self._horizon)
