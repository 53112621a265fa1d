"""When and how requests are bound: ticks, deadlines, fallbacks, pacing, switching."""

import asyncio

import pytest

from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.proxy.config import load_settings
from brtheory.proxy.desk import Desk
from brtheory.proxy.dispatcher import Dispatcher
from brtheory.proxy.events import ClientLeft, Completed, DecodeOpened, FirstByte, PrefillDone
from brtheory.proxy.lifecycle import Phase
from brtheory.proxy.passage import Passage
from brtheory.proxy.ticker import RouterChoice, servable_routers
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.registry import router_specs
from tests.unit.proxy.desk import books_are_empty, enter, make_desk
from tests.unit.proxy.engines import asynchronous

SERVED = ("connector.name=none", 'decode=[{name = "d", url = "http://d"}]')


def pooled(desk: Desk, *prompts: int) -> list[Passage]:
    """Requests of so many prompt tokens, prefilled."""
    passages = []
    for tokens in prompts:
        passage = enter(desk)
        passage.apply(PrefillDone(passage.node or "", tokens))
        passages.append(passage)
    return passages


def replicas(passages: list[Passage]) -> list[str | None]:
    return [None if p.hold is None else p.hold.replica for p in passages]


@pytest.mark.parametrize("prompts", [(90, 30, 30, 30), (5, 80, 7, 60, 41, 9, 33, 2), (10,)])
def test_bindings_are_exactly_what_the_reference_router_decides(prompts: tuple[int, ...]) -> None:
    desk, clock = make_desk(replicas=3, slots=2)
    for passage in pooled(desk, 40, 15):
        desk.dispatch()
        assert passage.hold is not None
    passages, live = pooled(desk, *prompts), desk.fleet.live("decode")
    state = TickState(
        loads=[[load] for load in desk.mirror.loads(live)],
        free_slots=desk.mirror.free_slots(live),
        pool=list(desk.pool.requests),
        now_s=clock.now_s,
    )
    decided = {a.id: live[a.replica] for a in BalanceRoute(BalanceRouteParams()).tick(state)}
    ids = {id(desk.waiting[number]): number for number in desk.waiting}
    desk.dispatch()
    assert replicas(passages) == [decided.get(ids[id(passage)]) for passage in passages]
    assert len(decided) == min(len(prompts), 4)


def test_a_request_waits_without_a_slot_and_is_bound_when_one_is_given_back() -> None:
    desk, clock = make_desk(replicas=1, slots=1)
    first, second = pooled(desk, 10, 10)
    desk.dispatch()
    assert [first.phase, second.phase] == [Phase.CONNECTING, Phase.POOLED]
    for event in (DecodeOpened("d/0"), FirstByte(), Completed(3)):
        first.apply(event)
    clock.pass_(1.0)
    desk.dispatch()
    assert second.phase is Phase.CONNECTING


def test_at_the_deadline_the_least_loaded_live_replica_takes_it() -> None:
    desk, clock = make_desk(replicas=2, slots=1)
    pooled(desk, 50, 20)
    desk.dispatch()
    (late,) = pooled(desk, 5)
    clock.pass_(23.0)
    desk.dispatch()
    assert late.phase is Phase.POOLED
    clock.pass_(1.5)  # 24.5 s of a lease of 30 s
    desk.dispatch()
    assert late.hold is not None
    loads = dict(zip(["d/0", "d/1"], desk.mirror.loads(["d/0", "d/1"]), strict=True))
    assert loads[late.hold.replica] == 20 + 5
    assert desk.forced == 1


def test_past_the_lease_it_is_prefilled_again_once_and_then_given_up() -> None:
    desk, clock = make_desk()
    desk.fleet.find("d/0").draining = desk.fleet.find("d/1").draining = True
    (passage,) = pooled(desk, 10)
    clock.pass_(31)
    desk.dispatch()
    assert passage.phase is Phase.QUEUED
    passage.queue()
    passage.apply(PrefillDone("p0", 10))
    clock.pass_(31)
    desk.dispatch()
    assert passage.phase is Phase.FAILED
    assert (desk.pool.expired, desk.lost, desk.prefills.stranded_requests) == (2, 1, 2)
    assert books_are_empty(desk)


@pytest.mark.parametrize("name", ["exact-tick", "bf-io-exact"])
def test_routers_that_solve_an_optimisation_each_tick_are_refused(name: str) -> None:
    """They would stop every stream for the time of a tick, which has no bound."""
    assert name in router_specs()
    assert name not in servable_routers()
    desk, _ = make_desk()
    with pytest.raises(InputError, match=f"router.name: expected one that decides.*'{name}'"):
        desk.ticker.use(RouterChoice(name))
    assert desk.ticker.choice.name == "br0"
    with pytest.raises(InputError, match="no stream moves"):
        load_settings(None, environment={}, flags=[*SERVED, f"router.name={name}"])


@pytest.mark.parametrize("pooled_requests", [1, 2, 3, 20])
def test_the_fast_tick_binds_as_the_reference_does(pooled_requests: int) -> None:
    """Pools of one or two go to the reference, larger ones to arrays: nobody can tell."""
    prompts = [10 * (7 * n % 13) + 1 for n in range(pooled_requests)]
    bound = []
    for choice in (RouterChoice(backend="reference"), RouterChoice(backend="numpy")):
        desk, _ = make_desk(replicas=3, slots=8, choice=choice)
        passages = pooled(desk, *prompts)
        desk.dispatch()
        bound.append(replicas(passages))
    assert bound[0] == bound[1]


def test_a_router_that_fails_is_stood_in_for_by_fifo() -> None:
    class Broken:
        horizon = 0

        def tick(self, state: TickState) -> list[object]:
            raise InputError("router", "to work", state.now_s)

    desk, _ = make_desk()
    desk.ticker._router = Broken()
    passages = pooled(desk, 10, 20, 30)
    desk.dispatch()
    assert None not in replicas(passages)
    assert desk.ticker.fallbacks == 1


def test_switching_routers_keeps_bound_requests_and_teaches_the_new_predictor() -> None:
    desk, _ = make_desk(slots=8)
    passages = pooled(desk, 10, 20, 30)
    desk.dispatch()
    for passage in passages:
        passage.apply(DecodeOpened("d"))
        assert passage.hold is not None
        passage.hold.grow(4)
    desk.ticker.use(RouterChoice("brh", {"horizon": 4}, "exact-match"))
    assert desk.ticker._rows(["d/0", "d/1"])[0][0] == desk.mirror.loads(["d/0"])[0]
    with pytest.raises(InputError):
        desk.ticker.use(RouterChoice("brh", {"horizon": -1}))
    assert desk.ticker.choice.predictor == "exact-match"
    for passage in passages:
        passage.apply(Completed(4))
    assert [outcome.output_tokens for outcome in desk.ticker.history] == [4, 4, 4]
    assert books_are_empty(desk)


def test_replicas_that_come_and_go_keep_the_books_right() -> None:
    desk, _ = make_desk(slots=2, choice=RouterChoice("brh", {"horizon": 3}))
    first, *_ = passages = pooled(desk, 10, 20, 30)
    desk.dispatch()
    desk.mirror.add_replica("e", slots=9)
    desk.ticker.replicas_changed()
    assert first.hold is not None
    with pytest.raises(InputError, match="no bound request"):
        desk.mirror.remove_replica(first.hold.replica)
    for passage in passages:
        passage.apply(ClientLeft())
    desk.mirror.remove_replica("d/0")
    desk.ticker.replicas_changed()
    assert desk.ticker._rows(["d/1", "e"]) == [[0] * 4, [0] * 4]


def test_kv_capacity_of_replicas_is_respected() -> None:
    desk, _ = make_desk(replicas=1, slots=9, decode_kv=100)
    first, second = enter(desk, max_tokens=40), enter(desk, max_tokens=40)
    for passage in (first, second):
        passage.apply(PrefillDone("p0", 30))
    desk.dispatch()
    # 30 + 40 tokens are reserved for the first; the second does not fit beside it.
    assert [first.phase, second.phase] == [Phase.CONNECTING, Phase.POOLED]


@asynchronous
async def test_ticks_are_paced_only_while_waiting_can_gain_something() -> None:
    desk, _ = make_desk(replicas=1, slots=1)
    times: list[float] = []
    desk.clock = asyncio.get_running_loop().time
    dispatcher = Dispatcher(desk, interval_s=0.2, on_tick=times.append)
    try:
        pooled(desk, 10)
        await asyncio.sleep(0.02)
        # A free slot for everything pooled: bound at once.
        assert len(times) == 1
        assert len(desk.mirror.holds()) == 1
        pooled(desk, 10, 10)
        await asyncio.sleep(0.05)
        assert len(times) == 1
        await asyncio.sleep(0.3)
        # No slot is free, yet the router was asked once the interval was over.
        assert len(times) == 2
    finally:
        dispatcher.stop()


@asynchronous
async def test_a_deadline_wakes_the_dispatcher_by_itself() -> None:
    desk, _ = make_desk(replicas=1, slots=1)
    loop = asyncio.get_running_loop()
    desk.clock = desk.ticker._clock = loop.time
    desk.connector = type(desk.connector)(lease_s=0.25)
    dispatcher = Dispatcher(desk, interval_s=0.0, on_tick=lambda _: None)
    try:
        first, second = pooled(desk, 10, 10)
        await asyncio.sleep(0.05)
        assert [first.phase, second.phase] == [Phase.CONNECTING, Phase.POOLED]
        await asyncio.sleep(0.3)
        assert second.phase is Phase.CONNECTING
        assert desk.forced == 1
    finally:
        dispatcher.stop()


def test_prefills_wait_when_what_is_prefilled_would_outlive_its_lease() -> None:
    desk, clock = make_desk(replicas=2, slots=2)
    passages = [enter(desk) for _ in range(14)]
    # Four free slots, and four more to choose from.
    assert sum(p.phase is Phase.PREFILLING for p in passages) == 4 + 4
    for passage in passages[:8]:
        passage.apply(PrefillDone("p0", 10))
    desk.dispatch()
    assert sum(p.phase is Phase.CONNECTING for p in passages) == 4
    assert (len(desk.pool), len(desk.gate)) == (4, 6)
    for passage in [p for p in passages if p.phase is Phase.CONNECTING]:
        for event in (DecodeOpened("d"), FirstByte(), Completed(3)):
            clock.pass_(5.0)
            passage.apply(event)
    # One slot was freed each 15 s: in the last 0.4 of 30 s, one.
    assert desk.within_lease() == 4 + 4
    for _ in range(10):
        desk.slot_freed()
    assert desk.within_lease() == 4 + 11
    for _ in range(64):
        clock.pass_(0.1)
        desk.slot_freed()
    # 64 in the last 6.3 s, so in 12 s 64 * 12 / 6.3 = 121.
    assert desk.within_lease() == 4 + 121


def test_engines_that_queue_hold_prefills_back() -> None:
    desk, _ = make_desk(replicas=1, slots=1, choice=RouterChoice("jsq"))
    passages = []
    for _ in range(8):
        passage = enter(desk)
        if passage.phase is Phase.PREFILLING:
            passage.apply(PrefillDone("p0", 10))
        desk.dispatch()
        passages.append(passage)
    # The slot, and four requests in the engine's own queue.
    assert sum(p.phase is Phase.CONNECTING for p in passages) == 5
    assert len(desk.gate) == 3
