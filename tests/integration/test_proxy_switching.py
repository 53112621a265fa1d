"""Routers are switched while streams run: none is lost, and the mirror still tells the truth."""

import asyncio

from brtheory.proxy.ticker import servable_routers
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.proxy.engines import asynchronous_for, until
from tests.unit.proxy.test_with_emulator import emulated, nothing_is_left

STREAMS, SWITCHES, TOKENS = 200, 200, 60


@asynchronous_for(280)
async def test_two_hundred_switches_under_two_hundred_streams_lose_none() -> None:
    shape, step = ClusterShape(4, 16, 1_000_000), StepTime(a0=0, b0=0.05)
    async with emulated(shape=shape, step_time=step) as s:
        admin = f"http://127.0.0.1:{s.running.admin_port}/admin/router"
        names, body = servable_routers(), {"model": "emulated", "max_tokens": TOKENS}
        body |= {"ignore_eos": True, "stream": True}
        tasks = [
            asyncio.create_task(s.generate(prompt="word " * (1 + n % 90), **body))
            for n in range(STREAMS)
        ]
        for number in range(SWITCHES):
            name = names[number % len(names)]
            async with s.http.post(admin, json={"name": name, "seed": number}) as reply:
                assert reply.status == 200, await reply.text()
                assert (await reply.json())["name"] == name
        # Streams that begin after the last switch, and are all bound: loads can be compared.
        texts = await asyncio.gather(*tasks)
        assert all(status == 200 and text.count('"text"') == TOKENS for status, _, text in texts)
        assert all(text.endswith("data: [DONE]\n\n") for _, _, text in texts)
        late = [asyncio.create_task(s.generate(prompt="word " * 9, **body)) for _ in range(24)]
        await until(lambda: sum(s.truth["active"]) == 24)
        truth, mine = s.truth, s.running.proxy.desk.mirror.loads(s.names)
        for load, true, active in zip(mine, truth["loads"], truth["active"], strict=True):
            assert 0 <= true - load <= 3 * active, (mine, truth["loads"])
        await asyncio.gather(*late)
        await nothing_is_left(s)
