"""Bounds: what peers and operators send is refused, or kept small, before it costs anything."""

import asyncio
import gc
import json
import resource
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from brtheory.emulator.endpoint import Endpoint
from brtheory.errors import InputError
from brtheory.proxy.config import load_settings
from brtheory.proxy.connections import most_connections
from brtheory.proxy.openai import DEEPEST
from brtheory.proxy.serving import Running, start
from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import Behaviour, Engine, Stack, asynchronous, stack


def nested(levels: int) -> bytes:
    """A body of so many levels, itself the first."""
    return b'{"prompt":"x","a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


async def status_of(s: Stack, body: bytes, **headers: str) -> int:
    url = f"{s.url}/v1/completions"
    async with s.http.post(url, data=body, headers=headers) as reply:
        return reply.status


@asynchronous
async def test_nesting_has_one_limit_whatever_the_stack_allows() -> None:
    """Bodies that are barely parsed could not be written again: 974 levels were a 500."""
    async with stack() as s:
        for levels in (2, DEEPEST - 1, DEEPEST):
            assert await status_of(s, nested(levels)) == 200, levels
        for levels in (DEEPEST + 1, *range(960, 1000, 3)):
            assert await status_of(s, nested(levels)) == 400, levels
        # Many brackets side by side are no depth.
        flat = b'{"prompt":"x","a":[' + b",".join([b"[]"] * 1000) + b"]}"
        assert await status_of(s, flat) == 200
        assert len(s.prefills[0].seen) == 4
        assert books_are_empty(s.running.proxy.desk)


@asynchronous
async def test_compressed_bodies_are_refused_before_they_unfold() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(16)) + packer.flush()
    async with stack() as s:
        for encoding in ("gzip", "GZIP", "gzip, gzip", "br", "zstd"):
            assert await status_of(s, bomb, **{"Content-Encoding": encoding}) == 415, encoding
        plain = {"Content-Encoding": "identity"}
        assert await status_of(s, b'{"prompt":"x"}', **plain) == 200
        gzip = {"Content-Encoding": "gzip"}
        async with s.http.post(f"{s.admin}/admin/router", data=bomb, headers=gzip) as reply:
            assert reply.status == 400
        assert len(s.prefills[0].seen) == 1


@asynchronous
async def test_limits_no_replica_can_keep_are_reserved_as_a_whole_replica() -> None:
    """They used to wait until their lease ran out, and others behind them."""
    async with stack("router.name=pool-fifo") as s:
        (books,) = s.running.proxy.desk.mirror.replicas.values()
        books.kv_tokens = 100
        for limit in (101, 2**70, 10**300):
            async with asyncio.timeout(5):
                assert (await s.generate(max_tokens=limit))[0] == 200
        assert s.running.proxy.desk.ticker.fallbacks == 0
        assert s.running.proxy.desk.forced == 0
        assert books_are_empty(s.running.proxy.desk)


NODES = [
    ("http://[", "a host"),
    ("http://h:99999", "port"),
    ("http://h:0", "port"),
    ("http://h:x", "port"),
    ("http:///path", "a host"),
    ("http://h\x00", "ascii"),
    ("http://h\u2100", "ascii"),
    ("http://h?x=1", "query"),
    ("http://h#f", "fragment"),
    ("http://user:secret@h", "user"),
]


@pytest.mark.parametrize(("url", "message"), NODES)
def test_addresses_that_lead_nowhere_are_told_at_the_start(url: str, message: str) -> None:
    flags = [f"decode=[{{name='d', url={json.dumps(url)}}}]", "connector.name=none"]
    with pytest.raises(InputError, match=message):
        load_settings(None, environment={}, flags=flags)


@pytest.mark.parametrize(
    "field",
    ["slots=9999999999999999999", "kv_tokens=9999999999999999", "ranks=[99999999999]", "name='..'"],
)
def test_sizes_and_names_that_cannot_be_are_told_at_the_start(field: str) -> None:
    name = "" if field.startswith("name") else "name='d', "
    flags = [f"decode=[{{{name}url='http://h', {field}}}]", "connector.name=none"]
    with pytest.raises(InputError, match=r"decode\.0"):
        load_settings(None, environment={}, flags=flags)


@asynchronous
async def test_many_ranks_at_once_are_refused_without_stopping_the_streams() -> None:
    async with stack() as s:
        node = {"name": "d9", "url": "http://127.0.0.1:1", "ranks": list(range(100_000))}
        async with s.http.post(f"{s.admin}/admin/workers", json={"decode": node}) as reply:
            assert reply.status == 400
            assert "at most 1024" in (await reply.text())
        assert (await s.generate())[0] == 200


async def endless_headers(engine: Engine, request: web.Request, body: object) -> web.Response:
    """An answer that never gets to its body."""
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\n")
    with suppress(ConnectionError):
        while not request.transport.is_closing():
            request.transport.write(b"X-Filler: " + b"x" * 8000 + b"\r\n")
            await asyncio.sleep(0)
    return web.Response()


async def upgrade(engine: Engine, request: web.Request, body: object) -> web.Response:
    """Another protocol that nobody asked for."""
    assert request.transport is not None
    request.transport.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello"
    )
    await asyncio.sleep(0.2)
    return web.Response()


@pytest.mark.parametrize("behave", [endless_headers, upgrade])
@asynchronous
async def test_engines_that_never_get_to_a_body_are_given_up_in_bounded_memory(
    behave: Behaviour,
) -> None:
    async with stack(decode_behaviour=behave) as s:
        async with asyncio.timeout(10):
            status, _, text = await s.generate(stream=True)
        assert status == 502
        assert json.loads(text)["error"]["code"] == "decode_failed"
        assert books_are_empty(s.running.proxy.desk)
        assert s.running.proxy.upstream.open_connections == 0


@asynchronous
async def test_a_history_that_cannot_be_saved_costs_nothing_else(tmp_path: Path) -> None:
    """A full disk, a folder taken away: the proxy serves on, and stops as it should."""
    file = tmp_path / "gone" / "history.json"
    async with stack(f"router.history_file={file}", "router.history_save_s=0.05") as s:
        file.parent.write_text("a file where a folder should be")
        for _ in range(3):
            assert (await s.generate())[0] == 200
            await asyncio.sleep(0.1)
        assert s.running.proxy.desk.ticker.history.unsaved == 3
        assert await s.running.stop(drain_s=1.0)


def test_connections_leave_more_than_half_of_the_open_files_to_the_nodes() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 1 <= 2 * most_connections() < soft


@pytest.mark.parametrize("turns", [*range(8), 12, 20])
@asynchronous
async def test_a_start_that_is_interrupted_at_any_turn_leaves_nothing_open(turns: int) -> None:
    """A socket that is left is a warning at its end, and warnings are errors here."""
    flags = ["server.port=0", "admin.port=0", "connector.name=none"]
    nowhere = "decode=[{name='d', url='http://127.0.0.1:9'}]"
    settings = load_settings(None, environment={}, flags=[*flags, nowhere])
    endpoint = Endpoint("e", web.Application, host="127.0.0.1", port=0, keepalive_s=5.0)
    tasks = [asyncio.create_task(start(settings)), asyncio.create_task(endpoint.start())]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    running, _ = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(running, Running):
        await running.stop(drain_s=0.0)
    await endpoint.kill()
    del running, tasks
    gc.collect()
