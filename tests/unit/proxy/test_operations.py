"""Behaviour towards operators: limits, keys, health, drain, metrics, admin, configuration."""

import asyncio
import json
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from brtheory.errors import InputError
from brtheory.proxy.check import check_workers
from brtheory.proxy.config import as_toml, load_settings
from brtheory.proxy.probes import engine_running, kv_usage
from brtheory.proxy.serving import start
from brtheory.proxy.settings import Settings
from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import Stack, answer, asynchronous, stack, until

BASE = 'decode=[{name = "d", url = "http://127.0.0.1:1"}]'
NONE = "connector.name=none"


# -- limits and errors ---------------------------------------------------------------------------


@asynchronous
async def test_every_refusal_has_the_openai_error_shape() -> None:
    async with stack("server.max_body_bytes=1000") as s:
        cases: list[tuple[str, str, bytes, int]] = [
            ("POST", "/v1/completions", b"{", 400),
            ("POST", "/v1/completions", b'{"prompt":"x","n":2}', 400),
            ("POST", "/v1/completions", b'{"prompt":"%s"}' % (b"x" * 2000), 413),
            ("GET", "/v1/completions", b"", 405),
            ("POST", "/v1/embeddings", b"{}", 404),
            ("GET", "/nothing", b"", 404),
        ]
        for method, path, body, status in cases:
            async with s.http.request(method, s.url + path, data=body) as reply:
                assert (reply.status, reply.content_type) == (status, "application/json")
                error = (await reply.json())["error"]
                assert set(error) == {"message", "type", "param", "code"}
        assert not s.prefills[0].seen
        assert s.running.front.active == 0


@asynchronous
async def test_many_choices_pass_where_allowed() -> None:
    async with stack("server.allow_many=true") as s:
        assert (await s.generate(n=2))[0] == 200


@asynchronous
async def test_a_full_pool_holds_prefills_back_and_a_full_queue_answers_429() -> None:
    async with stack("pool.requests=1", "pool.queue=1", slots=1) as s:
        s.decodes[0].hold = asyncio.Event()
        running = [asyncio.create_task(s.generate(stream=True))]
        await until(lambda: s.decodes[0].streams == 1)
        running.append(asyncio.create_task(s.generate()))
        await until(lambda: len(s.running.proxy.desk.pool) == 1)
        running.append(asyncio.create_task(s.generate()))
        await until(lambda: len(s.running.proxy.desk.gate) == 1)
        # One decodes, one is pooled, one stands in line without having been prefilled.
        assert len(s.prefills[0].seen) == 2
        url = f"{s.url}/v1/completions"
        async with s.http.post(url, json={"prompt": "x"}) as reply:
            assert reply.status == 429
            assert int(reply.headers["Retry-After"]) >= 1
            assert (await reply.json())["error"]["code"] == "queue_full"
        s.decodes[0].hold.set()
        assert [status for status, _, _ in await asyncio.gather(*running)] == [200] * 3


@asynchronous
async def test_waiting_in_line_has_an_end() -> None:
    async with stack("pool.queue_s=0.2") as s:
        s.prefills[0].healthy = False
        await until(lambda: s.running.proxy.desk.fleet.live("prefill") == [])
        status, _, text = await s.generate()
        assert (status, json.loads(text)["error"]["code"]) == (503, "queue_timeout")
        assert books_are_empty(s.running.proxy.desk)


@asynchronous
async def test_requests_at_once_are_limited() -> None:
    async with stack("server.max_requests=1") as s:
        s.decodes[0].hold = asyncio.Event()
        first = asyncio.create_task(s.generate(stream=True))
        await until(lambda: s.decodes[0].streams == 1)
        assert (await s.generate())[0] == 503
        s.decodes[0].hold.set()
        assert (await first)[0] == 200


@asynchronous
async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with stack("server.body_s=0.2") as s:
        reader, writer = await asyncio.open_connection("127.0.0.1", s.running.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        assert b"408" in await reader.readuntil(b"\r\n")
        writer.close()


@asynchronous
async def test_keys_are_required_where_configured_and_only_there() -> None:
    async with stack('server.api_keys=["one", "two"]', "admin.key=boss") as s:
        url = f"{s.url}/v1/completions"
        for given in (None, "Bearer three", "one", "Bearer ", "Basic one"):
            headers = {} if given is None else {"Authorization": given}
            async with s.http.post(url, json={"prompt": "x"}, headers=headers) as reply:
                assert reply.status == 401
                assert (await reply.json())["error"]["type"] == "authentication_error"
        for key in ("one", "two"):
            headers = {"Authorization": f"Bearer {key}"}
            async with s.http.post(url, json={"prompt": "x"}, headers=headers) as reply:
                assert reply.status == 200
        async with s.http.get(f"{s.url}/v1/models") as reply:
            assert reply.status == 401
        for key, status in (("one", 401), ("boss", 200)):
            headers = {"Authorization": f"Bearer {key}"}
            async with s.http.get(f"{s.admin}/admin/state", headers=headers) as reply:
                assert reply.status == status
        # Operators' paths are not on the clients' address.
        async with s.http.get(f"{s.url}/admin/state") as reply:
            assert reply.status == 404


# -- health and draining -------------------------------------------------------------------------


@asynchronous
async def test_flapping_health_keeps_streams_and_load() -> None:
    async with stack() as s:
        s.decodes[0].hold = asyncio.Event()
        task = asyncio.create_task(s.generate(prompt="x" * 20, stream=True))
        desk = s.running.proxy.desk
        await until(lambda: desk.mirror.loads(["d0"]) == [21])
        for healthy in (False, True, False, True):
            s.decodes[0].healthy = healthy
            await until(lambda healthy=healthy: bool(desk.fleet.live("decode")) == healthy)
            assert desk.mirror.loads(["d0"]) == [21]
        s.decodes[0].hold.set()
        assert (await task)[0] == 200


@asynchronous
async def test_readiness_follows_the_workers_and_health_does_not() -> None:
    async with stack() as s:
        async with s.http.get(f"{s.url}/ready") as reply:
            assert reply.status == 200
        s.decodes[0].healthy = False
        await until(lambda: not s.running.proxy.ready)
        async with s.http.get(f"{s.url}/ready") as reply:
            assert (reply.status, (await reply.json())["decode"]) == (503, 0)
        async with s.http.get(f"{s.url}/health") as reply:
            assert reply.status == 200


@asynchronous
async def test_draining_cuts_no_stream_and_finishes_what_is_pooled() -> None:
    async with stack(slots=2) as s:
        s.decodes[0].gap_s, s.decodes[0].tokens = 0.03, 8
        tasks = [asyncio.create_task(s.generate(stream=True)) for _ in range(5)]
        await until(lambda: s.decodes[0].streams == 2)
        assert await s.running.stop(drain_s=20, grace_s=0.05)
        for status, _, text in await asyncio.gather(*tasks):
            assert status == 200
            assert text.endswith("data: [DONE]\n\n")
            assert "error" not in text
        with pytest.raises(OSError, match="onnect"):
            await s.generate()


@asynchronous
async def test_while_draining_readiness_is_no_and_requests_are_still_taken_for_the_grace() -> None:
    async with stack() as s:
        stopping = asyncio.create_task(s.running.stop(drain_s=5, grace_s=0.5))
        await asyncio.sleep(0.1)
        async with s.http.get(f"{s.url}/ready") as reply:
            assert reply.status == 503
        assert (await s.generate())[0] == 200
        assert await stopping


@asynchronous
async def test_models_come_from_any_worker_that_lives() -> None:
    async with stack(decodes=2) as s:
        await s.decodes[0].stop()
        async with s.http.get(f"{s.url}/v1/models") as reply:
            assert (reply.status, (await reply.json())["data"][0]["id"]) == (200, "m")


# -- admin ---------------------------------------------------------------------------------------


async def ask(s: Stack, method: str, path: str, **body: Any) -> tuple[int, Any]:
    data = json.dumps(body) if body else None
    async with s.http.request(method, f"{s.admin}/admin/{path}", data=data) as reply:
        return reply.status, await reply.json()


@asynchronous
async def test_workers_are_listed_drained_removed_and_added_while_running() -> None:
    async with stack(decodes=2) as s:
        status, workers = await ask(s, "GET", "workers")
        assert (status, [w["name"] for w in workers]) == (200, ["p0", "d0", "d1"])
        s.decodes[0].hold = asyncio.Event()
        s.decodes[1].hold = asyncio.Event()
        running = asyncio.create_task(s.generate(stream=True))
        await until(lambda: s.decodes[0].streams + s.decodes[1].streams == 1)
        busy = 0 if s.decodes[0].streams else 1
        assert (await ask(s, "POST", f"workers/d{busy}/drain"))[0] == 200
        status, error = await ask(s, "DELETE", f"workers/d{busy}")
        assert (status, "no bound request" in error["error"]["message"]) == (400, True)
        s.decodes[1 - busy].hold.set()
        assert (await s.generate())[0] == 200
        assert len(s.decodes[busy].seen) == 1
        s.decodes[busy].hold.set()
        assert (await running)[0] == 200
        await until(lambda: books_are_empty(s.running.proxy.desk))
        assert await ask(s, "DELETE", f"workers/d{busy}") == (200, {"removed": f"d{busy}"})
        new = {"name": "late", "url": s.decodes[busy].url, "slots": 3}
        status, added = await ask(s, "POST", "workers", decode=new)
        assert (status, added[0]["slots"]) == (201, 3)
        assert (await ask(s, "POST", "workers", decode=new))[0] == 400
        assert (await ask(s, "POST", "workers"))[0] == 400
        assert (await ask(s, "POST", "workers/none/drain"))[0] == 404
        assert (await s.generate())[0] == 200


@asynchronous
async def test_the_router_is_switched_under_load_and_a_wrong_one_changes_nothing() -> None:
    async with stack(decodes=2, slots=4) as s:
        for engine in s.decodes:
            engine.gap_s, engine.tokens = 0.01, 20
        tasks = [asyncio.create_task(s.generate(stream=True)) for _ in range(20)]
        for name, params in (("brh", {"horizon": 8}), ("jsq", {}), ("window", {}), ("br0", {})):
            await asyncio.sleep(0.05)
            status, document = await ask(s, "POST", "router", name=name, params=params)
            assert (status, document["name"]) == (200, name)
        assert (await ask(s, "POST", "router", name="nobody"))[0] == 400
        assert (await ask(s, "POST", "router", name="br0", params={"x": 1}))[0] == 400
        assert (await ask(s, "GET", "router"))[1]["name"] == "br0"
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
        assert books_are_empty(s.running.proxy.desk)
        assert s.running.proxy.desk.ticker.fallbacks == 0


@asynchronous
async def test_learned_lengths_survive_a_restart(tmp_path: Path) -> None:
    flags = ("router.name=brh", f"router.history_file={tmp_path / 'history.json'}")
    async with stack(*flags) as s:
        for _ in range(3):
            await s.generate()
    async with stack(*flags) as s:
        assert [o.output_tokens for o in s.running.proxy.desk.ticker.history] == [3, 3, 3]


# -- metrics -------------------------------------------------------------------------------------


@asynchronous
async def test_metrics_have_the_promised_names_and_bounded_labels() -> None:
    async with stack() as s:
        await s.generate(stream=True)
        async with s.http.get(f"{s.url}/metrics") as reply:
            before = await reply.text()
        for number in range(5):
            headers = {"X-Request-Id": f"id{number}"}
            body = {"prompt": "x", "model": f"m{number}", "user": f"u{number}", "stream": True}
            async with s.http.post(f"{s.url}/v1/completions", json=body, headers=headers):
                pass
            async with s.http.get(f"{s.url}/nothing{number}"):
                pass
        async with s.http.get(f"{s.url}/metrics") as reply:
            after = await reply.text()
        series = [{line.rsplit(" ", 1)[0] for line in t.splitlines()} for t in (before, after)]
        assert series[0] == series[1]
        for name in (
            "imbalance_tokens",
            'decode_tokens_total{replica="d0"}',
            "pool_requests",
            "pool_tokens",
            "pool_wait_seconds_count",
            "kv_expired_total",
            "kv_stranded_total",
            "tick_seconds_count",
            'token_source_total{source="usage"}',
            'requests_total{endpoint="completions",status="200"}',
            "ttft_seconds_count",
            "tpot_seconds_count",
        ):
            assert f"\nbrtheory_{name}" in after


@asynchronous
async def test_drift_against_the_engines_own_count_and_kv_usage_are_read() -> None:
    async with stack("upstream.poll_metrics=true", "upstream.metrics_interval_s=0.05") as s:
        s.decodes[0].metrics = 'vllm:num_requests_running{engine="0",model_name="m"} 4.0\n'
        s.prefills[0].metrics = "vllm:kv_cache_usage_perc 0.97\n"
        desk = s.running.proxy.desk
        await until(lambda: s.running.proxy.telemetry.drift == {"d0": -4})
        await until(lambda: desk.prefills.nodes["p0"].usage == 0.97)
        # A full node gets nothing until it says that it has room.
        task = asyncio.create_task(s.generate())
        await until(lambda: len(desk.gate) == 1)
        s.prefills[0].metrics = "vllm:kv_cache_usage_perc 0.10\n"
        assert (await task)[0] == 200


@asynchronous
async def test_kv_fetched_after_its_lease_is_counted_and_logged(caplog) -> None:
    def told(count: int) -> str:
        return f'vllm:nixl_num_notifications_after_expiry_total{{engine="0"}} {count}.0\n'

    async with stack("upstream.poll_metrics=true", "upstream.metrics_interval_s=0.05") as s:
        node = s.prefills[0]
        # What was so before the proxy looked is not its own; a node started again counts from zero.
        for count, grown in ((7, 0), (9, 2), (9, 2), (1, 3)):
            node.metrics, seen = told(count), node.metrics_reads
            await until(lambda seen=seen: node.metrics_reads >= seen + 2)
            assert await s.metric("brtheory_kv_fetched_late_total") == grown
    assert "p0: KV of 2 requests was fetched after its lease" in caplog.text


def test_engine_metrics_are_read_by_engine_and_nonsense_is_left_out() -> None:
    text = 'vllm:num_requests_running{engine="3"} 2.0\nvllm:num_requests_running{engine="4"} 5\n'
    assert engine_running(text + "other 3\n# x\n") == {3: 2, 4: 5}
    assert engine_running("vllm:num_requests_running 7") == {0: 7}
    assert kv_usage("vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc NaN") == 0.5
    assert kv_usage("") is None


# -- configuration -------------------------------------------------------------------------------


def load(*flags: str, path: Path | None = None, **environment: str) -> Settings:
    return load_settings(path, environment=environment, flags=flags)


def test_flags_beat_the_environment_which_beats_the_file_which_beats_the_defaults(
    tmp_path: Path,
) -> None:
    path = tmp_path / "proxy.toml"
    decode = '[[decode]]\nname = "d"\nurl = "http://x"\n'
    path.write_text(
        f'[connector]\nname="none"\n[pool]\nrequests = 1\ntokens = 1\nqueue = 1\n{decode}'
    )
    settings = load(
        "pool.requests=3",
        path=path,
        BRTHEORY_PROXY_POOL__REQUESTS="2",
        BRTHEORY_PROXY_POOL__TOKENS="2",
        OTHER_POOL__QUEUE="9",
    )
    pool = settings.pool
    assert (pool.requests, pool.tokens, pool.queue) == (3, 2, 1)
    assert pool.queue_s == 60.0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("pool.requests=0", r"--set pool.requests: pool.requests: expected .*greater than"),
        ("pool.requests=many", r"--set pool.requests: pool.requests"),
        ("pool.nonsense=1", r"--set pool.nonsense: pool.nonsense: expected a known setting"),
        ("pool", r"--set: expected section.field=value"),
        ("router.name=nobody", r"router: expected one of "),
        ("router.params={x = 1}", r"router.params"),
        ("connector.name=sglang", r"bind late"),
        ("connector.name=nixl", r"prefill: expected at least one"),
        ("upstream.keepalive_s=5", r"upstream.keepalive_s: expected .*less than 5"),
        ("server.tls_cert=x", r"both tls_cert and tls_key"),
        ("admin.host=0.0.0.0", r"admin.key: expected a key"),
        ('decode=[{name = "d", url = "ftp://x"}]', r"decode.0.url"),
        ("decode=[]", r"at least one decode node"),
    ],
)
def test_what_does_not_fit_names_its_layer_and_field(flag: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(BASE, NONE, flag)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_toml_are_input_errors(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text("[pool\n")
    with pytest.raises(InputError, match=r"proxy\.toml: expected TOML"):
        load(path=path)


def test_the_printed_configuration_reads_back_and_hides_secrets(tmp_path: Path) -> None:
    settings = load(
        BASE,
        NONE,
        'server.api_keys=["secret-one"]',
        "router.params={max_subset = 3}",
        "pool.queue=7",
    )
    printed = as_toml(settings)
    assert "secret-one" not in printed
    path = tmp_path / "printed.toml"
    path.write_text(printed)
    again = load(path=path)
    assert again.model_dump(exclude={"server": {"api_keys"}}) == settings.model_dump(
        exclude={"server": {"api_keys"}}
    )


def test_keys_come_from_files_and_numeric_keys_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("one\n\n two \n")
    settings = load(BASE, NONE, f"server.api_keys_file={path}", "admin.key=123")
    assert [key.get_secret_value() for key in settings.server.api_keys] == ["one", "two"]
    assert settings.admin.key is not None
    assert settings.admin.key.get_secret_value() == "123"
    path.write_text("\n")
    with pytest.raises(InputError, match="a key on a line"):
        load(BASE, NONE, f"server.api_keys_file={path}")


def test_every_setting_is_read_somewhere_in_the_proxy() -> None:
    """Flags that never reach the core are worse than none."""
    folder = Path(__file__).parents[3] / "brtheory" / "proxy"
    sources = "\n".join(
        path.read_text() for path in folder.glob("*.py") if path.name not in ("settings.py",)
    )
    unread = [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        for name in getattr(field.annotation, "model_fields", {})
        if not re.search(rf"\.{name}\b", sources)
    ]
    assert unread == []


# -- check ---------------------------------------------------------------------------------------


@asynchronous
async def test_check_finds_nothing_wrong_with_a_stack_that_works() -> None:
    async with stack() as s:
        findings = await check_workers(s.running.proxy.settings)
        assert [(f.worker, f.fault, f.model) for f in findings] == [
            ("p0", None, "m"),
            ("d0", None, "m"),
        ]


@asynchronous
async def test_check_says_what_is_wrong_with_each_worker() -> None:
    async with stack(prefills=2, ranks=[0]) as s:
        await s.prefills[0].stop()
        s.prefills[1].behave = answer(200, '{"usage":{}}')
        faults = [f.fault or "" for f in await check_workers(s.running.proxy.settings)]
        assert "onnect" in faults[0]
        assert "returns no KV parameters" in faults[1]
        assert "ignores the header" in faults[2]


# -- transport security --------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name]
    subprocess.run(  # a command of our own
        [*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    return cert, key


@asynchronous
async def test_streams_pass_over_tls(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    async with stack(f"server.tls_cert={cert}", f"server.tls_key={key}") as s:
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"https://localhost:{s.running.port}/v1/completions"
        async with s.http.post(url, json={"prompt": "x", "stream": True}, ssl=trusted) as reply:
            assert (await reply.text()).endswith("data: [DONE]\n\n")


def test_a_certificate_that_is_none_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    path.write_text("nothing")
    settings = load(BASE, NONE, f"server.tls_cert={path}", f"server.tls_key={path}")
    with pytest.raises(InputError, match=r"server\.tls_cert"):
        asyncio.run(start(settings))
