"""The dashboard over HTTP: who may see it, who may watch, and routers switched under load."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from brtheory.proxy.access import refuse_foreign_pages
from brtheory.proxy.dashboard.feed import MOST_WATCHERS
from brtheory.proxy.dashboard.routes import Dashboard
from brtheory.proxy.dashboard.sampler import Sampler
from brtheory.proxy.faults import RequestError
from brtheory.proxy.telemetry import Telemetry
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.proxy.desk import make_desk
from tests.unit.proxy.engines import asynchronous, stack, until
from tests.unit.proxy.test_with_emulator import emulated, nothing_is_left

BOSS = {"Authorization": "Bearer boss"}
PROTECTED = [("GET", "/dashboard/events"), ("GET", "/admin/routers"), ("POST", "/admin/router")]


async def next_event(reply):
    """Name and document of the next event."""
    name = (await reply.content.readline()).decode().removeprefix("event: ").strip()
    data = (await reply.content.readline()).decode().removeprefix("data: ")
    assert await reply.content.readline() == b"\n"
    return name, json.loads(data)


# -- who may ---------------------------------------------------------------------------------------


@asynchronous
async def test_the_page_is_for_anyone_and_what_it_shows_for_the_key_alone():
    async with stack("admin.key=boss") as s:
        async with s.http.get(f"{s.admin}/dashboard") as reply:
            page = await reply.text()
            assert (reply.status, reply.content_type) == (200, "text/html")
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
            assert reply.headers["Cache-Control"] == "no-store"
        for secret in ("boss", s.decodes[0].url, "d0"):
            assert secret not in page
        for method, path in PROTECTED:
            for given in ({}, {"Authorization": "Bearer no"}, {"Cookie": "key=boss"}):
                url = f"{s.admin}{path}?key=boss"
                async with s.http.request(method, url, headers=given, json={}) as reply:
                    assert reply.status == 401, (method, path)
        async with s.http.get(f"{s.admin}/dashboard/events", headers=BOSS) as reply:
            assert (reply.status, reply.content_type) == (200, "text/event-stream")
        # Clients' keys and the clients' address know nothing of it.
        async with s.http.get(f"{s.url}/dashboard") as reply:
            assert reply.status == 404


@asynchronous
async def test_pages_of_other_sites_cannot_use_an_operators_browser():
    """Without a key, on loopback: a foreign page's request, and a foreign name for this address."""
    async with stack() as s:
        for given in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": s.admin},
            {"Host": "evil.example:80"},
            {"Host": "127.0.0.1.evil.example"},
        ):
            for method, path in [*PROTECTED, ("GET", "/dashboard"), ("GET", "/admin/state")]:
                body = {"name": "jsq"} if method == "POST" else None
                url = f"{s.admin}{path}"
                async with s.http.request(method, url, headers=given, json=body) as reply:
                    assert reply.status == 403, (given, path)
        assert s.running.proxy.desk.ticker.choice.name == "br0"
        for given in ({"Origin": s.admin}, {"Sec-Fetch-Site": "same-origin"}, {}):
            url = f"{s.admin}/admin/router"
            async with s.http.post(url, headers=given, json={"name": "jsq"}) as reply:
                assert reply.status == 200


@pytest.mark.parametrize("host", ["localhost", "localhost:8001", "127.0.0.1:1", "[::1]:80", "::1"])
def test_local_names_need_no_key(host):
    refuse_foreign_pages({"Host": host}, keyless=True)


@pytest.mark.parametrize(
    "host", ["ops.example", "[bad", "", "localhost:1:1", "0.0.0.0", "10.0.0.1"]
)
def test_other_names_need_one(host):
    refuse_foreign_pages({"Host": host}, keyless=False)
    with pytest.raises(RequestError):
        refuse_foreign_pages({"Host": host}, keyless=True)


# -- watchers --------------------------------------------------------------------------------------


@asynchronous
async def test_watchers_see_the_books_change_and_leave_nothing_behind():
    async with stack(slots=4) as s:
        s.decodes[0].hold = asyncio.Event()
        async with s.http.get(f"{s.admin}/dashboard/events") as reply:
            assert (await next_event(reply))[0] == "history"
            name, before = await next_event(reply)
            assert (name, before["decoding_requests"]) == ("snapshot", 0)
            task = asyncio.create_task(s.generate(prompt="x" * 20, stream=True))
            while (snapshot := (await next_event(reply))[1])["decoding_requests"] == 0:
                assert snapshot["time_s"] < before["time_s"] + 20
            # 20 characters are 20 tokens, and one more has come with the first chunk.
            assert snapshot["replicas"][0]["tokens"] in (20, 21)
            assert snapshot["router"] == "br0"
            s.decodes[0].hold.set()
            assert (await task)[0] == 200
        async with s.http.get(f"{s.admin}/dashboard/events") as reply:
            _, history = await next_event(reply)
            assert max(history["decoding_requests"]) == 1


@asynchronous
async def test_so_many_may_watch_and_no_more():
    async with stack() as s:
        url = f"{s.admin}/dashboard/events"
        replies = [await s.http.get(url) for _ in range(MOST_WATCHERS)]
        assert {reply.status for reply in replies} == {200}
        async with s.http.get(url) as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
            assert (await reply.json())["error"]["code"] == "too_many_watchers"
        replies.pop().close()

        async def is_free():
            async with s.http.get(url) as reply:
                return reply.status == 200

        async with asyncio.timeout(10):
            while not await is_free():
                await asyncio.sleep(0.05)
        for reply in replies:
            reply.close()


@asynchronous
async def test_stopping_the_proxy_sends_watchers_home_at_once():
    async with stack() as s, s.http.get(f"{s.admin}/dashboard/events") as reply:
        await next_event(reply)
        async with asyncio.timeout(5):
            assert await s.running.stop(drain_s=1.0)
            while await reply.content.readline():
                pass


@asynccontextmanager
async def alone(**options):
    """A dashboard on books nobody uses; yields it with its desk and port."""
    desk, _ = make_desk(replicas=16)
    dashboard = Dashboard(Sampler(desk, Telemetry(desk), draining=lambda: False), **options)
    app = web.Application()
    dashboard.add_routes(app)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield dashboard, runner.addresses[0][1]
    finally:
        await runner.cleanup()


def slow_watcher(port):
    """A watcher that has asked and does not read."""
    watcher = socket.socket()
    watcher.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    watcher.connect(("127.0.0.1", port))
    watcher.sendall(b"GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return watcher


@asynchronous
async def test_a_slow_watcher_skips_snapshots_and_they_are_not_queued():
    """8,000 snapshots of 3 KB are 24 MB; what waits for the watcher is never more than a few."""
    async with alone() as (dashboard, port):
        with slow_watcher(port):
            await until(lambda: dashboard.feed.watchers == 1)
            (transport,) = _transports(port)
            queued, skipped = 0, False
            for _ in range(8000):
                dashboard.feed.publish()
                await asyncio.sleep(0)
                waiting = transport.get_write_buffer_size()
                queued, skipped = max(queued, waiting), skipped or waiting > 0
            assert skipped
            assert queued <= 2 * len(dashboard.feed.latest)
        await until(lambda: dashboard.feed.watchers == 0, timeout_s=10)


@asynchronous
async def test_a_watcher_that_takes_nothing_is_cut_off_and_others_go_on():
    async with alone(stall_s=0.2) as (dashboard, port):
        with slow_watcher(port):
            await until(lambda: dashboard.feed.watchers == 1)
            for _ in range(8000):
                dashboard.feed.publish()
                await asyncio.sleep(0)
            await until(lambda: dashboard.feed.watchers == 0, timeout_s=10)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(10):
            for _ in range(3):
                await reader.readuntil(b"event: snapshot")
        writer.close()


def _transports(port):
    """Server-side transports of the connections to a port."""
    loop = asyncio.get_running_loop()
    found = []
    for transport in list(loop._transports.values()):
        name = transport.get_extra_info("sockname")
        if name and name[1] == port and transport.get_extra_info("peername"):
            found.append(transport)
    return found


# -- the router ------------------------------------------------------------------------------------


@asynchronous
async def test_a_choice_that_does_not_fit_changes_nothing():
    async with stack() as s:
        before = s.running.proxy.desk.ticker.choice
        for body, says in [
            ({"name": "nobody"}, "router: expected one of"),
            ({"name": "<script>"}, "router: expected one of"),
            ({"name": "window", "params": {"window": 0}}, "router.params.window"),
            ({"name": "window", "params": {"colour": 1}}, "router.params"),
            ({"name": "jsq", "params": {"window": 3}}, "router.params"),
            ({"name": "brh", "predictor": "oracle"}, "predictor"),
            ({"name": "jsq", "predictor": "oracle"}, "predictor"),
            ({"name": "jsq", "more": 1}, "known fields only"),
            ({}, "name"),
        ]:
            async with s.http.post(f"{s.admin}/admin/router", json=body) as reply:
                assert reply.status == 400, body
                assert says in (await reply.json())["error"]["message"]
        assert s.running.proxy.desk.ticker.choice is before


@asynchronous
async def test_of_two_choices_at_once_the_later_one_stays():
    """The first takes longer to get ready; it must not overtake."""
    async with stack() as s:
        url = f"{s.admin}/admin/router"
        slow = s.http.post(url, json={"name": "brh", "params": {"horizon": 512}})
        fast = s.http.post(url, json={"name": "jsq"})
        first = asyncio.create_task(slow.__aenter__())
        await asyncio.sleep(0.02)
        second = await fast.__aenter__()
        assert ((await first).status, second.status) == (200, 200)
        assert s.running.proxy.desk.ticker.choice.name == "jsq"
        (await first).close()
        second.close()


ROUTERS = ["jsq", "window", "brh", "random", "br0", "least-tokens", "pool-fifo", "round-robin"]


@asynchronous
async def test_switching_under_load_loses_no_request_and_the_mirror_stays_true():
    shape, step = ClusterShape(4, 4, 1_000_000), StepTime(a0=0, b0=0.004)
    async with emulated(shape=shape, step_time=step) as s:
        admin = f"http://127.0.0.1:{s.running.admin_port}"
        body = {"model": "emulated", "max_tokens": 25, "ignore_eos": True, "stream": True}
        jobs = [
            asyncio.create_task(s.generate(prompt="word " * (1 + number % 40), **body))
            for number in range(150)
        ]
        mirror = s.running.proxy.desk.mirror
        for name in ROUTERS * 2:
            held = {hold.request.id: (hold.replica, hold.tokens) for hold in mirror.holds()}
            s.running.proxy.desk.ticker.use(s.running.proxy.desk.ticker.choice)
            assert held == {h.request.id: (h.replica, h.tokens) for h in mirror.holds()}
            async with s.http.post(f"{admin}/admin/router", json={"name": name}) as reply:
                assert (reply.status, (await reply.json())["name"]) == (200, name)
            await asyncio.sleep(0.05)
        for status, _, text in await asyncio.gather(*jobs):
            assert status == 200, text
            assert text.count('"text"') == 25
            assert text.endswith("data: [DONE]\n\n")
        async with s.http.get(f"{admin}/dashboard/events") as reply:
            await next_event(reply)
            _, snapshot = await next_event(reply)
        # The last twelve phases are remembered; each choice begins one, chosen again or not.
        assert snapshot["phases"][-1]["router"] == ROUTERS[-1]
        assert sum(phase["decoded_tokens"] for phase in snapshot["phases"]) > 0
        await nothing_is_left(s)
