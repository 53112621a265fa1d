"""The fast routers: the reference routers' decisions from arrays, by numpy or compiled code.

Each wraps its reference, which supplies parameters and state, answers the rare tick whose counts
do not fit 64-bit integers, and is what tests compare with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any, Literal, Protocol, runtime_checkable

from brtheory.core.admission import Admission
from brtheory.core.fscore import ScoreWeights, check_token_limit
from brtheory.core.tick import TickState, check_state
from brtheory.errors import InputError
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.routers.baselines import PoolFifo
from brtheory.routers.fast_arrays import Decisions, TickArrays, pack
from brtheory.routers.fast_oldest import decide_fifo_numpy, decide_window_numpy
from brtheory.routers.protocol import following, projection_rules
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.vectorised import decide_numpy
from brtheory.routers.window import Window, check_window_limit

FastEngine = Literal["numpy", "compiled"]


@runtime_checkable
class ArrayRouter(Protocol):
    """A pooled router that also decides on arrays."""

    @property
    def horizon(self) -> int:
        """H: how many steps of projected loads a tick needs."""

    def decide(self, arrays: TickArrays) -> Decisions:
        """Decisions of one tick; the arrays are well-formed, as ``check_state`` would have it."""

    def tick(self, state: TickState) -> list[Admission]:
        """As ``PooledRouter``."""


@dataclass(frozen=True)
class FastBalanceRoute:
    """BR-0 or BR-H by a fast engine.

    Parameters
    ----------
    reference
        The router it equals.
    engine
        ``numpy`` or ``compiled``.
    """

    reference: BalanceRoute
    engine: FastEngine = "numpy"

    @property
    def horizon(self) -> int:
        """H of the reference."""
        return self.reference.horizon

    @property
    def projection(self) -> ProjectionRules:
        """How predictions become projected loads, as the reference has it."""
        return projection_rules(self.reference)

    @property
    def horizon_follows(self) -> bool:
        """Whether H is measured as the cluster runs."""
        return following(self.reference) is not None

    def look_ahead(self, horizon: int) -> None:
        """Take rows of ``horizon`` + 1 entries from now on.

        Raises
        ------
        InputError
            If H is fixed to another number.
        """
        router = following(self.reference)
        if router is None:
            raise InputError("horizon", f"{self.horizon}, as in the parameters", horizon)
        router.look_ahead(horizon)
        self._weights.clear()
        self._compiled_ticks.clear()

    def weights(self, replicas: int) -> ScoreWeights:
        """The reference's weights, kept between ticks of the same G."""
        if replicas not in self._weights:
            self._weights[replicas] = self.reference.weights(replicas)
        return self._weights[replicas]

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick.

        Raises
        ------
        InputError
            As the reference.
        """
        check_state(state, horizon=self.horizon)
        weights = self.weights(len(state.loads))
        check_token_limit(state.loads, [r.prompt_tokens for r in state.pool], weights)
        arrays = pack(state)
        if arrays is None:
            return self.reference.tick(state)
        return self.decide(arrays).admissions(state.pool)

    def decide(self, arrays: TickArrays) -> Decisions:
        """Decide one tick on arrays.

        Raises
        ------
        InputError
            If a load or the pool is beyond the exact token limit.
        """
        replicas = len(arrays.free_slots)
        if self.engine == "numpy":
            return decide_numpy(arrays, self.reference.params, self.weights(replicas))
        decide = self._compiled_ticks.get(replicas)
        if decide is None:
            decide = self._compiled_tick(replicas)
            self._compiled_ticks[replicas] = decide
        return decide(arrays)

    def _compiled_tick(self, replicas: int) -> Callable[[TickArrays], Decisions]:
        """All that depends on G alone is done once: in Python it takes longer than the tick."""
        weights = self.weights(replicas)
        rules = _compiled().rule_arrays(self.reference.params, weights, replicas)
        return partial(_compiled().decide_balance, weights=weights, rules=rules)

    @cached_property
    def _compiled_ticks(self) -> dict[int, Callable[[TickArrays], Decisions]]:
        return {}

    @cached_property
    def _weights(self) -> dict[int, ScoreWeights]:
        return {}


@dataclass(frozen=True)
class FastPoolFifo:
    """The pooled FIFO by a fast engine; parameters as ``FastBalanceRoute``."""

    reference: PoolFifo
    engine: FastEngine = "numpy"

    @property
    def horizon(self) -> int:
        """H = 0."""
        return 0

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick."""
        check_state(state, horizon=0)
        arrays = pack(state)
        if arrays is None:
            return self.reference.tick(state)
        return self.decide(arrays).admissions(state.pool)

    def decide(self, arrays: TickArrays) -> Decisions:
        """Decide one tick on arrays."""
        if self.engine == "numpy":
            return decide_fifo_numpy(arrays)
        decisions: Decisions = _compiled().decide_fifo(arrays)
        return decisions


@dataclass(frozen=True)
class FastWindow:
    """The window router by a fast engine; parameters as ``FastBalanceRoute``."""

    reference: Window
    engine: FastEngine = "numpy"

    @property
    def horizon(self) -> int:
        """H = 0."""
        return 0

    @property
    def hold_s(self) -> float:
        """As ``HoldingRouter``."""
        return self.reference.hold_s

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick, then learn from the waits of what was admitted.

        Raises
        ------
        InputError
            As the reference.
        """
        check_state(state, horizon=0)
        params = self.reference.params
        check_window_limit(state.loads, [r.prompt_tokens for r in state.pool], params)
        arrays = pack(state)
        if arrays is None:
            return self.reference.tick(state)
        return self.decide(arrays).admissions(state.pool)

    def decide(self, arrays: TickArrays) -> Decisions:
        """Decide one tick on arrays, then learn from it.

        Raises
        ------
        InputError
            If a load or the pool is beyond the exact token limit.
        """
        patience = self.reference.patience()
        params = self.reference.params
        if self.engine == "numpy":
            decisions = decide_window_numpy(arrays, params, patience)
        else:
            decisions = _compiled().decide_window(arrays, params, patience)
        self._learn(arrays, decisions)
        return decisions

    def _learn(self, arrays: TickArrays, decisions: Decisions) -> None:
        positions = list(decisions.positions)
        prompts = arrays.prompt_tokens[positions].tolist()
        if arrays.ready_s is None:
            waits = [0.0] * len(positions)
        else:
            waits = (arrays.now_s - arrays.ready_s[positions]).tolist()
        self.reference.statistics.add_all(list(zip(prompts, waits, strict=True)))


@cache
def _compiled() -> Any:
    """The compiled ticks; imported when first needed, because numba takes its time to load."""
    return import_module("brtheory.routers.fast_compiled")
