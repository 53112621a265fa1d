"""A running cluster against a slow model: any order of arrivals, ticks, steps, ends and failures.

The product's side is what the simulator and the proxy keep: ``Cluster``, ``PromptPool``,
``HorizonState`` and a router, of which only live replicas are shown, so that G follows failures.
The model's side is a dictionary of requests; loads and projections are summed from it afresh, and
each router's decisions are those of its definition in ``tests.slow_routers``.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from brtheory.core.cluster import Cluster, IntArray
from brtheory.core.horizon import NEVER, HorizonState
from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams, HorizonParams, WindowParams
from brtheory.routers.protocol import PooledRouter
from brtheory.routers.registry import build_router, find_router
from tests.slow_routers import SlowLeastTokens, SlowWindow, slow_balance_route

HORIZON = 4
FINISH = st.none() | st.integers(1, HORIZON + 3)
"""Steps to a predicted finish, None for an anchor."""
PROMPTS = st.integers(1, 15) | st.integers(40, 60)
"""Unequal, so that the replica with most free slots is not always the lightest."""
BURST = st.lists(st.tuples(PROMPTS, st.integers(1, 8), FINISH), min_size=2, max_size=7)
"""Arrivals (prompt, length limit, finish): several, so that a tick has something to choose from."""


@dataclass
class Running:
    """A request as the model sees it: where it runs, how old it is, when it should end."""

    request: Request
    replica: int
    age: int
    finish: int

    @property
    def tokens(self) -> int:
        return self.request.prompt_tokens + self.age

    def present(self, step: int, h: int) -> bool:
        """Whether it counts at h; an anchor and one that outlived its prediction always do."""
        return self.finish <= step or step + h < self.finish


@dataclass
class LiveView:
    """The arrays of the live replicas, as an immediate router sees them."""

    loads: IntArray
    active: IntArray
    queued: IntArray
    queued_tokens: IntArray
    paces: None = None


class RouterMachine(RuleBasedStateMachine):
    """Shared books; subclasses say how the router decides and what it should decide."""

    def params(self, draw_options: dict[str, Any]) -> object:
        raise NotImplementedError

    router_name: str
    holds = False
    horizon_steps = 0

    @initialize(
        first=BURST,
        replicas=st.sampled_from([1, 2, 2, 3, 3, 4]),
        slots=st.integers(1, 3),
        capacity=st.none() | st.integers(70, 130),
        options=st.fixed_dictionaries(
            {
                "greedy_threshold": st.none() | st.integers(0, 6),
                "max_subset": st.integers(1, 4),
                "key_order": st.sampled_from(["slots-first", "margin-first"]),
                "candidate_order": st.sampled_from(["oldest", "newest", "largest"]),
                "stage1": st.sampled_from(["f-score", "longest"]),
            }
        ),
    )
    def start(
        self,
        replicas: int,
        slots: int,
        capacity: int | None,
        options: dict[str, Any],
        first: list[tuple[int, int, int | None]],
    ) -> None:
        self.cluster = Cluster(replicas=replicas, slots=slots, kv_capacity=capacity)
        self.horizon = HorizonState(replicas=replicas, horizon=self.horizon_steps)
        self.pool = PromptPool()
        self.chosen = self.params(options)
        self.routers: list[Any] = [
            build_router(
                find_router(self.router_name), self.chosen, np.random.default_rng(0), backend=name
            )
            for name in ("reference", "numpy")
        ]
        self.live = list(range(replicas))
        self.step = 0
        self.now_s = 0.0
        self.waiting: list[Request] = []
        self.queues: list[list[Request]] = [[] for _ in range(replicas)]
        self.running: dict[int, Running] = {}
        self.predicted: dict[int, int | None] = {}
        self.gone: set[int] = set()
        self.arrived = 0
        self.arrive(first, tick_now=False)

    # -- what happens --------------------------------------------------------------------------

    @rule(requests=BURST, tick_now=st.booleans())
    def arrive(self, requests: list[tuple[int, int, int | None]], tick_now: bool) -> None:
        for prompt, limit, finish in requests:
            reserved = 0 if self.cluster.kv_capacity is None else prompt + limit
            request = Request(self.arrived, prompt, self.now_s, reserved)
            self.predicted[request.id] = finish
            self.arrived += 1
            self.receive(request)
        if tick_now:
            self.decide()

    @precondition(lambda self: self.waiting or self.queued() or self.running)
    @rule(steps=st.integers(1, 6))
    def progress(self, steps: int) -> None:
        self.cluster.advance(steps)
        self.horizon.advance(steps)
        self.step += steps
        self.now_s += 0.25 * steps
        for running in self.running.values():
            running.age += steps

    @precondition(lambda self: (self.waiting or self.queued()) and self.open_slots() > 0)
    @rule()
    def tick(self) -> None:
        self.decide()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tick_now=st.booleans())
    def complete_or_cancel(self, data: st.DataObject, tick_now: bool) -> None:
        ids = st.sampled_from(sorted(self.running))
        for request_id in data.draw(st.lists(ids, min_size=1, max_size=6, unique=True)):
            self.leave(request_id)
        if tick_now:
            self.decide()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel_waiting(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.waiting))
        assert self.pool.take([request.id]) == [request]
        self.waiting.remove(request)
        self.gone.add(request.id)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), finish=FINISH)
    def predict_again(self, data: st.DataObject, finish: int | None) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.running)))
        self.running[request_id].finish = self.absolute(finish)
        self.horizon.refresh(request_id, finish=self.absolute(finish))

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """A replica loses its KV: what ran there is prefilled anew, tokens included."""
        replica = data.draw(st.sampled_from(self.live))
        self.live.remove(replica)
        lost = [r for r in self.running.values() if r.replica == replica]
        for running in lost:
            self.leave(running.request.id)
            self.gone.remove(running.request.id)
            extra = running.age if running.request.reserved_tokens else 0
            reserved = running.request.reserved_tokens + extra
            again = replace(running.request, prompt_tokens=running.tokens, reserved_tokens=reserved)
            self.receive(again)
        for request in self.queues[replica]:
            assert self.cluster.dequeue(replica) == request
        queued, self.queues[replica] = self.queues[replica], []
        for request in queued:
            self.receive(request)

    @precondition(lambda self: len(self.live) < self.cluster.replicas)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        down = sorted(set(range(self.cluster.replicas)) - set(self.live))
        self.live = sorted([*self.live, data.draw(st.sampled_from(down))])

    # -- how the router is asked ---------------------------------------------------------------

    def receive(self, request: Request) -> None:
        self.pool.add(request)
        self.waiting = sorted([*self.waiting, request], key=lambda r: (r.ready_s, r.id))

    def decide(self) -> None:
        state, room = self.state(), self.open_slots()
        expected = self.expected(state)
        for router in self.routers:
            assert isinstance(router, PooledRouter)
            admissions = router.tick(state)
            found = [(a.id, a.replica, a.stage, a.score) for a in admissions]
            assert [d[: len(e)] for d, e in zip(found, expected, strict=True)] == expected
        requests = self.pool.take(a.id for a in admissions)
        for request, admission in zip(requests, admissions, strict=True):
            self.waiting.remove(request)
            self.admit(request, self.live[admission.replica])
        if self.cluster.kv_capacity is None:
            # Only a router that holds requests leaves one waiting beside a free slot.
            most = min(len(state.pool), room)
            assert len(admissions) == most or (self.holds and len(admissions) < most)

    def expected(self, state: TickState) -> list[tuple[int, ...]]:
        raise NotImplementedError

    def state(self) -> TickState:
        room = self.cluster.free_tokens
        return TickState(
            loads=self.horizon.rows()[self.live].tolist(),
            free_slots=self.cluster.free_slots[self.live].tolist(),
            pool=list(self.pool),
            now_s=self.now_s,
            free_tokens=None if room is None else room[self.live].tolist(),
        )

    def admit(self, request: Request, replica: int) -> None:
        finish = self.absolute(self.predicted[request.id])
        self.cluster.admit(request, replica)
        self.horizon.admit(request.id, replica, tokens=request.prompt_tokens, finish=finish)
        self.running[request.id] = Running(request, replica, 0, finish)

    def leave(self, request_id: int) -> None:
        running = self.running.pop(request_id)
        self.cluster.retire(running.request, running.replica, tokens=running.tokens)
        self.horizon.retire(request_id)
        self.gone.add(request_id)

    def absolute(self, finish: int | None) -> int:
        return int(NEVER) if finish is None else self.step + finish

    def queued(self) -> list[Request]:
        return [request for queue in self.queues for request in queue]

    def open_slots(self) -> int:
        busy = [r.replica for r in self.running.values()]
        return sum(self.cluster.slots - busy.count(g) for g in self.live)

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def the_cluster_is_what_the_requests_say(self) -> None:
        for g in range(self.cluster.replicas):
            here = [r for r in self.running.values() if r.replica == g]
            reserved = sum(r.request.reserved_tokens for r in here)
            assert self.cluster.loads[g] == sum(r.tokens for r in here)
            assert self.cluster.active[g] == len(here) <= self.cluster.slots
            assert self.cluster.reserved[g] == reserved
            assert self.cluster.kv_capacity is None or reserved <= self.cluster.kv_capacity
            assert self.cluster.queued[g] == len(self.queues[g])
            assert self.cluster.queued_tokens[g] == sum(r.prompt_tokens for r in self.queues[g])
            assert g in self.live or not (here or self.queues[g])

    @invariant()
    def projected_loads_are_summed_from_the_requests(self) -> None:
        rows = np.zeros((self.cluster.replicas, self.horizon_steps + 1), dtype=np.int64)
        for running in self.running.values():
            for h in range(self.horizon_steps + 1):
                if running.present(self.step, h):
                    rows[running.replica, h] += running.tokens + h
        assert self.horizon.rows().tolist() == rows.tolist()

    @invariant()
    def every_request_is_in_one_place(self) -> None:
        assert list(self.pool) == self.waiting
        outside = [*(r.id for r in self.waiting), *(r.id for r in self.queued())]
        places = [*outside, *self.running, *self.gone]
        assert sorted(places) == list(range(self.arrived))


class BalanceRouteMachine(RouterMachine):
    router_name = "br0"

    def params(self, draw_options: dict[str, Any]) -> object:
        return BalanceRouteParams(**draw_options)

    def expected(self, state: TickState) -> list[tuple[int, ...]]:
        assert isinstance(self.chosen, BalanceRouteParams)
        return list(slow_balance_route(state, self.chosen))


class HorizonMachine(BalanceRouteMachine):
    router_name = "brh"
    horizon_steps = HORIZON

    def params(self, draw_options: dict[str, Any]) -> object:
        return HorizonParams(horizon=HORIZON, discount=0.9, **draw_options)


class WindowMachine(RouterMachine):
    router_name = "window"
    holds = True

    def params(self, draw_options: dict[str, Any]) -> object:
        most = draw_options["max_subset"]
        params = WindowParams(
            window=most + 1, memory=most, age_limit=2.0, age_floor_s=0.2, hold_s=0.3
        )
        self.slow = SlowWindow(params)
        return params

    def expected(self, state: TickState) -> list[tuple[int, ...]]:
        return list(self.slow.tick(state))


class LeastTokensMachine(RouterMachine):
    """An immediate router: requests wait in the queue of the replica they were placed on."""

    router_name = "least-tokens"

    def params(self, draw_options: dict[str, Any]) -> object:
        self.slow = SlowLeastTokens()
        return find_router("least-tokens").params()

    def receive(self, request: Request) -> None:
        tokens = [
            sum(r.tokens for r in self.running.values() if r.replica == g)
            + sum(r.prompt_tokens for r in self.queues[g])
            for g in self.live
        ]
        cluster, live = self.cluster, self.live
        view = LiveView(
            cluster.loads[live],
            cluster.active[live],
            cluster.queued[live],
            cluster.queued_tokens[live],
        )
        place = self.slow.place(tokens)
        assert [router.place(request, view) for router in self.routers] == [place, place]
        self.queues[live[place]].append(request)
        cluster.enqueue(request, live[place])

    def decide(self) -> None:
        for replica in self.live:
            while (head := self.cluster.head(replica)) and self.cluster.fits(head, replica):
                assert self.cluster.dequeue(replica) == head == self.queues[replica].pop(0)
                self.admit(head, replica)


def _case(machine: type[RouterMachine]) -> Any:
    """Run half of the profile's examples: each is a whole history."""
    case = machine.TestCase
    case.settings = settings(max_examples=max(10, settings().max_examples // 2))
    return case


TestBalanceRoute = _case(BalanceRouteMachine)
TestHorizon = _case(HorizonMachine)
TestWindow = _case(WindowMachine)
TestLeastTokens = _case(LeastTokensMachine)
