"""The driver on a virtual clock: no drift, no lost request, no sleep in the tests."""

import asyncio

from brtheory.emulator.driver import GroupDriver, Refused
from brtheory.emulator.group import DecodeGroup
from brtheory.emulator.step import DecodeRequest
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.virtual_time import VirtualTime


def driver_on(time, *, scale=1.0, step_time=StepTime(a0=0.0, b0=1.0), replicas=1, slots=2):
    return GroupDriver(
        lambda gate: DecodeGroup(ClusterShape(replicas, slots), step_time=step_time, gate=gate),
        time.clock(),
        time_scale=scale,
    )


async def play(time, driver, mailbox, events):
    player = asyncio.create_task(driver.run())
    passing = asyncio.create_task(time.pass_by())
    try:
        return [await asyncio.wait_for(mailbox.get(), 5) for _ in range(events)]
    finally:
        player.cancel()
        passing.cancel()
        await asyncio.gather(player, passing, return_exceptions=True)


def test_every_token_arrives_at_its_own_time():
    time = VirtualTime()

    async def run():
        driver, mailbox = (
            driver_on(time, scale=0.5, step_time=StepTime(a0=1.0, b0=0.0)),
            asyncio.Queue(),
        )
        driver.submit(DecodeRequest(1, 0, 4, 3), mailbox)
        return await play(time, driver, mailbox, 3)

    events = asyncio.run(run())
    assert [(e.age, e.finished) for e in events] == [(1, False), (2, False), (3, True)]
    # Steps of 4, 5 and 6 model seconds at half a wall second each.
    assert time.now_s == 107.5


def test_late_sleeps_are_caught_up_and_do_not_add_up():
    time = VirtualTime(late_s=0.1)

    async def run():
        driver, mailbox = driver_on(time), asyncio.Queue()
        driver.submit(DecodeRequest(1, 0, 4, 50), mailbox)
        await play(time, driver, mailbox, 50)
        return driver.lost_s

    assert asyncio.run(run()) == 0.0
    assert abs(time.now_s - 150.1) < 1e-6, "one step's delay in all, not fifty"


def test_time_that_cannot_be_caught_up_is_counted():
    time = VirtualTime(late_s=2.0)

    async def run():
        driver, mailbox = driver_on(time), asyncio.Queue()
        driver.submit(DecodeRequest(1, 0, 4, 3), mailbox)
        await play(time, driver, mailbox, 3)
        return driver.lost_s

    # Step 1 ends at 101, seen at 103. Step 2 was due at 102: a second late, given up at 103, over
    # at 105. Step 3 is due at 104, again a second late.
    assert asyncio.run(run()) == 2.0


def test_a_refused_request_is_told_and_one_whose_gate_opens_runs():
    time = VirtualTime()

    async def run():
        driver, mailbox = driver_on(time), asyncio.Queue()
        driver.submit(DecodeRequest(1, 0, 4, 1), mailbox, gate=lambda: False)
        driver.submit(DecodeRequest(2, 0, 4, 1), mailbox, gate=lambda: True)
        return await play(time, driver, mailbox, 2)

    refused, emitted = asyncio.run(run())
    assert refused == Refused(1)
    assert (emitted.id, emitted.finished) == (2, True)


def test_an_idle_driver_wakes_up_for_the_next_request():
    time = VirtualTime()

    async def run():
        driver, mailbox = driver_on(time), asyncio.Queue()
        playing = asyncio.create_task(play(time, driver, mailbox, 1))
        await time.settle()
        time.now_s = 500.0
        driver.submit(DecodeRequest(1, 0, 4, 1), mailbox)
        await playing

    asyncio.run(run())
    assert time.now_s == 501.0


def test_a_cancelled_request_hears_nothing_more():
    time = VirtualTime()

    async def run():
        driver, mailbox, other = driver_on(time), asyncio.Queue(), asyncio.Queue()
        driver.submit(DecodeRequest(1, 0, 4, 5), mailbox)
        driver.submit(DecodeRequest(2, 0, 4, 5), other)
        driver.cancel(1)
        driver.cancel(1)
        await play(time, driver, other, 5)
        return mailbox.qsize(), driver.group.loads

    assert asyncio.run(run()) == (0, (0,))
