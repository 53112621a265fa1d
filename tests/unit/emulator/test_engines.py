"""Decode and prefill engines on virtual time: what they hold is released in whatever phase."""

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import numpy as np
import pytest

from brtheory.emulator.body import parse_call
from brtheory.emulator.call import ApiError, Limits
from brtheory.emulator.config import EmulatorConfig, PrefillSpeed
from brtheory.emulator.connectors import Producer
from brtheory.emulator.deployment import make_deployment
from brtheory.emulator.prefill import PrefillEngine
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.virtual_time import VirtualTime

LIMITS = Limits("emulated", 100_000)
PRODUCER = Producer("engine", "127.0.0.1", 5600)


def call(prompt="x" * 40, **body):
    body = {"prompt": prompt, "max_tokens": 200, **body}
    return parse_call(json.dumps(body).encode(), chat=False, limits=LIMITS)


def forced(tokens):
    return {"emulator_output_tokens": tokens}


@asynccontextmanager
async def deployed(**changes):
    """A deployment of two ranks and one prefill server, its time passing by itself."""
    given = {
        "shape": ClusterShape(2, 2, 5000),
        "step_time": StepTime(a0=0.001, b0=1.0),
        "prefill_speed": PrefillSpeed(10.0, 0.0),
        **changes,
    }
    time = VirtualTime()
    deployment = make_deployment(EmulatorConfig(**given), time.clock())
    engine = PrefillEngine(
        deployment.config, time.clock(), ledger=deployment.ledger, producer=PRODUCER
    )
    deployment.prefill["prefill-0"] = engine
    tasks = [
        asyncio.create_task(time.pass_by()),
        asyncio.create_task(deployment.decode.driver.run()),
    ]
    try:
        yield deployment, engine, time
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def consume(engine, made, request_id="r", **where):
    """Run a request to its end; its pieces and the KV parameters."""
    with engine.hold(request_id):
        session = engine.open(made, request_id=request_id, **where)
        async with aclosing(session.pieces()) as pieces:
            got = [piece async for piece in pieces]
        return got, session


def test_kv_moves_from_the_prefill_server_to_the_rank_at_its_turn():
    async def run():
        async with deployed() as (deployment, prefill, time):
            made = call(max_tokens=1, min_tokens=1, kv_transfer_params={"do_remote_decode": True})
            start = time.now_s
            _, session = await consume(prefill, made)
            # 10 tokens at 10 tokens a second.
            assert time.now_s - start == 1.0
            assert prefill.pinned == (1, 10)
            params = session.kv_transfer_params
            decode = call(kv_transfer_params=params, vllm_xargs=forced(3))
            pieces, session = await consume(deployment.decode, decode, rank=1)
            # Steps of 1 + 0.001*(10 + 11 + 12) seconds follow at once: nothing is computed.
            assert time.now_s - start == pytest.approx(1.0 + 3.033)
            assert [p.end for p in pieces] == [1, 2, 3]
            assert (prefill.pinned, session.usage.cached_tokens) == ((0, 0), 10)

    asyncio.run(run())


def test_a_prompt_without_kv_is_computed_before_it_takes_a_slot():
    async def run():
        async with deployed() as (deployment, _, time):
            start = time.now_s
            await consume(deployment.decode, call(vllm_xargs=forced(1)), rank=0)
            assert time.now_s - start == pytest.approx(1.0 + 1.01)

    asyncio.run(run())


def test_prefills_wait_for_room_until_a_lease_ends():
    async def run():
        async with deployed(prefill_kv_capacity=15, lease_s=50.0) as (_, prefill, time):
            asked = {"do_remote_decode": True}
            made = call(max_tokens=1, min_tokens=1, kv_transfer_params=asked)
            start = time.now_s
            await consume(prefill, made, "a")
            await consume(prefill, call("y" * 40, kv_transfer_params=asked, max_tokens=1), "b")
            # Pinned at 1, freed at 51, a second of work.
            assert time.now_s - start == 52.0

    asyncio.run(run())


def test_prefills_wait_for_room_until_decode_takes_kv():
    async def run():
        async with deployed(prefill_kv_capacity=15, lease_s=50.0) as (deployment, prefill, time):
            asked = {"do_remote_decode": True}
            made = call(max_tokens=1, min_tokens=1, kv_transfer_params=asked)
            start = time.now_s
            _, session = await consume(prefill, made, "a")
            second = asyncio.create_task(
                consume(prefill, call("y" * 40, kv_transfer_params=asked, max_tokens=1), "b")
            )
            await time.sleep(2.0)
            taken = call(kv_transfer_params=session.kv_transfer_params, vllm_xargs=forced(1))
            await consume(deployment.decode, taken, "c", rank=0)
            await second
            # Pinned at 1, taken at 3, a second of work.
            assert time.now_s - start == pytest.approx(4.01, abs=0.011)

    asyncio.run(run())


def test_a_name_under_which_kv_is_pinned_is_in_use():
    async def run():
        async with deployed() as (_, prefill, _):
            asked = {"do_remote_decode": True}
            await consume(prefill, call(max_tokens=1, kv_transfer_params=asked), "a")
            with pytest.raises(ApiError, match="already running"):
                prefill.hold("a")

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_cancellations_in_any_phase_leave_nothing_behind(seed):
    """Computing, waiting for KV, waiting for a slot, decoding, done: all are hit."""
    rng = np.random.default_rng(seed)

    async def one(deployment, prefill, time, number):
        prompt = f"{number:03d}" + "x" * int(rng.integers(1, 80))
        asked = {"do_remote_decode": True}
        kv = {}
        if rng.random() < 0.7:
            made = call(prompt, max_tokens=1, min_tokens=1, kv_transfer_params=asked)
            _, session = await consume(prefill, made, f"p{number}")
            kv = session.kv_transfer_params
        await time.sleep(float(rng.integers(0, 30)))
        decode = call(prompt, kv_transfer_params=kv, n=int(rng.integers(1, 3)))
        await consume(deployment.decode, decode, f"d{number}", rank=int(rng.integers(2)))

    async def cancelled(task, time):
        await time.sleep(float(rng.exponential(60.0)))
        task.cancel()

    async def run():
        async with deployed(prefill_kv_capacity=60, lease_s=20.0, mean_output=8.0, seed=seed) as (
            deployment,
            prefill,
            time,
        ):
            tasks = [
                asyncio.create_task(one(deployment, prefill, time, number)) for number in range(250)
            ]
            await asyncio.gather(*(cancelled(task, time) for task in tasks))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            group = deployment.decode.group
            assert group.active == group.waiting == group.loads == (0, 0)
            assert (len(deployment.decode.ids), len(prefill.ids)) == (0, 0)
            assert (prefill.running, prefill.waiting) == (0, 0)
            assert not deployment.decode.running
            totals = group.totals
            assert totals.submitted == totals.completed + totals.cancelled + totals.refused
            await time.sleep(20.0)
            assert prefill.pinned == (0, 0)
            counts = deployment.ledger.counts
            assert counts["pinned"] == counts["claimed"] + counts["stranded"]
            kinds = {type(outcome) for outcome in outcomes}
            assert kinds <= {type(None), asyncio.CancelledError}
            return totals

    totals = asyncio.run(run())
    assert totals.cancelled > 0
    assert totals.completed > 0
