"""A request the window router holds is looked at again when its hold ends, without any event."""

import asyncio

import pytest

from brtheory.core.requests import Request
from brtheory.proxy.dispatcher import Dispatcher
from brtheory.proxy.mirror import LoadMirror
from brtheory.proxy.pool import Pooled, WaitingPool
from brtheory.proxy.ticker import RouterChoice, Ticker
from tests.unit.proxy.desk import Clock, make_desk

LIVE = ("light", "middle", "heavy")
HOLDING = RouterChoice("window", {"hold_s": 2.0})


def occupied(choice: RouterChoice) -> tuple[Ticker, Clock]:
    """The lightest replica is full, the middle one has a slot; one request of 20 tokens waits."""
    clock, mirror, pool = Clock(), LoadMirror(), WaitingPool()
    for number, (name, slots, tokens) in enumerate(
        (("light", 1, 10), ("middle", 2, 30), ("heavy", 1, 40))
    ):
        mirror.add_replica(name, slots=slots, kv_tokens=None)
        mirror.bind(Request(number, tokens), name)
    # 30 + 20 tokens would be a new peak.
    pool.add(Pooled(Request(9, 20, clock.now_s), 5, None, float("inf"), float("inf")))
    return Ticker(mirror, pool, choice=choice, clock=clock), clock


def test_the_hold_ends_by_the_clock() -> None:
    ticker, clock = occupied(HOLDING)
    assert ticker.tick(LIVE) == []
    assert ticker.next_look_s(LIVE) == clock.now_s + 2.0
    clock.pass_(2.0)
    assert [binding.hold.request.id for binding in ticker.tick(LIVE)] == [9]
    assert ticker.next_look_s(LIVE) == float("inf")


@pytest.mark.parametrize(
    "choice", [RouterChoice("window", {"hold_s": 0.0}), RouterChoice("br0"), RouterChoice("jsq")]
)
def test_a_router_that_never_holds_needs_no_look(choice: RouterChoice) -> None:
    ticker, _ = occupied(choice)
    assert ticker.next_look_s(LIVE) == float("inf")
    assert len(ticker.tick(LIVE)) == 1


def test_the_dispatcher_wakes_at_the_end_of_a_hold() -> None:
    """The desk's clock stands, so that the look lies as far off as the hold is long."""

    async def wakes() -> int:
        loop = asyncio.get_running_loop()
        desk, _ = make_desk()
        looks = 0

        def next_look_s(_live: object) -> float:
            nonlocal looks
            looks += 1
            return loop.time() + 0.01 if looks < 3 else float("inf")

        desk.ticker.next_look_s = next_look_s  # type: ignore[method-assign]  # a hold on a timer
        dispatcher = Dispatcher(desk, interval_s=0.0, on_tick=lambda _: None)
        dispatcher.wanted()
        await asyncio.sleep(0.5)
        dispatcher.stop()
        return looks

    assert asyncio.run(wakes()) == 3
