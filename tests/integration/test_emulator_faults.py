"""Faults of the emulator on the wire: each as it was asked for, and nothing left open."""

import asyncio
import json
import socket

import aiohttp
import pytest

from brtheory.errors import InputError
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.emulator_bench import PROMPT, PROMPT_TOKENS, TEXT, on_bench, running

OUT = "x-emulator-output-tokens"

BODY = {"prompt": PROMPT, "headers": {OUT: "6"}}


def test_a_status_comes_with_its_body_type_and_retry_after():
    async def scenario(bench):
        rule = {"status": 503, "body": "busy", "content_type": "text/plain", "retry_after": "3"}
        await bench.fault("status", role="decode", rank=0, **rule)
        first = await bench.stream("decode-0", **BODY)
        other = await bench.stream("decode-0", **BODY)
        await bench.fault("status", status=500)
        return first, other, await bench.post("decode-1", **BODY)

    struck, other, default = on_bench(scenario)
    assert (struck.status, struck.headers["Retry-After"]) == (503, "3")
    assert struck.headers["Content-Type"] == "text/plain"
    assert other.status == 200
    assert (default[0], default[2]["error"]["code"]) == (500, 500)


def test_a_stream_dies_in_the_middle():
    async def read(answer, into):
        async for data in answer.content.iter_any():
            into.append(data)

    async def scenario(bench):
        await bench.fault("death", after_tokens=3, times=2)
        body, got = {"prompt": PROMPT, "stream": True}, []
        url = bench.url("decode-0", TEXT)
        async with bench.client.post(url, json=body, headers={OUT: "6"}) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await read(answer, got)
        with pytest.raises(aiohttp.ClientError):
            await bench.post("decode-0", **BODY)
        return b"".join(got)

    assert on_bench(scenario).count(b"data: ") == 3


def test_a_truncated_stream_ends_like_a_complete_one_without_its_end():
    async def scenario(bench):
        await bench.fault("truncate", after_tokens=3)
        cut = await bench.stream("decode-0", **BODY)
        await bench.fault("truncate", after_tokens=6)
        return cut, await bench.stream("decode-0", **BODY)

    cut, almost = on_bench(scenario)
    assert (cut.status, len(cut.documents), cut.done) == (200, 3, False)
    assert (len(almost.documents), almost.done) == (6, False)


def test_a_truncated_body_is_shorter_than_it_promised():
    async def scenario(bench):
        await bench.fault("truncate")
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.post("decode-0", **BODY)

    on_bench(scenario)


def test_an_error_event_comes_with_status_200_and_done():
    async def scenario(bench):
        await bench.fault("error_event", after_tokens=2, times=2)
        return await bench.stream("decode-0", **BODY), await bench.post("decode-0", **BODY)

    stream, whole = on_bench(scenario)
    assert (stream.status, stream.done) == (200, True)
    assert [("error" in d) for d in stream.documents] == [False, False, True]
    assert whole[0] == 500


def test_an_empty_answer_is_a_200():
    async def scenario(bench):
        await bench.fault("empty")
        return await bench.stream("decode-0", **BODY)

    stream = on_bench(scenario)
    assert (stream.status, stream.documents, stream.done) == (200, [], False)


def test_a_stall_holds_the_stream_and_nothing_else():
    async def scenario(bench):
        loop = asyncio.get_running_loop()
        await bench.fault("stall", after_tokens=2, delay_s=0.2)
        start = loop.time()
        stream = await bench.stream("decode-0", **BODY)
        stalled = loop.time() - start
        await bench.fault("stall", after_tokens=2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(bench.stream("decode-0", **BODY), 0.1)
        return stream, stalled

    stream, stalled = on_bench(scenario)
    assert stream.done
    assert len(stream.documents) == 6
    assert stalled >= 0.2


def test_a_slow_start_delays_the_headers():
    async def scenario(bench):
        loop = asyncio.get_running_loop()
        await bench.fault("slow_start", delay_s=0.15)
        start = loop.time()
        url = bench.url("decode-0", TEXT)
        async with bench.client.post(url, json={"prompt": PROMPT, "stream": True}) as answer:
            headers_at = loop.time() - start
            await answer.read()
        return headers_at

    assert on_bench(scenario) >= 0.15


def test_a_preempted_request_can_be_prefilled_again_and_goes_on_seamlessly():
    async def scenario(bench):
        whole = await bench.stream("decode-0", **BODY)
        await bench.fault("recomputed", after_tokens=2)
        cut = await bench.stream("decode-0", **BODY)
        rest = await bench.stream("decode-1", prompt=PROMPT + cut.text, headers={OUT: "4"})
        return whole, cut, rest

    whole, cut, rest = on_bench(scenario)
    last = cut.documents[-1]["choices"][0]
    assert (last["stop_reason"], last["finish_reason"], last["text"]) == ("recomputed", "stop", "")
    assert len(cut.documents) == 3
    assert cut.text + rest.text == whole.text


def test_a_reply_without_kv_parameters_makes_decode_recompute():
    async def scenario(bench):
        await bench.fault("no_kv_params", role="prefill")
        prefilled = await bench.prefill()
        await bench.post("decode-0", **BODY)
        return prefilled["kv_transfer_params"], (await bench.truth())["kv"]

    params, kv = on_bench(scenario)
    assert params is None
    assert kv == {"absent": 1, "recomputed": 1, "recomputed_tokens": PROMPT_TOKENS}


def test_a_reused_connection_is_reset_before_any_byte():
    async def scenario(bench):
        await bench.fault("reset_reused", times=None)
        headers = {OUT: "2"}
        await bench.post("decode-0", prompt=PROMPT, headers=headers)
        url = bench.url("decode-0", TEXT)
        # A request with a body is not repeated by the client itself.
        with pytest.raises(aiohttp.ClientConnectionError):
            async with bench.client.post(url, data=_once(b'{"prompt": "x"}')) as answer:
                await answer.read()
        return (await bench.post("decode-0", prompt=PROMPT, headers=headers))[0]

    assert on_bench(scenario) == 200


async def _once(data):
    yield data


def test_a_reset_strikes_fresh_connections_too():
    async def scenario(bench):
        await bench.fault("reset", endpoint="prefill-0")
        with pytest.raises(aiohttp.ClientConnectionError):
            await bench.post("prefill-0", **BODY)

    on_bench(scenario)


@pytest.mark.parametrize("keepalive_s", [0.1, 0.3])
def test_idle_connections_are_closed_after_the_keep_alive(keepalive_s):
    async def scenario(bench):
        loop = asyncio.get_running_loop()
        endpoint = bench.emulator.endpoints["decode-0"]
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        start = loop.time()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        await writer.wait_closed()
        return loop.time() - start

    # Half: the clock of the client starts a little after the server's.
    assert on_bench(scenario, keepalive_s=keepalive_s) >= keepalive_s / 2


def test_health_can_flap():
    async def scenario(bench):
        await bench.fault("status", path="/health", status=503, endpoint="decode-0", times=1)
        return [(await bench.get("decode-0", "/health"))[0] for _ in range(2)]

    assert on_bench(scenario) == [503, 200]


@pytest.mark.parametrize("server", ["decode-0", "prefill-0"])
def test_a_server_dies_with_its_connections_and_comes_back_on_its_port(server):
    async def scenario(bench):
        url = bench.url(server)
        stream = asyncio.create_task(
            bench.stream("decode-0", prompt=PROMPT, max_tokens=900, headers={OUT: "900"})
        )
        await bench.until(lambda truth: truth["active"][0] == 1)
        async with bench.client.post(bench.url("admin", f"/emulator/kill/{server}")) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            async with bench.client.get(url + "/health"):
                pass
        if server == "decode-0":
            with pytest.raises(aiohttp.ClientError):
                await stream
        else:
            stream.cancel()
        alive = (await bench.post("decode-1", **BODY))[0]
        async with bench.client.post(bench.url("admin", f"/emulator/revive/{server}")) as answer:
            assert answer.status == 200
        assert bench.url(server) == url
        return alive, (await bench.get(server, "/health"))[0]

    assert on_bench(scenario) == (200, 200)


def test_a_crash_in_the_midst_of_writing_is_no_error_of_the_server(caplog):
    async def scenario(bench):
        body = {"prompt": PROMPT, "max_tokens": 20_000, "headers": {OUT: "20000"}}
        for _ in range(10):
            streams = [asyncio.create_task(bench.stream("decode-0", **body)) for _ in range(4)]
            await bench.until(lambda truth: truth["active"][0] == 4)
            await bench.emulator.kill("decode-0")
            outcomes = await asyncio.gather(*streams, return_exceptions=True)
            assert all(isinstance(outcome, aiohttp.ClientError) for outcome in outcomes)
            await bench.until(lambda truth: not truth["requests"])
            await bench.emulator.endpoints["decode-0"].start()

    quick = StepTime(a0=0.0, b0=1e-5)
    on_bench(scenario, step_time=quick, shape=ClusterShape(2, 4))
    assert not caplog.records


def test_odd_rules_and_names_are_refused_in_one_line():
    async def scenario(bench):
        admin = bench.url("admin")
        async with bench.client.post(admin + "/emulator/faults", data=b'{"kind": "no"}') as answer:
            rule = answer.status, await answer.json()
        async with bench.client.post(admin + "/emulator/faults", data=b"\xff\xfe") as answer:
            assert answer.status == 400
        async with bench.client.post(admin + "/emulator/kill/decode-9") as answer:
            name = answer.status, await answer.json()
        await bench.fault("stall")
        async with bench.client.delete(admin + "/emulator/faults") as answer:
            assert answer.status == 200
        return rule, name, json.loads((await bench.get("admin", "/emulator/faults"))[1])

    rule, name, left = on_bench(scenario)
    assert rule[0] == 400
    assert "kind" in rule[1]["error"]
    assert name == (404, {"error": name[1]["error"]})
    assert "decode-0" in name[1]["error"]
    assert left == []


def test_no_socket_is_left_listening():
    async def scenario(bench):
        return [endpoint.port for endpoint in bench.emulator.endpoints.values()]

    for port in on_bench(scenario):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_in_use_is_one_line_and_leaves_nothing():
    async def run():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            # Nearly always decode-0; the port before it may happen to be somebody else's.
            with pytest.raises(InputError, match=r"(decode-0|admin) port \d+: .* a free address"):
                async with running(port_base=port - 1):
                    raise AssertionError("started on a port in use")

    asyncio.run(run())
