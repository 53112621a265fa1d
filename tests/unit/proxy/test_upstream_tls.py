"""Nodes behind https: a private authority, a certificate of the proxy's own, and neither."""

import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from brtheory.errors import InputError
from brtheory.proxy.config import load_settings
from brtheory.proxy.serving import start
from brtheory.proxy.settings import Settings
from brtheory.proxy.tls import upstream_context
from tests.unit.proxy.engines import Engine, Stack, asynchronous, decode, until

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Makes self-signed certificates by name, each its own authority."""
    folder = tmp_path_factory.mktemp("tls")

    def make(name: str) -> Pair:
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        command += [*subject, "-keyout", str(key), "-out", str(cert)]
        subprocess.run(command, check=True, capture_output=True)
        return cert, key

    return make


@asynccontextmanager
async def secure_engine(
    pair: Pair, *, clients: Path | None = None
) -> AsyncIterator[tuple[Engine, str]]:
    """A decode node that speaks https only, to clients of an authority where one is given."""
    engine = Engine(decode)
    await engine.start()
    assert engine.runner is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    context.load_cert_chain(*pair)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    site = web.TCPSite(engine.runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # aiohttp's own
    try:
        yield engine, f"https://localhost:{port}"
    finally:
        await engine.stop()


def settings_for(url: str, *flags: str) -> Settings:
    node = f'decode=[{{name = "d", url = "{url}", ranks = [0]}}]'
    return load_settings(
        None,
        environment={},
        flags=[
            "server.port=0",
            "admin.port=0",
            "connector.name=none",
            "upstream.health_interval_s=0.1",
            "upstream.check_ranks=false",
            "upstream.poll_metrics=false",
            "upstream.fall_after=1",
            "upstream.rise_after=1",
            "pool.queue_s=0.5",
            node,
            *flags,
        ],
    )


async def answer_through(settings: Settings) -> tuple[int, str]:
    """What a client gets of a proxy before a secure node, and what its probes say of the node."""
    running = await start(settings)
    try:
        health = running.proxy.desk.fleet.find("d/0").health
        url = f"http://127.0.0.1:{running.port}"
        async with ClientSession() as http:
            status, _, _ = await Stack([], [], running, http, url, "").generate(stream=True)
        await until(lambda: health.up == (status == 200))
        return status, health.reason or ""
    finally:
        await running.stop(drain_s=1)


@asynchronous
async def test_a_node_with_a_private_certificate_is_trusted_through_its_authority(
    authority: Callable[[str], Pair],
) -> None:
    pair = authority("node")
    async with secure_engine(pair) as (engine, url):
        trusting = settings_for(url, f"upstream.tls_ca={pair[0]}")
        assert await answer_through(trusting) == (200, "")
        seen = len(engine.seen)
        # Without it the node is unreachable, and nothing of the request has reached it.
        status, reason = await answer_through(settings_for(url))
        assert status >= 500
        assert "certificate" in reason.lower()
        assert len(engine.seen) == seen


@asynchronous
async def test_a_node_that_asks_for_a_certificate_gets_the_proxys(
    authority: Callable[[str], Pair],
) -> None:
    node, proxy = authority("node2"), authority("proxy")
    own = (f"upstream.tls_cert={proxy[0]}", f"upstream.tls_key={proxy[1]}")
    trusting = f"upstream.tls_ca={node[0]}"
    async with secure_engine(node, clients=proxy[0]) as (_, url):
        assert await answer_through(settings_for(url, trusting, *own)) == (200, "")
        status, _ = await answer_through(settings_for(url, trusting))
        assert status >= 500


def test_files_that_are_no_certificates_are_input_errors(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    with pytest.raises(InputError, match=r"upstream\.tls_ca"):
        upstream_context(settings_for("https://x", f"upstream.tls_ca={path}").upstream)
    path.write_text("nothing")
    both = (f"upstream.tls_cert={path}", f"upstream.tls_key={path}")
    with pytest.raises(InputError, match=r"upstream\.tls_cert"):
        upstream_context(settings_for("https://x", *both).upstream)
    with pytest.raises(InputError, match=r"upstream\.tls_cert: expected both"):
        settings_for("https://x", both[0])
    assert upstream_context(settings_for("https://x").upstream) is None
