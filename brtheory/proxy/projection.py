"""Projected loads from live streams: a horizon state kept in step with what the streams show.

Decode replicas advance together, one step a barrier, but the proxy sees each request's tokens when
its stream brings them. Every request votes for the present step (the tokens it has gained since
it entered the state); the state moves to the lower median of the votes, and whoever is ahead or
behind is put right alone. After ``rows`` the present column equals the mirror's loads exactly.
"""

from collections.abc import Sequence

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import predicted_finish
from brtheory.core.still_horizon import make_horizon_state
from brtheory.prediction.auto_horizon import HorizonEstimator
from brtheory.prediction.projection_rules import DEFAULT_RULES, ProjectionRules
from brtheory.prediction.protocol import OnlinePredictor, Running
from brtheory.proxy.mirror import Hold


class _Tracked:
    """One load entry in the state."""

    __slots__ = ("finish", "hold", "next_age", "zero")

    def __init__(self, hold: Hold, *, step: int) -> None:
        self.hold = hold
        self.zero = hold.tokens - step
        self.finish = 0
        self.next_age = 0


class StreamProjection:
    """Projected loads of the replicas, and the predictor's learning.

    Parameters
    ----------
    predictor
        Learns from every stream; asked at age 0 and every ``refresh`` tokens of a request's life.
    names
        The replicas, G >= 1, in the order of the rows.
    horizon
        H >= 1, at first where it follows the load.
    rules
        Gate, refresh and growth.
    follows
        Whether H follows the steps between departures on a replica.
    """

    def __init__(
        self,
        predictor: OnlinePredictor,
        *,
        names: Sequence[str],
        horizon: int,
        rules: ProjectionRules = DEFAULT_RULES,
        follows: bool = False,
    ) -> None:
        self._predictor = predictor
        self._index = {name: index for index, name in enumerate(names)}
        self._rules = rules
        self._gaps = HorizonEstimator(replicas=len(names), initial=horizon) if follows else None
        self._departed = 0
        self._tracked: dict[int, _Tracked] = {}
        self._use(horizon, step=0)

    @property
    def step(self) -> int:
        """The present absolute step."""
        return self._state.step

    def admit(self, hold: Hold) -> None:
        """Take a new load entry in, with its first prediction."""
        self._predictor.observe_admitted(hold.request)
        self.follow(hold)

    def follow(self, hold: Hold) -> None:
        """Take in a load entry the predictor knows already, at its present age."""
        tracked = _Tracked(hold, step=self._state.step)
        self._tracked[hold.request.id] = tracked
        self._predict(tracked)
        self._put(tracked)

    def retire(self, hold: Hold, *, finished: bool) -> None:
        """Take a load entry out; ``finished`` says that its output had ended by itself."""
        del self._tracked[hold.request.id]
        self._state.retire(hold.request.id)
        self._departed += 1
        if finished and hold.age >= 1:
            self._predictor.observe_finished(hold.request, output_tokens=hold.age)
        else:
            self._predictor.observe_cancelled(hold.request, output_tokens=max(0, hold.age))

    def rows(self) -> IntArray:
        """Lhat_g(h) now, shape (G, H + 1): a view, valid until the next change."""
        self._move_on()
        if self._predictor.refit_due:
            running = [Running(t.hold.request, t.hold.age) for t in self._tracked.values()]
            self._predictor.refit(running)
        self._follow()
        for tracked in self._tracked.values():
            self._put_right(tracked)
        return self._state.rows()

    def _follow(self) -> None:
        departed, self._departed = self._departed, 0
        if self._gaps is not None and self._gaps.observe(departed, step=self._state.step):
            self._use(self._gaps.horizon, step=self._state.step)

    def _use(self, horizon: int, *, step: int) -> None:
        """Project over H steps from ``step`` on: every prediction is due."""
        self._horizon = horizon
        self._refresh = self._rules.refresh_steps(horizon)
        self._state = make_horizon_state(
            replicas=len(self._index), horizon=horizon, growth=self._rules.growth
        )
        self._state.advance(step)
        for tracked in self._tracked.values():
            tracked.zero = tracked.hold.tokens - step
            self._predict(tracked)
            self._put(tracked)

    def _move_on(self) -> None:
        """Advance to the lower median of the votes of the requests that have begun to decode."""
        votes = [t.hold.tokens - t.zero for t in self._tracked.values() if t.hold.age > 0]
        if votes:
            votes.sort()
            present = votes[(len(votes) - 1) // 2]
            self._state.advance(max(0, present - self._state.step))

    def _put_right(self, tracked: _Tracked) -> None:
        hold, step = tracked.hold, self._state.step
        before = tracked.finish
        if hold.age >= tracked.next_age:
            self._predict(tracked)
        if hold.tokens - tracked.zero != step:
            self._state.retire(hold.request.id)
            tracked.zero = hold.tokens - step
            self._put(tracked)
        elif tracked.finish != before:
            self._state.refresh(hold.request.id, finish=tracked.finish)

    def _put(self, tracked: _Tracked) -> None:
        hold = tracked.hold
        self._state.admit(
            hold.request.id,
            self._index[hold.replica],
            tokens=hold.tokens,
            finish=tracked.finish,
        )

    def _predict(self, tracked: _Tracked) -> None:
        hold, age = tracked.hold, max(0, tracked.hold.age)
        prediction = self._predictor.predict(hold.request, age=age, horizon=self._horizon)
        c_hat = self._rules.contribution(prediction, horizon=self._horizon)
        tracked.finish = predicted_finish(c_hat, step=self._state.step, horizon=self._horizon)
        tracked.next_age = age + self._refresh
