"""Routers that solve each tick exactly (case C): ``exact-tick`` and ``bf-io-exact``.

Both admit as many requests as fit and, of those choices, the one with the least
sum over h = 0 .. H of (G*max_g - sum_g). ``exact-tick`` is myopic (H = 0, no prediction): what
deciding greedily tick by tick costs is the gap between it and the optimum over all ticks.
``bf-io-exact`` is the optimisation the companion paper states, over projected rows.

Requests with equal prompt and reservation are interchangeable, so of each kind only as many as
there are free slots are offered, the oldest, and the older ones are taken first.
"""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickState, check_state
from brtheory.offline.assignment import Assignment
from brtheory.routers.params import LONGEST_HORIZON
from brtheory.routers.registry import RouterSpec
from solvers.budget import Budget, Options
from solvers.facade import solve_problem
from solvers.problem import TickProblem
from solvers.result import Limit

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class ExactTickParams:
    """Parameters of ``exact-tick``.

    Parameters
    ----------
    method
        Solver backend.
    candidates
        Oldest requests of the pool that are offered; None offers all.
    work_limit
        Work each search of a tick may take, about a second of one core a unit (CP-SAT's
        deterministic time; 1,000 nodes of HiGHS). Then the best so far is used, never worse than
        BR-0's and the pooled FIFO's choice, the same on every machine. None is no limit.
    time_limit
        Seconds a tick may take, to the same effect, but what is found then depends on the machine;
        None is no limit.
    """

    method: Literal["cpsat", "milp"] = "cpsat"
    candidates: Annotated[int, Field(ge=1)] | None = None
    work_limit: Annotated[float, Field(gt=0)] | None = 0.5
    time_limit: Annotated[float, Field(gt=0)] | None = None


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class HorizonTickParams(ExactTickParams):
    """Parameters of ``bf-io-exact``.

    Parameters
    ----------
    horizon
        H, steps looked ahead.
    """

    horizon: Annotated[int, Field(ge=0, le=LONGEST_HORIZON)] = 72


class ExactTick:
    """Solves each tick over the projected rows it is given.

    Parameters
    ----------
    params
        Backend and limit.
    horizon
        H; rows have H + 1 entries.
    """

    def __init__(self, params: ExactTickParams, *, horizon: int = 0) -> None:
        self._params = params
        self._horizon = horizon
        self._limited = 0

    @property
    def horizon(self) -> int:
        """H: how many steps of projected loads a tick needs."""
        return self._horizon

    @property
    def limited_ticks(self) -> int:
        """Ticks so far that a limit ended before their choice was proved best."""
        return self._limited

    def tick(self, state: TickState) -> list[Admission]:
        """Admissions of the optimal choice, oldest request first.

        Raises
        ------
        InputError
            If the state does not fit (``check_state``).
        MissingExtraError
            If the backend is not installed.

        Warns
        -----
        RuntimeWarning
            The first time that a limit ends a tick.
        """
        check_state(state, horizon=self._horizon)
        pool = state.pool[: self._params.candidates]
        offered = replace(state, pool=_offered(pool, most=sum(state.free_slots)))
        result = solve_problem(
            TickProblem(offered, "imbalance"),
            method=self._params.method,
            budget=Budget(self._params.time_limit, work_limit=self._params.work_limit),
            options=Options(canonical=True),
        )
        if result.limit is not None:
            self._note_limit(result.limit)
        return _oldest_first(offered.pool, result.assignment or ())

    def _note_limit(self, limit: Limit) -> None:
        self._limited += 1
        if self._limited == 1:
            warnings.warn(
                f"a tick reached its {limit.value} limit: from here on some decisions are the best "
                f"found, not proved best (router parameter {limit.value}_limit)",
                RuntimeWarning,
                stacklevel=3,
            )


EXACT_TICK = RouterSpec(
    "exact-tick",
    "pooled",
    "each tick solved exactly on present loads (needs the extra 'solvers')",
    lambda params, _rng: ExactTick(params),
    ExactTickParams,
)

BF_IO_EXACT = RouterSpec(
    "bf-io-exact",
    "pooled",
    "each tick solved exactly over a projected horizon (needs the extra 'solvers')",
    lambda params, _rng: ExactTick(params, horizon=params.horizon),
    HorizonTickParams,
    needs_predictor=True,
)


def _kind(request: Request) -> tuple[int, int]:
    return request.prompt_tokens, request.reserved_tokens


def _offered(pool: Sequence[Request], *, most: int) -> list[Request]:
    """The oldest ``most`` requests of each kind, in pool order."""
    seen: dict[tuple[int, int], int] = defaultdict(int)
    offered = []
    for request in pool:
        seen[_kind(request)] += 1
        if seen[_kind(request)] <= most:
            offered.append(request)
    return offered


def _oldest_first(pool: Sequence[Request], assignment: Assignment) -> list[Admission]:
    """The same choice of kinds, filled with the oldest request of each."""
    by_id = {request.id: request for request in pool}
    replicas: dict[tuple[int, int], list[int]] = defaultdict(list)
    for placement in sorted(assignment, key=lambda p: p.replica):
        replicas[_kind(by_id[placement.id])].append(placement.replica)
    return [
        Admission(request.id, waiting.pop(0))
        for request in pool
        if (waiting := replicas[_kind(request)])
    ]
