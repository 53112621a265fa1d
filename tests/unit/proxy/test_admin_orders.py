"""Workers added, drained, resumed and removed in any order, under streams."""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import Stack, asynchronous, stack, until
from tests.unit.proxy.test_operations import ask

CLIENTS, ACTIONS = 10, 60


def node(s: Stack, name: str) -> dict[str, Any]:
    """Body that adds a worker of this name."""
    engine = (s.prefills if name[0] == "p" else s.decodes)[int(name[1])]
    if name[0] == "p":
        return {"prefill": {"name": name, "url": engine.url}}
    return {"decode": {"name": name, "url": engine.url, "slots": 3}}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("router", ["br0", "brh"])
@asynchronous
async def test_workers_come_and_go_in_any_order_and_no_stream_notices(
    seed: int, router: str
) -> None:
    """The last of a role too: requests wait for the next one. Every answer is what it should be."""
    rng = Random(seed)
    async with stack(f"router.name={router}", prefills=2, decodes=3, slots=3) as s:
        for engine in s.decodes:
            engine.gap_s, engine.tokens = 0.004, 12
        names = {"p0", "p1", "d0", "d1", "d2"}
        known, over, results = set(names), asyncio.Event(), []

        async def client() -> None:
            while not over.is_set():
                results.append(await s.generate(stream=True))

        clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
        for _ in range(ACTIONS):
            name, action = (
                rng.choice(sorted(names)),
                rng.choice(["add", "drain", "drain", "DELETE"]),
            )
            if action == "add":
                status, _ = await ask(s, "POST", "workers", **node(s, name))
                assert status == (400 if name in known else 201)
                known.add(name)
            elif action == "DELETE":
                status, _ = await ask(s, "DELETE", f"workers/{name}")
                assert status in ((200, 400) if name in known else (404,))
                known -= {name} if status == 200 else set()
            else:
                verb = rng.choice(["drain", "drain", "resume"])
                status, told = await ask(s, "POST", f"workers/{name}/{verb}")
                assert status == (200 if name in known else 404)
                assert status == 404 or told["draining"] == (verb == "drain")
            await asyncio.sleep(rng.random() * 0.04)
        for name in sorted(names):
            if name not in known:
                assert (await ask(s, "POST", "workers", **node(s, name)))[0] == 201
            assert (await ask(s, "POST", f"workers/{name}/resume"))[0] == 200
        over.set()
        await asyncio.gather(*clients)
        assert len(results) >= CLIENTS
        for status, _, text in results:
            assert (status, text.count('"text"')) == (200, 12)
            assert text.endswith("data: [DONE]\n\n")
        await until(lambda: books_are_empty(s.running.proxy.desk))
        assert s.running.proxy.desk.ticker.fallbacks == 0


@asynchronous
async def test_a_role_may_be_emptied_and_what_came_meanwhile_is_served_by_the_next_worker() -> None:
    async with stack() as s:
        for name in ("d0", "p0"):
            assert (await ask(s, "DELETE", f"workers/{name}"))[0] == 200
        async with s.http.get(f"{s.url}/ready") as reply:
            assert reply.status == 503
        waiting = [asyncio.create_task(s.generate(stream=True)) for _ in range(3)]
        await until(lambda: len(s.running.proxy.desk.gate) == 3)
        for name in ("p0", "d0"):
            assert (await ask(s, "POST", "workers", **node(s, name)))[0] == 201
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 3


@pytest.mark.parametrize(
    ("connector", "worker"),
    [
        ("none", {"prefill": {"name": "p9", "url": "http://127.0.0.1:9"}}),
        ("mooncake", {"prefill": {"name": "p9", "url": "http://127.0.0.1:9"}}),
    ],
)
@asynchronous
async def test_a_prefill_node_that_does_not_fit_the_connector_is_refused(
    connector: str, worker: dict[str, Any]
) -> None:
    """As at the start: one without a leg, or without a bootstrap server, would never be used."""
    async with stack(connector=connector) as s:
        status, error = await ask(s, "POST", "workers", **worker)
        assert status == 400
        assert "p9" in error["error"]["message"]
        assert "p9" not in s.running.proxy.desk.fleet.workers
