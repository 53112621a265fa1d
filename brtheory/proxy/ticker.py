"""The ticker: any router of the registry, by name, on the mirror and the pool.

A tick takes requests out of the pool and binds them: what the router decides, then those whose
lease is running out, wherever there is least. The clock is an argument; when to tick is the
shell's affair. A router that fails must not stop traffic: that tick falls back to pooled FIFO.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import BrtheoryError, InputError
from brtheory.prediction.protocol import OnlinePredictor
from brtheory.proxy.history import Outcome, OutputHistory, make_predictor
from brtheory.proxy.mirror import Hold, LoadMirror
from brtheory.proxy.pool import Pooled, WaitingPool
from brtheory.proxy.projection import StreamProjection
from brtheory.routers.backend import Backend
from brtheory.routers.baselines import PoolFifo
from brtheory.routers.fast import FastBalanceRoute
from brtheory.routers.params import params_from_json
from brtheory.routers.protocol import (
    ForeseeingRouter,
    ImmediateRouter,
    PooledRouter,
    Router,
    following,
    longest_hold_s,
    projection_rules,
)
from brtheory.routers.registry import RouterSpec, build_router, find_router, router_specs

log = logging.getLogger(__name__)

FEW = 2
"""Pooled requests that the reference decides on before arrays of them are packed."""
OWN_PACKAGE = "brtheory."
WARM_UP = 9
"""Requests of a tick that only compiles: more than fit in, and more than a stage looks at."""


@dataclass(frozen=True)
class RouterChoice:
    """Which router runs.

    Parameters
    ----------
    name
        As in the registry.
    params
        Its parameters as JSON values.
    predictor
        For routers with a horizon: ``survival`` or ``exact-match``.
    seed
        Seed of the router's randomness.
    backend
        Which implementation of its tick runs; all decide identically.
    """

    name: str = "br0"
    params: Mapping[str, Any] = field(default_factory=dict)
    predictor: str = "survival"
    seed: int = 0
    backend: Backend = "numpy"

    def build(self) -> tuple[RouterSpec, Router]:
        """Look the router up, check its parameters and make it.

        Raises
        ------
        InputError
            If the router is unknown, too slow to decide between two tokens, or a parameter does
            not fit.
        """
        spec = find_router(self.name)
        if spec.name not in servable_routers():
            raise InputError(
                "router.name",
                "one that decides in the event loop: " + ", ".join(servable_routers()),
                f"{spec.name!r}, whose ticks may take seconds in which no stream moves",
            )
        params: object = params_from_json(spec.params, self.params, where="router.params")
        rng = np.random.default_rng(self.seed)
        router = build_router(spec, params, rng, backend=self.backend)
        if isinstance(router, ForeseeingRouter):
            raise InputError("router.params.score", "constant: exact has no fast tick", "exact")
        return spec, router

    def warm_up(self) -> None:
        """Decide a tick nobody sees, so that code compiled on first use is compiled now."""
        _, router = self.build()
        if isinstance(router, ImmediateRouter):
            return
        rows = [[10 * replica] * (router.horizon + 1) for replica in range(3)]
        pool = [Request(number, 5 + number) for number in range(WARM_UP)]
        for slots in (1, WARM_UP):
            router.tick(TickState(loads=rows, free_slots=[slots] * 3, pool=pool))


class Binding(NamedTuple):
    """A request bound to a replica.

    Parameters
    ----------
    pooled
        What was taken out of the pool.
    hold
        Its load entry, to be given back through ``Ticker.release``.
    forced
        Whether the lease decided, not the router.
    """

    pooled: Pooled
    hold: Hold
    forced: bool


def servable_routers() -> list[str]:
    """Names of the routers that decide fast enough to do so between two tokens of a stream.

    Those that other packages add solve an optimisation in each tick.
    """
    return [n for n, s in router_specs().items() if s.build.__module__.startswith(OWN_PACKAGE)]


class Ticker:
    """Binds pooled requests to live replicas.

    Parameters
    ----------
    mirror, pool
        The state it works on; it is their only writer of bindings.
    choice
        The router.
    clock
        Seconds, the clock of ``ready_s`` and of the leases.
    history
        What predictors are taught from, and where outcomes are kept.

    Attributes
    ----------
    ticks, fallbacks
        Ticks made, and those in which the router failed.
    immediate
        Whether the router binds as soon as a request is ready, free slot or not.
    """

    def __init__(
        self,
        mirror: LoadMirror,
        pool: WaitingPool,
        *,
        choice: RouterChoice,
        clock: Callable[[], float],
        history: OutputHistory | None = None,
    ) -> None:
        self.mirror = mirror
        self.pool = pool
        self.history = OutputHistory() if history is None else history
        self.prefixes: dict[int, int] = {}
        self.ticks = 0
        self.fallbacks = 0
        self._clock = clock
        self.use(choice)

    def use(self, choice: RouterChoice) -> None:
        """Switch to a router, from the next tick on; bound requests stay where they are.

        Raises
        ------
        InputError
            If the router or its parameters do not fit; the present one stays.
        """
        spec, router = choice.build()
        horizon = 0 if isinstance(router, ImmediateRouter) else router.horizon
        predictor: OnlinePredictor | None = None
        if horizon > 0:
            predictor = make_predictor(choice.predictor, self.prefixes)
            self.history.replay(predictor, self.prefixes)
            for hold in self.mirror.holds():
                predictor.observe_admitted(hold.request)
        self.choice, self.spec, self._router = choice, spec, router
        self.immediate = spec.family == "immediate"
        fast = isinstance(router, FastBalanceRoute) and horizon == 0
        self._reference = cast("FastBalanceRoute", router).reference if fast else None
        self._predictor = predictor
        self._follower = following(router)
        self._hold_s = longest_hold_s(router)
        self.replicas_changed()

    def replicas_changed(self) -> None:
        """Rebuild the projection: replicas were added to or removed from the mirror."""
        self._names = tuple(self.mirror.replicas)
        self._projection: StreamProjection | None = None
        router = self._router
        if self._predictor is not None and self._names and not isinstance(router, ImmediateRouter):
            self._projection = StreamProjection(
                self._predictor,
                names=self._names,
                horizon=router.horizon,
                rules=projection_rules(router),
                follows=self._follower is not None,
            )
            for hold in self.mirror.holds():
                self._projection.follow(hold)

    def tick(self, live: Sequence[str]) -> list[Binding]:
        """Bind what can be bound now.

        Parameters
        ----------
        live
            Names of the replicas that take new requests; G is their number.
        """
        if not live or not len(self.pool):
            return []
        self.ticks += 1
        now_s = self._clock()
        bindings = self._place(live) if self.immediate else self._bind_late(live, now_s)
        return bindings + self._bind_due(live, now_s)

    def nothing_to_gain(self, live: Sequence[str]) -> bool:
        """Whether waiting for more company is pointless: everything pooled has a slot now."""
        if self.immediate:
            return True
        return len(self.pool) <= sum(self.mirror.free_slots(live))

    def next_look_s(self, live: Sequence[str]) -> float:
        """When the router stops holding a request it may be holding now; infinite if never.

        Parameters
        ----------
        live
            As ``tick``.
        """
        if self._hold_s == 0 or not any(self.mirror.free_slots(live)):
            return float("inf")
        ends = (request.ready_s + self._hold_s for request in self.pool.requests)
        return min((end for end in ends if end > self._clock()), default=float("inf"))

    def release(self, hold: Hold, *, finished: bool) -> None:
        """Give a load entry back, exactly once, and learn from it.

        Parameters
        ----------
        hold
            From a ``Binding``.
        finished
            Whether the output had ended by itself.
        """
        self.mirror.release(hold)
        if self._projection is not None:
            self._projection.retire(hold, finished=finished)
        prefix = self.prefixes.pop(hold.request.id, None)
        if hold.age > 0:
            self.history.add(Outcome(prefix, hold.request.prompt_tokens, hold.age, finished))

    def _place(self, live: Sequence[str]) -> list[Binding]:
        # The family tells them apart; asking the protocol takes longer than most ticks.
        router = cast("ImmediateRouter", self._router)
        bindings = []
        for request in list(self.pool.requests):
            replica = live[router.place(request, self.mirror.view(live))]
            replica = self.mirror.spare(replica, live, avoid=self.pool.find(request.id).avoid)
            bindings.append(self._bind(request, replica, forced=False))
        return bindings

    def _bind_late(self, live: Sequence[str], now_s: float) -> list[Binding]:
        free_slots = self.mirror.free_slots(live)
        if not any(free_slots):
            return []
        state = TickState(
            loads=self._rows(live),
            free_slots=free_slots,
            pool=self.pool.requests,
            now_s=now_s,
            free_tokens=self.mirror.free_tokens(live),
        )
        admissions = self._decide(cast("PooledRouter", self._router), state)
        bindings = []
        for admission in admissions:
            pooled = self.pool.find(admission.id)
            replica = self.mirror.spare(live[admission.replica], live, avoid=pooled.avoid)
            # What was spared a replica may have taken another's slot.
            if self.mirror.replicas[replica].free_slots:
                bindings.append(self._bind(pooled.request, replica, forced=False))
        return bindings

    def _decide(self, router: PooledRouter, state: TickState) -> Sequence[Admission]:
        if self._reference is not None and len(state.pool) <= FEW:
            router = self._reference
        try:
            return router.tick(state)
        except (BrtheoryError, ArithmeticError, LookupError, ValueError):
            log.exception("router %s failed, this tick binds by FIFO", self.choice.name)
            self.fallbacks += 1
            return PoolFifo().tick(replace(state, loads=[row[:1] for row in state.loads]))

    def _bind_due(self, live: Sequence[str], now_s: float) -> list[Binding]:
        bindings = []
        for pooled in self.pool.due(now_s):
            replica = self.mirror.spare(self.mirror.emptiest(live), live, avoid=pooled.avoid)
            bindings.append(self._bind(pooled.request, replica, forced=True))
        return bindings

    def _bind(self, request: Request, replica: str, *, forced: bool) -> Binding:
        (pooled,) = self.pool.take([request.id])
        if pooled.prefix is not None:
            self.prefixes[request.id] = pooled.prefix
        hold = self.mirror.bind(request, replica)
        if self._projection is not None:
            self._projection.admit(hold)
        return Binding(pooled, hold, forced)

    def _rows(self, live: Sequence[str]) -> list[list[int]]:
        if self._projection is None:
            return [[load] for load in self.mirror.loads(live)]
        rows = self._projection.rows()
        if self._follower is not None:
            self._follower.look_ahead(rows.shape[1] - 1)
        order = [self._names.index(name) for name in live]
        selected: list[list[int]] = rows[order].tolist()
        return selected
