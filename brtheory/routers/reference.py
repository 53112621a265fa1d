"""BR-0 and BR-H as the paper tells them: the readable reference every fast path must equal.

One tick, with cap[g] the free slots and S_tot their sum (model-and-routers.md section 3):

Stage 1, while S_tot > S_greedy and the pool is not empty: the replica with the largest
(cap, margin) takes the single request of the whole pool with the largest (F, prompt).

Stage 2, while S_tot > 0 and the pool is not empty: the replica with the largest (cap, margin)
takes, of the non-empty subsets of the first R_max requests with |Q| <= min(cap, R_max), the one
with the largest (F, Delta). If its F <= 0, the best single candidate instead (starvation guard).

Margins are refreshed after every admission. Ties go to the lower replica, the older request, the
smaller mask. Where KV capacity is limited, only sets with KV room are offered; a replica with room
for none of them is closed for the rest of the tick.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brtheory.core.admission import Admission
from brtheory.core.fscore import (
    ScoreWeights,
    check_token_limit,
    horizon_weights,
    one_step_weights,
    time_f_score,
)
from brtheory.core.requests import Request
from brtheory.core.subsets import members, subset_masks
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.errors import InputError
from brtheory.prediction.auto_horizon import FIRST_HORIZON
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.routers.params import BalanceRouteParams, HorizonParams


@dataclass(frozen=True, slots=True)
class Choice:
    """A scored set of requests for one replica."""

    score: int
    delta: int
    requests: tuple[Request, ...]


class BalanceRoute:
    """BR-0: no prediction, one step ahead.

    Parameters
    ----------
    params
        Thresholds and orders; see ``BalanceRouteParams``.
    """

    def __init__(self, params: BalanceRouteParams) -> None:
        self.params = params

    @property
    def horizon(self) -> int:
        """H = 0: present loads only."""
        return 0

    def weights(self, replicas: int) -> ScoreWeights:
        """Score weights for G live replicas."""
        return one_step_weights(replicas)

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick.

        Raises
        ------
        InputError
            If the state does not fit (``check_state``) or is beyond the exact token limit.
        """
        check_state(state, horizon=self.horizon)
        weights = self.weights(len(state.loads))
        check_token_limit(state.loads, [r.prompt_tokens for r in state.pool], weights)
        ledger, pool = TickLedger(state), list(state.pool)
        return [*self._stage_1(ledger, pool, weights), *self._stage_2(ledger, pool, weights)]

    def _stage_1(
        self, ledger: TickLedger, pool: list[Request], weights: ScoreWeights
    ) -> Iterator[Admission]:
        threshold = self.params.greedy_threshold
        greedy = ledger.replicas if threshold is None else threshold
        while ledger.total_free_slots > greedy and pool:
            replica = self._next_replica(ledger)
            fitting = [request for request in pool if ledger.fits([request], replica)]
            if fitting:
                choice = self._best_single(fitting, ledger, replica, weights)
                yield from _admit(choice, replica, ledger, pool, stage=1)
            else:
                ledger.close(replica)

    def _stage_2(
        self, ledger: TickLedger, pool: list[Request], weights: ScoreWeights
    ) -> Iterator[Admission]:
        while ledger.total_free_slots > 0 and pool:
            replica = self._next_replica(ledger)
            candidates = self._candidates(pool)
            choice = self._best_subset(candidates, ledger, replica, weights)
            if choice is not None:
                yield from _admit(choice, replica, ledger, pool, stage=2)
            else:
                ledger.close(replica)

    def _next_replica(self, ledger: TickLedger) -> int:
        """Replica with the largest key among those with a free slot, ties to the lower index."""
        open_replicas = [g for g in range(ledger.replicas) if ledger.cap[g] > 0]
        if self.params.key_order == "slots-first":
            return max(open_replicas, key=lambda g: (ledger.cap[g], ledger.margin(g)))
        return max(open_replicas, key=lambda g: (ledger.margin(g), ledger.cap[g]))

    def _best_single(
        self, pool: Sequence[Request], ledger: TickLedger, replica: int, weights: ScoreWeights
    ) -> Choice:
        """Largest (F, prompt) of stage 1, or the longest prompt; ties to the older."""
        margins, per_token = ledger.margins(replica), ledger.per_token(replica)
        choices = [_choice((request,), margins, weights, per_token=per_token) for request in pool]
        if self.params.stage1 == "longest":
            return max(choices, key=lambda choice: choice.delta)
        return max(choices, key=lambda choice: (choice.score, choice.delta))

    def _candidates(self, pool: Sequence[Request]) -> Sequence[Request]:
        """The R_max stage-2 candidates; candidate j is bit j of a mask."""
        most = self.params.max_subset
        if self.params.candidate_order == "oldest":
            return pool[:most]
        if self.params.candidate_order == "newest":
            return pool[: -most - 1 : -1]
        return sorted(pool, key=lambda request: -request.prompt_tokens)[:most]

    def _best_subset(
        self,
        candidates: Sequence[Request],
        ledger: TickLedger,
        replica: int,
        weights: ScoreWeights,
    ) -> Choice | None:
        """Best set with KV room, the best single one if no set gains, None if nothing has room."""
        margins, per_token = ledger.margins(replica), ledger.per_token(replica)
        sets = [
            tuple(candidates[j] for j in members(mask))
            for mask in subset_masks(len(candidates), ledger.cap[replica])
        ]
        choices = [
            _choice(s, margins, weights, per_token=per_token)
            for s in sets
            if ledger.fits(s, replica)
        ]
        if not choices:
            return None
        best = max(choices, key=lambda choice: (choice.score, choice.delta))
        if best.score > 0:
            return best
        singles = [choice for choice in choices if len(choice.requests) == 1]
        return max(singles, key=lambda choice: (choice.score, choice.delta))


class BalanceRouteHorizon(BalanceRoute):
    """BR-H: the same tick on loads projected over H steps.

    Parameters
    ----------
    params
        See ``HorizonParams``; with ``auto`` the caller that projects says H by ``look_ahead``.
    """

    def __init__(self, params: HorizonParams) -> None:
        super().__init__(params)
        self._horizon_params = params
        self._horizon = FIRST_HORIZON if params.horizon == "auto" else params.horizon

    @property
    def horizon(self) -> int:
        """H at present."""
        return self._horizon

    @property
    def horizon_follows(self) -> bool:
        """Whether H is ``auto``: measured as the cluster runs."""
        return self._horizon_params.horizon == "auto"

    @property
    def projection(self) -> ProjectionRules:
        """How predictions become projected loads."""
        return self._horizon_params.projection

    def look_ahead(self, horizon: int) -> None:
        """Take rows of ``horizon`` + 1 entries from now on (H >= 0), where H is ``auto``.

        Raises
        ------
        InputError
            If H is fixed to another number.
        """
        if not self.horizon_follows and horizon != self._horizon:
            raise InputError("horizon", f"{self._horizon}, as in the parameters", horizon)
        self._horizon = horizon

    def weights(self, replicas: int) -> ScoreWeights:
        """Fixed-point score weights; beta follows the number of live replicas unless set."""
        params = self._horizon_params
        beta = replicas if params.overflow_weight is None else params.overflow_weight
        return horizon_weights(
            horizon=self._horizon,
            discount=params.discount,
            reward_weight=params.reward_weight,
            overflow_weight=beta,
        )


def _choice(
    requests: tuple[Request, ...],
    margins: Sequence[int],
    weights: ScoreWeights,
    *,
    per_token: int,
) -> Choice:
    delta = sum(request.prompt_tokens for request in requests)
    score = time_f_score(delta, margins, weights, per_token=per_token)
    return Choice(score, delta, requests)


def _admit(
    choice: Choice, replica: int, ledger: TickLedger, pool: list[Request], *, stage: int
) -> Iterator[Admission]:
    ledger.admit(choice.requests, replica)
    for request in sorted(choice.requests, key=pool.index):
        pool.remove(request)
        yield Admission(request.id, replica, stage, choice.score)
