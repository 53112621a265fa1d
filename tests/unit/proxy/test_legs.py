"""Behaviour of the two legs: bodies, headers, retries only where safe, leases."""

import asyncio
import json
from contextlib import suppress

import pytest

from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import (
    KV,
    Stack,
    answer,
    asynchronous,
    chunk,
    decode,
    event,
    open_stream,
    prefill,
    raw_stream,
    reset,
    stack,
    stall,
    until,
)


def texts(stream: str) -> list[str]:
    """Data of the events of a stream."""
    return [line.removeprefix("data: ") for line in stream.splitlines() if line]


@asynchronous
async def test_prefill_gets_one_token_and_decode_the_clients_body_with_the_answers_kv() -> None:
    async with stack() as s:
        options = {"include_usage": True}
        body = {"max_tokens": 9, "min_tokens": 2, "max_completion_tokens": 8, "unknown": [1, {}]}
        await s.generate(**body, stream=True, stream_options=options)
        sent = s.prefills[0].seen[0].body
        assert "stream_options" not in sent
        one = ("max_tokens", "min_tokens", "max_completion_tokens")
        assert [sent[field] for field in one] == [1, 1, 1]
        assert (sent["stream"], sent["unknown"]) == (False, [1, {}])
        assert sent["kv_transfer_params"]["do_remote_decode"] is True
        decoded = s.decodes[0].seen[0].body
        assert decoded["kv_transfer_params"] == KV
        assert {field: decoded[field] for field in body} == body


@asynchronous
async def test_both_legs_share_a_request_id_made_unique_with_the_clients_as_prefix() -> None:
    async with stack() as s:
        for _ in range(2):
            headers = {"X-Request-Id": "mine\t!"}
            url = f"{s.url}/v1/completions"
            async with s.http.post(url, json={"prompt": "x"}, headers=headers) as reply:
                shown = reply.headers["X-Request-Id"]
            assert shown.startswith("mine-")
            both = [s.prefills[0].seen[-1], s.decodes[0].seen[-1]]
            assert [seen.headers["X-Request-Id"] for seen in both] == [shown, shown]
        first, second = (seen.headers["X-Request-Id"] for seen in s.decodes[0].seen)
        assert first != second


@asynchronous
async def test_authorisation_is_forwarded_never_invented_and_replaced_only_by_a_key() -> None:
    async with stack() as s:
        await s.generate()
        assert "Authorization" not in s.decodes[0].seen[-1].headers
        url, mine = f"{s.url}/v1/completions", {"Authorization": "Bearer mine"}
        async with s.http.post(url, json={"prompt": "x"}, headers=mine):
            pass
        assert s.decodes[0].seen[-1].headers["Authorization"] == "Bearer mine"
        assert s.prefills[0].seen[-1].headers["Authorization"] == "Bearer mine"
    async with stack("upstream.api_key=theirs") as s:
        async with s.http.post(f"{s.url}/v1/completions", json={"prompt": "x"}, headers=mine):
            pass
        assert s.decodes[0].seen[-1].headers["Authorization"] == "Bearer theirs"


def ranked(*owned: int):
    """A node that owns these global ranks."""

    async def behave(engine, request, body):
        if int(request.headers["X-data-parallel-rank"]) not in owned:
            return await answer(400, '{"error":{"message":"rank"}}')(engine, request, body)
        return await decode(engine, request, body)

    return behave


@asynchronous
async def test_ranks_are_sent_as_global_numbers_and_used_only_once_they_are_known() -> None:
    async with stack(ranks=[4, 5], decode_behaviour=ranked(4, 5)) as s:
        live = s.running.proxy.desk.fleet
        await until(lambda: live.live("decode") == ["d0/4", "d0/5"])
        s.decodes[0].seen.clear()
        for _ in range(4):
            assert (await s.generate())[0] == 200
        ranks = {seen.headers["X-data-parallel-rank"] for seen in s.decodes[0].seen}
        assert ranks <= {"4", "5"}


@asynchronous
async def test_a_rank_the_node_does_not_own_gets_no_request() -> None:
    async with stack(ranks=[4, 9], decode_behaviour=ranked(4)) as s:
        fleet = s.running.proxy.desk.fleet
        await until(lambda: fleet.live("decode") == ["d0/4"])
        await asyncio.sleep(0.25)
        assert fleet.live("decode") == ["d0/4"]


@asynchronous
async def test_a_node_that_ignores_the_rank_header_is_not_used() -> None:
    async with stack(ranks=[0, 1]) as s:
        await until(lambda: len(s.decodes[0].seen) >= 4)
        assert s.running.proxy.desk.fleet.live("decode") == []


# -- errors and retries --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500])
@pytest.mark.parametrize("leg", ["prefills", "decodes"])
@asynchronous
async def test_errors_of_nodes_pass_with_status_body_and_content_type(
    leg: str, status: int
) -> None:
    async with stack() as s:
        engine = getattr(s, leg)[0]
        engine.behave = answer(status, '{"error":{"message":"théirs"}}', "application/problem+json")
        for stream in (False, True):
            url, body = f"{s.url}/v1/completions", {"prompt": "x", "stream": stream}
            async with s.http.post(url, json=body) as reply:
                assert reply.status == status
                assert reply.headers["Content-Type"] == "application/problem+json"
                assert reply.headers["Retry-After"] == "7"
                assert await reply.text() == '{"error":{"message":"théirs"}}'
        # A node that failed is asked once more: nothing has been forwarded.
        assert len(engine.seen) == (4 if status == 500 else 2)


@asynchronous
async def test_client_errors_never_turn_a_node_down() -> None:
    async with stack() as s:
        s.decodes[0].behave = answer(400, "{}")
        for _ in range(8):
            assert (await s.generate())[0] == 400
        assert s.running.proxy.desk.fleet.live("decode") == ["d0"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@asynchronous
async def test_prefill_moves_to_another_node_when_the_node_is_at_fault(status: int) -> None:
    async with stack(prefills=2) as s:
        for engine in s.prefills:
            engine.script = [answer(status, "down")]
        # Both fail once: the first request is out of attempts, the second finds both well.
        assert (await s.generate())[::2] == (status, "down")
        assert [len(engine.seen) for engine in s.prefills] == [1, 1]
        assert (await s.generate())[0] == 200
        assert len(s.decodes[0].seen) == 1


@asynchronous
async def test_a_dead_prefill_node_is_avoided_and_then_known_to_be_down() -> None:
    async with stack(prefills=2) as s:
        await s.prefills[0].stop()
        for _ in range(4):
            assert (await s.generate())[0] == 200
        await until(lambda: s.running.proxy.desk.fleet.live("prefill") == ["p1"])


@asynchronous
async def test_an_unreachable_replica_gives_its_unused_kv_to_another() -> None:
    async with stack("upstream.health_interval_s=600", decodes=2) as s:
        await s.decodes[0].stop()
        for _ in range(3):
            assert (await s.generate())[0] == 200
        # Prefilled once each, though the first replica was tried and could not be reached.
        assert len(s.prefills[0].seen) == 3
        assert len(s.decodes[1].seen) == 3
        assert all(seen.body["kv_transfer_params"] == KV for seen in s.decodes[1].seen)
        assert await s.metric("brtheory_retries_total") >= 1


@pytest.mark.parametrize(
    "failure",
    [reset, *(answer(n, "x") for n in (500, 502, 503, 504)), raw_stream(), raw_stream(cut=True)],
)
@pytest.mark.parametrize("stream", [False, True])
@asynchronous
async def test_kv_that_may_be_used_is_never_sent_again_but_prefilled_again_once(
    failure, stream: bool
) -> None:
    async with stack() as s:
        s.decodes[0].script = [failure]
        assert (await s.generate(stream=stream))[0] == 200
        assert (len(s.prefills[0].seen), len(s.decodes[0].seen)) == (2, 2)
    async with stack() as s:
        s.decodes[0].script = [failure, failure]
        status, _, text = await s.generate(stream=stream)
        assert status in (500, 502, 503, 504)
        assert "error" in text or text == "x"
        assert (len(s.prefills[0].seen), len(s.decodes[0].seen)) == (2, 2)


@pytest.mark.parametrize("router", ["br0", "jsq"])
@pytest.mark.parametrize("slots", [1, 8])
@asynchronous
async def test_what_failed_on_a_replica_is_tried_on_another(router: str, slots: int) -> None:
    """The failing one is always the emptiest: alone it would draw every second attempt too."""
    async with stack(f"router.name={router}", decodes=2, slots=slots) as s:
        s.decodes[0].behave = answer(500, "engine dead")
        s.decodes[1].gap_s = 0.01
        results = await asyncio.gather(*(s.generate(stream=True) for _ in range(10)))
        assert {status for status, _, _ in results} == {200}
        assert len(s.decodes[0].seen) >= 1
        assert len(s.decodes[1].seen) == 10
        assert s.decodes[1].peak_streams <= slots or router == "jsq"


@asynchronous
async def test_a_node_whose_connection_was_lost_gets_nothing_until_a_probe_finds_it_well() -> None:
    """A killed process may seem to take connections as long as its children live."""
    async with stack("upstream.health_interval_s=600", "upstream.fall_after=9", decodes=2) as s:
        fleet = s.running.proxy.desk.fleet
        await until(lambda: fleet.live("decode") == ["d0", "d1"])
        s.decodes[0].healthy, s.decodes[0].behave = False, reset
        for _ in range(6):
            assert (await s.generate())[0] == 200
        assert len(s.decodes[0].seen) == 1
        assert fleet.live("decode") == ["d1"]
        # It is suspected, not down: its streams, had it any, would keep their load.
        assert fleet.find("d0").health.up
        s.decodes[0].healthy, s.decodes[0].behave = True, decode
        await s.running.proxy.probes.check_health()
        assert fleet.live("decode") == ["d0", "d1"]


@asynchronous
async def test_a_lost_connection_costs_a_node_that_is_well_one_probe() -> None:
    async with stack("upstream.health_interval_s=600") as s:
        s.decodes[0].script = [reset]
        assert (await s.generate())[0] == 200
        assert len(s.decodes[0].seen) == 2
        assert not s.running.proxy.desk.fleet.find("d0").health.changes


@asynchronous
async def test_nothing_is_retried_after_the_first_byte() -> None:
    async with stack() as s:
        first = event(chunk({}, 1))
        s.decodes[0].behave = raw_stream(first, cut=True)
        status, _, text = await s.generate(stream=True)
        assert status == 200
        *shown, error, done = texts(text)
        assert shown == texts(first.decode())
        assert json.loads(error)["error"]["code"] == "stream_interrupted"
        assert done == "[DONE]"
        assert len(s.decodes[0].seen) == 1
        assert await s.metric("brtheory_truncated_total") == 1


@asynchronous
async def test_a_reset_of_a_reused_connection_before_any_byte_is_tried_on_a_fresh_one() -> None:
    """A server that closes each connection when a second request comes in on it."""
    connections = requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, requests
        connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for answered in (False, True):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if "post" in head:
                    length = int(head.split("content-length: ")[1].split("\r\n")[0])
                    await reader.readexactly(length)
                    requests += 1
                if answered:
                    break
                body = b'{"choices":[],"usage":{"prompt_tokens":1},"kv_transfer_params":{"a":1}}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    flag = f'prefill=[{{name = "p", url = "{url}"}}]'
    async with server, stack(flag, "upstream.health_interval_s=600") as s:
        for _ in range(3):
            assert (await s.generate())[0] == 200
        # One connection serves one; the next request breaks it and goes to a fresh one, which
        # is closed after it: request 2 is sent twice, request 3 opens anew.
        assert requests >= 4
        assert await s.metric("brtheory_retries_total") == 0


# -- silence -------------------------------------------------------------------------------------


@asynchronous
async def test_a_silent_decode_is_given_up() -> None:
    async with stack("upstream.idle_s=0.2") as s:
        s.decodes[0].behave = stall
        status, _, text = await s.generate(stream=True)
        assert status == 502
        assert json.loads(text)["error"]["code"] == "decode_failed"


@asynchronous
async def test_a_stream_that_falls_silent_ends_with_an_error_event() -> None:
    async def one_then_silence(engine, request, body):
        response = await open_stream(request)
        await response.write(event(chunk(body, 1)))
        await asyncio.sleep(60)
        return response

    async with stack("upstream.idle_s=0.2", decode_behaviour=one_then_silence) as s:
        _, _, text = await s.generate(stream=True)
        assert "stream_interrupted" in text
        assert text.endswith("data: [DONE]\n\n")


@asynchronous
async def test_a_silent_prefill_moves_on() -> None:
    async with stack("upstream.prefill_s=0.2", prefills=2) as s:
        s.prefills[0].behave = stall
        s.prefills[1].behave = stall
        assert (await s.generate())[0] == 502
        assert [len(engine.seen) for engine in s.prefills] == [1, 1]


@asynchronous
async def test_a_prefill_may_take_longer_than_a_stream_may_be_silent() -> None:
    async def slow(engine, request, body):
        await asyncio.sleep(0.5)
        return await prefill(engine, request, body)

    async with stack("upstream.idle_s=0.2", "upstream.prefill_s=5") as s:
        s.prefills[0].behave = slow
        assert (await s.generate())[0] == 200
        assert len(s.prefills[0].seen) == 1


# -- KV parameters and leases --------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "status"), [("fail", 502), ("continue", 200)])
@asynchronous
async def test_missing_kv_parameters_are_counted_and_the_operator_chooses(
    choice: str, status: int
) -> None:
    async with stack(f"connector.on_missing={choice}") as s:
        s.prefills[0].behave = answer(200, '{"choices":[],"usage":{"prompt_tokens":5}}')
        assert (await s.generate())[0] == status
        assert await s.metric("brtheory_missing_kv_total") == 1
        assert len(s.decodes[0].seen) == (status == 200)


async def occupy(s: Stack) -> asyncio.Task[tuple[int, object, str]]:
    """Fill the only slot until ``s.decodes[0].hold`` is set."""
    s.decodes[0].hold = asyncio.Event()
    task = asyncio.create_task(s.generate(stream=True))
    await until(lambda: s.decodes[0].streams == 1)
    return task


@asynchronous
async def test_a_pooled_request_is_bound_at_its_deadline_slot_or_not() -> None:
    async with stack("connector.lease_s=0.5", slots=1) as s:
        first = await occupy(s)
        second = asyncio.create_task(s.generate())
        await until(lambda: s.decodes[0].streams == 2)
        assert await s.metric("brtheory_forced_bindings_total") == 1
        assert s.decodes[0].hold is not None
        s.decodes[0].hold.set()
        assert [status for status, _, _ in await asyncio.gather(first, second)] == [200, 200]


@pytest.mark.parametrize(("choice", "prefills"), [("prefill", 2), ("fail", 1)])
@asynchronous
async def test_past_the_lease_the_prompt_is_prefilled_again_once_or_answered_503(
    choice: str, prefills: int
) -> None:
    async with stack("connector.lease_s=0.3", f"connector.on_expired={choice}") as s:
        s.decodes[0].healthy = False
        fleet = s.running.proxy.desk.fleet
        await until(lambda: fleet.live("decode") == [])
        status, _, text = await s.generate()
        assert (status, json.loads(text)["error"]["code"]) == (503, "pool_timeout")
        assert len(s.prefills[0].seen) == prefills
        assert await s.metric("brtheory_kv_expired_total") == prefills
        assert await s.metric("brtheory_kv_expired_lost_total") == 1
        assert await s.metric("brtheory_kv_stranded_total") == prefills


@asynchronous
async def test_mooncake_names_the_engine_and_asks_its_rank_to_prefill() -> None:
    async with stack(connector="mooncake") as s:
        await until(lambda: bool(s.running.proxy.desk.fleet.find("p0").engines))
        s.prefills[0].behave = answer(
            200, '{"choices":[],"usage":{"prompt_tokens":5},"kv_transfer_params":null}'
        )
        for _ in range(2):
            assert (await s.generate())[0] == 200
        legs = zip(s.prefills[0].seen, s.decodes[0].seen, strict=True)
        for (sent, decoded), rank in zip(legs, ("0", "1"), strict=True):
            given = decoded.body["kv_transfer_params"]
            assert sent.headers["X-data-parallel-rank"] == rank
            assert given["remote_engine_id"] == f"e{rank}"
            assert given["transfer_id"] == sent.body["kv_transfer_params"]["transfer_id"]
            assert given["remote_bootstrap_addr"] == s.prefills[0].url


@asynchronous
async def test_without_a_connector_there_is_no_prefill_leg_and_prompts_are_learned() -> None:
    async with stack(connector="none") as s:
        s.decodes[0].hold = asyncio.Event()
        task = asyncio.create_task(s.generate(prompt="x" * 100, stream=True))
        mirror = s.running.proxy.desk.mirror
        # The prompt has 100 tokens by the engine's count, and one token has been shown.
        await until(lambda: mirror.loads(["d0"]) == [101])
        s.decodes[0].hold.set()
        assert (await task)[0] == 200
        assert "kv_transfer_params" not in s.decodes[0].seen[0].body
        assert books_are_empty(s.running.proxy.desk)


@asynchronous
async def test_a_preempted_request_goes_on_seamlessly() -> None:
    body = {"prompt": "hello", "stream": True}
    stopped = chunk(body, 3)
    stopped["choices"][0] |= {"stop_reason": "recomputed", "text": "", "finish_reason": "stop"}
    with_usage = {**body, "stream_options": {"continuous_usage_stats": True}}
    cut_short = raw_stream(
        event(chunk(with_usage, 1)),
        event(chunk(with_usage, 2)),
        event(stopped),
        b"data: [DONE]\n\n",
    )
    async with stack(connector="mooncake-ascend") as s:
        s.decodes[0].script = [cut_short]
        options = {"include_usage": True}
        status, _, text = await s.generate(stream=True, max_tokens=5, stream_options=options)
        assert status == 200
        *chunks, usage, done = texts(text)
        # Two tokens, then three more of the five allowed.
        words = [json.loads(data)["choices"][0]["text"] for data in chunks]
        assert words == ["t1 ", "t2 ", "t1 ", "t2 ", "t3 "]
        assert json.loads(usage)["usage"]["completion_tokens"] == 5
        # The continued prompt 'hellot1 t2 ' has 11 tokens of one character, 2 of them generated.
        assert json.loads(usage)["usage"]["prompt_tokens"] == 11 - 2
        assert done == "[DONE]"
        again = s.prefills[0].seen[1].body
        assert again["prompt"] == "hellot1 t2 "
        assert s.decodes[0].seen[1].body["max_tokens"] == 3
        assert books_are_empty(s.running.proxy.desk)
