"""BR-H by the exact horizon score: admitted requests grow by a token a step, and end.

The tick is the reference's, line by line; what differs is what a set Q weighs in it. The paper has
Delta tokens at every step of the horizon. Here it is

    x_h = sum over Q of (s_i + h)[h < c_i],   c_i: steps i is predicted to stay, H + 1 if not known

in the score (``brtheory.core.growing_score``) and in the projected row that the next decision of
the tick sees, which so equals the row that will be projected once Q decodes.

The router is told c_i by whoever projects the loads (``ForeseeingRouter``), since a tick's state
holds no predictions; until then every request counts as staying throughout.
"""

from collections.abc import Callable, Iterable, Sequence

from brtheory.core.admission import Admission
from brtheory.core.fscore import ScoreWeights, check_token_limit
from brtheory.core.growing_score import growing_score, step_rewards, tokens_ahead
from brtheory.core.requests import Request
from brtheory.core.subsets import members, subset_masks
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.routers.fast import FastBalanceRoute, FastEngine
from brtheory.routers.params import LONGEST_HORIZON, HorizonParams
from brtheory.routers.protocol import PooledRouter
from brtheory.routers.reference import BalanceRouteHorizon, Choice

Profile = Callable[[Sequence[Request]], Sequence[int]]
"""x_0 .. x_H of a set, in tokens."""


class GrowingLedger(TickLedger):
    """A tick's copy in which what is admitted weighs x_h tokens at step h, not Delta.

    Parameters
    ----------
    state
        As ``TickLedger``.
    profile
        x_0 .. x_H of a set of the pool's requests.
    """

    def __init__(self, state: TickState, profile: Profile) -> None:
        super().__init__(state)
        self._profile = profile

    def admit(self, requests: Sequence[Request], replica: int) -> None:
        """Add the set to the replica and refresh slots, projected row and envelope."""
        row, envelope = self.rows[replica], self.envelope
        super().admit(requests, replica)  # slots and KV room; the row is made anew
        per_token = self.per_token(replica)
        row = [load + per_token * x for load, x in zip(row, self._profile(requests), strict=True)]
        self.rows[replica] = row
        self.envelope = [max(top, load) for top, load in zip(envelope, row, strict=True)]


class GrowingRoute(BalanceRouteHorizon):
    """BR-H with ``score`` = ``exact``.

    Parameters
    ----------
    params
        See ``HorizonParams``; with ``growth`` = ``off`` nothing grows, what is admitted included.
    """

    def __init__(self, params: HorizonParams) -> None:
        super().__init__(params)
        self._steps_present: Callable[[Request], int] = _throughout
        self._ahead: dict[int, list[int]] = {}

    def foresee(self, steps_present: Callable[[Request], int]) -> None:
        """As ``ForeseeingRouter``."""
        self._steps_present = steps_present

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick.

        Raises
        ------
        InputError
            If the state does not fit (``check_state``) or is beyond the exact token limit, growth
            over the horizon included.
        """
        check_state(state, horizon=self.horizon)
        weights = self.weights(len(state.loads))
        grown = [request.prompt_tokens + self.horizon for request in state.pool]
        check_token_limit(state.loads, grown, weights)
        self._ahead = {}  # predictions are those of this tick
        ledger, pool = GrowingLedger(state, self._profile), list(state.pool)
        return [*self._stage_1(ledger, pool, weights), *self._stage_2(ledger, pool, weights)]

    def _best_single(
        self, pool: Sequence[Request], ledger: TickLedger, replica: int, weights: ScoreWeights
    ) -> Choice:
        choices = self._choices([(request,) for request in pool], ledger, replica, weights)
        if self.params.stage1 == "longest":
            return max(choices, key=lambda choice: choice.delta)
        return max(choices, key=_score_then_delta)

    def _best_subset(
        self,
        candidates: Sequence[Request],
        ledger: TickLedger,
        replica: int,
        weights: ScoreWeights,
    ) -> Choice | None:
        sets = (
            tuple(candidates[j] for j in members(mask))
            for mask in subset_masks(len(candidates), ledger.cap[replica])
        )
        fitting = [chosen for chosen in sets if ledger.fits(chosen, replica)]
        choices = self._choices(fitting, ledger, replica, weights)
        best = max(choices, key=_score_then_delta, default=None)
        if best is None or best.score > 0:
            return best
        singles = [choice for choice in choices if len(choice.requests) == 1]
        return max(singles, key=_score_then_delta)

    def _choices(
        self,
        sets: Iterable[tuple[Request, ...]],
        ledger: TickLedger,
        replica: int,
        weights: ScoreWeights,
    ) -> list[Choice]:
        margins, per_token = ledger.margins(replica), ledger.per_token(replica)
        rewards = step_rewards(
            horizon=weights.horizon,
            discount=self._horizon_params.discount,
            reward_weight=self._horizon_params.reward_weight,
        )
        choices = []
        for requests in sets:
            tokens = [per_token * x for x in self._profile(requests)]
            score = growing_score(tokens, margins, rewards, weights.overflow)
            choices.append(Choice(score, sum(r.prompt_tokens for r in requests), requests))
        return choices

    def _profile(self, requests: Sequence[Request]) -> Sequence[int]:
        """x_0 .. x_H of a set."""
        profiles = [self._profile_of(request) for request in requests]
        return [sum(column) for column in zip(*profiles, strict=True)]

    def _profile_of(self, request: Request) -> list[int]:
        if request.id not in self._ahead:
            self._ahead[request.id] = tokens_ahead(
                request.prompt_tokens,
                steps_present=self._steps_present(request),
                horizon=self.horizon,
                growth=int(self.projection.growth),
            )
        return self._ahead[request.id]


def horizon_router(params: HorizonParams) -> BalanceRouteHorizon:
    """BR-H by the score its parameters name."""
    return GrowingRoute(params) if params.score == "exact" else BalanceRouteHorizon(params)


def speed_up_horizon(router: BalanceRouteHorizon, engine: FastEngine) -> PooledRouter:
    """BR-H by a fast engine; the exact score has its reference only."""
    return router if isinstance(router, GrowingRoute) else FastBalanceRoute(router, engine)


def _throughout(request: Request) -> int:
    """No prediction: longer than any horizon."""
    del request
    return LONGEST_HORIZON + 1


def _score_then_delta(choice: Choice) -> tuple[int, int]:
    return choice.score, choice.delta
