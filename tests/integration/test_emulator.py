"""The emulator on the wire: what an engine shows, whose KV it takes, and what the truth says."""

import asyncio
import json

import pytest

from brtheory.simulation.workload import ClusterShape, StepTime
from tests.emulator_bench import CHAT, PROMPT, PROMPT_TOKENS, TEXT, USAGE, on_bench

MESSAGES = [{"role": "user", "content": PROMPT}]
OUT = "x-emulator-output-tokens"


def completions(stream):
    """Cumulative completion tokens of the chunks that carry choices."""
    return [d["usage"]["completion_tokens"] for d in stream.documents if d["choices"]]


# -- what an engine shows --------------------------------------------------------------------------


def test_a_text_stream_counts_its_tokens_one_by_one():
    async def scenario(bench):
        options = {"stream_options": USAGE, "return_token_ids": True}
        return await bench.stream("decode-0", prompt=PROMPT, headers={OUT: "6"}, **options)

    stream = on_bench(scenario)
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert completions(stream) == [1, 2, 3, 4, 5, 6]
    assert all(len(d["choices"][0]["token_ids"]) == 1 for d in stream.documents[:-1])
    assert len(stream.documents[0]["choices"][0]["prompt_token_ids"]) == PROMPT_TOKENS
    assert stream.documents[-2]["choices"][0]["finish_reason"] == "stop"
    assert stream.documents[-1]["choices"] == []
    assert stream.documents[-1]["usage"]["total_tokens"] == PROMPT_TOKENS + 6
    assert stream.done


def test_a_chat_stream_opens_with_the_role_and_says_what_the_whole_answer_says():
    async def scenario(bench):
        body = {"path": CHAT, "messages": MESSAGES, "headers": {OUT: "5"}}
        stream = await bench.stream("decode-0", **body)
        _, _, whole = await bench.post("decode-1", **body)
        return stream, whole

    stream, whole = on_bench(scenario)
    assert stream.documents[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "usage" not in stream.documents[0]
    assert stream.text == whole["choices"][0]["message"]["content"]
    assert whole["usage"]["completion_tokens"] == 5
    assert len(stream.documents) == 6


def test_two_emulators_with_one_seed_say_the_same():
    async def scenario(bench):
        answers = await asyncio.gather(
            *(bench.post(f"decode-{i % 2}", prompt=f"question {i}") for i in range(8))
        )
        return [document["choices"] for _, _, document in answers]

    assert on_bench(scenario, seed=5) == on_bench(scenario, seed=5) != on_bench(scenario, seed=6)


def test_choices_batches_and_stops_are_numbered_and_counted_together():
    async def scenario(bench):
        _, _, two = await bench.post("decode-0", prompt=PROMPT, n=2, headers={OUT: "4"})
        _, _, batch = await bench.post("decode-0", prompt=[PROMPT, "x"], headers={OUT: "4"})
        stop = two["choices"][0]["text"][4:8]
        _, _, short = await bench.post("decode-0", prompt=PROMPT, stop=stop, headers={OUT: "4"})
        stream = await bench.stream(
            "decode-0", prompt=PROMPT, n=2, headers={OUT: "4"}, stream_options=USAGE
        )
        return two, batch, short, stream

    two, batch, short, stream = on_bench(scenario)
    assert [choice["index"] for choice in two["choices"]] == [0, 1]
    assert two["usage"]["completion_tokens"] == 8
    assert batch["usage"]["prompt_tokens"] == PROMPT_TOKENS + 1
    assert short["choices"][0]["text"] == two["choices"][0]["text"][:4]
    assert (short["choices"][0]["finish_reason"], short["usage"]["completion_tokens"]) == (
        "stop",
        2,
    )
    # Running usage is per choice, the final one over both.
    assert sorted(completions(stream)) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert stream.documents[-1]["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize(
    ("changes", "chunks"), [({"tokens_per_chunk": 4}, 3), ({"burst": 4}, None)]
)
def test_a_chunk_is_not_a_token(changes, chunks):
    async def scenario(bench):
        return await bench.stream(
            "decode-0", prompt=PROMPT, headers={OUT: "10"}, stream_options=USAGE, max_tokens=99
        )

    counts = completions(on_bench(scenario, **changes))
    assert counts[-1] == 10
    assert len(counts) < 10
    assert chunks is None or len(counts) == chunks


def test_models_health_and_metrics_answer_as_an_engines():
    async def scenario(bench):
        await bench.post("decode-1", prompt=PROMPT, headers={OUT: "3"})
        return [await bench.get("decode-1", path) for path in ("/v1/models", "/health", "/metrics")]

    models, health, metrics = on_bench(scenario)
    assert json.loads(models[1])["data"][0]["id"] == "emulated"
    assert health == (200, "")
    assert 'vllm:num_requests_running{engine="1",model_name="emulated"} 0.0' in metrics[1]
    assert 'vllm:kv_cache_usage_perc{engine="1",model_name="emulated"} 0.0' in metrics[1]
    assert 'vllm:generation_tokens_total{engine="1",model_name="emulated"} 3.0' in metrics[1]


def test_errors_are_error_objects_with_their_status():
    async def scenario(bench):
        return [
            await bench.post("decode-0", prompt=PROMPT, model="other"),
            await bench.post("decode-0", prompt=PROMPT, stream_options={}),
            await bench.post("decode-0", prompt=PROMPT, max_tokens=200_000),
        ]

    answers = on_bench(scenario)
    assert [status for status, _, _ in answers] == [404, 400, 400]
    assert answers[0][2]["error"]["type"] == "NotFoundError"
    assert all(document["error"]["message"] for _, _, document in answers)


@pytest.mark.parametrize(
    "head",
    [
        b"X-Request-Id: \xff\xfe",
        b"X-Request-Id: " + b"x" * 600,
        b"X-Data-Parallel-Rank: \xff",
        b"X-Data-Parallel-Rank: " + b"9" * 5000,
        b"X-Emulator-Output-Tokens: \xff",
        b"X-Emulator-Output-Tokens: " + b"9" * 5000,
    ],
)
def test_headers_that_are_no_text_or_number_are_a_400(head, caplog):
    async def scenario(bench):
        port = bench.emulator.endpoints["decode-0"].port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"prompt": "x", "max_tokens": 2}'
        length = b"Content-Length: %d" % len(body)
        lines = (b"POST /v1/completions HTTP/1.1", b"Host: x", head, length, b"", body)
        writer.write(b"\r\n".join(lines))
        answer = await reader.readuntil(b"}}")
        writer.close()
        await writer.wait_closed()
        return answer

    answer = on_bench(scenario)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"type":"BadRequestError"' in answer
    assert not caplog.records


def test_a_key_is_required_where_one_is_set():
    async def scenario(bench):
        async def ask(**headers):
            return (await bench.post("decode-0", prompt=PROMPT, headers=headers))[0]

        models, _ = await bench.get("decode-0", "/v1/models")
        health, _ = await bench.get("decode-0", "/health")
        wrong = [await ask(), await ask(Authorization="Bearer None")]
        return models, health, wrong, await ask(Authorization="Bearer secret")

    assert on_bench(scenario, api_key="secret") == (401, 200, [401, 401], 200)


# -- ranks and request ids -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_endpoint", "server", "rank", "status"),
    [
        (1, "decode-3", "3", 200),
        (1, "decode-3", "0", 400),
        (2, "decode-1", "2", 200),
        (2, "decode-1", "1", 400),
        (2, "decode-0", "2", 400),
        (4, "decode-0", "3", 200),
        (4, "decode-0", "4", 400),
        (4, "decode-0", "-1", 400),
        (4, "decode-0", "+1", 400),
        (4, "decode-0", "one", 400),
        (4, "decode-0", None, 200),
    ],
)
def test_the_rank_header_is_global_and_others_ranks_are_refused(per_endpoint, server, rank, status):
    async def scenario(bench):
        headers = {OUT: "3"} | ({} if rank is None else {"X-data-parallel-rank": rank})
        answer = await bench.post(server, prompt=PROMPT, headers=headers)
        _, metrics = await bench.get(server, "/metrics")
        return answer[0], metrics

    answered, metrics = on_bench(
        scenario, shape=ClusterShape(4, 4), ranks_per_endpoint=per_endpoint
    )
    assert answered == status
    if rank is not None and status == 200:
        line = f'vllm:generation_tokens_total{{engine="{rank}",model_name="emulated"}} 3.0'
        assert line in metrics


def test_a_request_id_is_refused_while_it_runs_and_free_afterwards():
    async def scenario(bench):
        headers = {"X-Request-Id": "mine", OUT: "5000"}
        body = {"prompt": PROMPT, "max_tokens": 5000, "stream": True}
        answer = await bench.client.post(bench.url("decode-0", TEXT), json=body, headers=headers)
        again, _, refusal = await bench.post("decode-1", headers=headers, **body)
        answer.close()
        await bench.until(lambda truth: not truth["requests"])
        later = await bench.post("decode-1", prompt=PROMPT, headers={**headers, OUT: "2"})
        return again, refusal["error"]["message"], later

    again, message, later = on_bench(scenario)
    assert (again, later[0]) == (400, 200)
    assert "mine already running" in message
    assert later[1]["X-Request-Id"] == "mine"
    assert later[2]["id"] == "cmpl-mine"


# -- prefill, leases, and KV that is gone ----------------------------------------------------------


@pytest.mark.parametrize("connector", ["nixl", "mooncake-ascend"])
def test_prefilled_kv_is_pinned_until_decode_takes_it_once(connector):
    async def scenario(bench):
        prefilled = await bench.prefill(headers={"X-Request-Id": "r1"})
        pinned = await bench.truth()
        body = {"prompt": PROMPT, "kv_transfer_params": prefilled["kv_transfer_params"]}
        first = await bench.post("decode-1", **body)
        taken = await bench.truth()
        second = await bench.post("decode-0", **body)
        return prefilled, pinned, first, taken, second, await bench.truth()

    prefilled, pinned, first, taken, second, after = on_bench(scenario, connector=connector)
    assert prefilled["usage"]["prompt_tokens"] == PROMPT_TOKENS
    assert prefilled["usage"]["completion_tokens"] == 1
    assert prefilled["kv_transfer_params"]["remote_request_id"] == "r1"
    assert pinned["prefill"][0]["pinned_tokens"] == PROMPT_TOKENS
    assert taken["prefill"][0]["pinned_tokens"] == 0
    assert taken["kv"] == {"claimed": 1}
    assert after["kv"] == {"claimed": 1, "used": 1, "recomputed": 1, "recomputed_tokens": 9}
    assert first[0] == second[0] == 200
    assert first[2]["choices"][0]["text"] == second[2]["choices"][0]["text"]


def gone_used(bench, prefilled):
    return bench.post("decode-1", prompt=PROMPT, kv_transfer_params=prefilled)


async def gone_expired(bench, prefilled):
    await asyncio.sleep(0.15)


async def gone_with_its_server(bench, prefilled):
    await bench.emulator.kill("prefill-0")


async def foreign(bench, prefilled):
    prefilled["remote_block_ids"] = [*prefilled["remote_block_ids"], 7]


@pytest.mark.parametrize(
    ("way", "verdict"),
    [
        (gone_used, "used"),
        (gone_expired, "expired"),
        (gone_with_its_server, "foreign"),
        (foreign, "foreign"),
    ],
)
@pytest.mark.parametrize("on_lost_kv", ["recompute", "fail"])
def test_kv_that_is_gone_is_recomputed_silently_or_an_error(way, verdict, on_lost_kv):
    async def scenario(bench):
        params = (await bench.prefill())["kv_transfer_params"]
        await way(bench, params)
        body = {"prompt": PROMPT, "kv_transfer_params": params}
        status, _, document = await bench.post("decode-0", **body)
        stream = await bench.stream("decode-0", **body)
        return status, document, stream, await bench.truth()

    lease_s = 0.1 if way is gone_expired else None
    status, document, stream, truth = on_bench(scenario, on_lost_kv=on_lost_kv, lease_s=lease_s)
    assert truth["kv"][verdict] == 2
    assert stream.status == 200
    assert stream.done
    if on_lost_kv == "recompute":
        assert status == 200
        assert truth["kv"]["recomputed"] == 2
        assert stream.text == document["choices"][0]["text"]
    else:
        assert status == 500
        assert "recomputed" not in truth["kv"]
        assert [list(d) for d in stream.documents] == [["error"]]


def test_a_lease_can_end_while_the_request_waits_for_a_slot():
    async def scenario(bench):
        params = (await bench.prefill())["kv_transfer_params"]
        long = asyncio.create_task(
            bench.post("decode-0", prompt="long", max_tokens=250, headers={OUT: "250"})
        )
        await bench.until(lambda truth: truth["active"][0] == 1)
        await bench.post("decode-0", prompt=PROMPT, kv_transfer_params=params)
        await long
        return (await bench.truth())["kv"]

    kv = on_bench(scenario, shape=ClusterShape(2, 1), lease_s=0.1)
    assert (kv["expired"], kv.get("claimed", 0)) == (1, 0)


def test_upstream_mooncake_is_found_by_its_bootstrap_server():
    async def scenario(bench):
        server = bench.emulator.addresses()["prefill"][0]
        async with bench.client.get(server["bootstrap"] + "/query") as answer:
            engine_id = (await answer.json())["0"]["engine_id"]
        asked = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "xfer-1"}
        prefilled = await bench.prefill(kv_transfer_params=asked)
        given = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "transfer_id": "xfer-1",
            "remote_engine_id": engine_id,
            "remote_bootstrap_addr": server["bootstrap"],
        }
        status, _, _ = await bench.post("decode-0", prompt=PROMPT, kv_transfer_params=given)
        return prefilled["kv_transfer_params"], status, (await bench.truth())["kv"]

    assert on_bench(scenario, connector="mooncake") == (None, 200, {"claimed": 1})


def test_cached_tokens_are_the_prefill_servers_and_decode_says_something_else():
    async def scenario(bench):
        prompt = "x" * 400
        first = await bench.prefill(prompt=prompt)
        second = await bench.prefill(prompt=prompt)
        _, _, decoded = await bench.post(
            "decode-0", prompt=prompt, kv_transfer_params=second["kv_transfer_params"]
        )
        return [
            document["usage"]["prompt_tokens_details"]["cached_tokens"]
            for document in (first, second, decoded)
        ]

    # 100 tokens: the last one is always computed, of the other 99 six blocks of 16 are cached.
    assert on_bench(scenario) == [0, 96, 100]


def test_a_full_prefill_server_waits_until_kv_is_freed():
    async def scenario(bench):
        headers = {"x-emulator-prompt-tokens": "70"}
        await bench.prefill(headers=headers)
        waiting = asyncio.create_task(bench.prefill(headers=headers))
        _, metrics = await bench.get("prefill-0", "/metrics")
        await waiting
        return metrics, await bench.truth()

    metrics, truth = on_bench(scenario, prefill_kv_capacity=100, lease_s=0.2)
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="emulated"} 0.7' in metrics
    # The second one could only be pinned because the first one's lease had ended.
    assert truth["leases"] == {"pinned": 2, "stranded": 1}


def test_a_prompt_that_never_fits_is_refused_on_either_side():
    async def scenario(bench):
        headers = {"x-emulator-prompt-tokens": "200", OUT: "2"}
        return [
            (await bench.post(server, prompt=PROMPT, headers=headers))[0]
            for server in ("prefill-0", "decode-0")
        ]

    answers = on_bench(scenario, prefill_kv_capacity=100, shape=ClusterShape(2, 1, 201))
    assert answers == [400, 400]


def test_prefills_take_their_turn_at_the_token_rate():
    async def scenario(bench):
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.gather(
            *(
                bench.prefill(headers={"x-emulator-prompt-tokens": "50000"}, prompt=f"p{i}")
                for i in range(3)
            )
        )
        return loop.time() - start

    # Three times 50,000 tokens at 10^6 tokens/s, one after the other.
    assert on_bench(scenario, max_model_len=10**6) >= 0.15


# -- the truth -------------------------------------------------------------------------------------


def test_the_truth_is_what_clients_received_once_they_have_it_all():
    async def scenario(bench):
        streams = [
            asyncio.create_task(
                bench.stream(
                    f"decode-{i % 2}", prompt=PROMPT, max_tokens=400, headers={OUT: str(300 + i)}
                )
            )
            for i in range(6)
        ]
        truth = await bench.until(lambda truth: sum(truth["active"]) == 6)
        await asyncio.gather(*streams)
        return truth, await bench.truth()

    truth, after = on_bench(scenario)
    weights = [0, 0]
    for row in truth["requests"]:
        weights[row["rank"]] += row["prompt_tokens"] + row["age"]
    assert truth["loads"] == weights
    assert truth["peak"] == max(weights)
    assert truth["imbalance"] == 2 * max(weights) - sum(weights)
    assert after["loads"] == [0, 0]
    assert after["decoded_tokens"] == sum(300 + i for i in range(6))
    # Conservation: each request adds o*s + o*(o - 1)/2 token-steps wherever it runs.
    assert after["sum_load"] == sum(
        o * PROMPT_TOKENS + o * (o - 1) // 2 for o in (300 + i for i in range(6))
    )
    assert after["imbalance_total"] == 2 * after["sum_peak"] - after["sum_load"]


def test_a_client_that_leaves_frees_its_place_at_once():
    async def scenario(bench):
        url = bench.url("decode-0", TEXT)
        body = {"prompt": PROMPT, "stream": True, "max_tokens": 900}
        answer = await bench.client.post(url, json=body, headers={OUT: "900"})
        await answer.content.readany()
        queued = asyncio.create_task(bench.post("decode-0", prompt="next", headers={OUT: "2"}))
        await bench.until(lambda truth: truth["waiting"][0] == 1)
        answer.close()
        status, _, _ = await queued
        return status, await bench.truth()

    status, truth = on_bench(scenario, shape=ClusterShape(2, 1))
    assert status == 200
    assert truth["cancelled"] == 1
    assert truth["decoded_tokens"] < 900


def test_a_client_that_leaves_while_it_waits_leaves_the_queue():
    async def scenario(bench):
        long = asyncio.create_task(
            bench.post("decode-0", prompt="long", max_tokens=400, headers={OUT: "400"})
        )
        await bench.until(lambda truth: truth["active"][0] == 1)
        gone = asyncio.create_task(bench.post("decode-0", prompt=PROMPT))
        await bench.until(lambda truth: truth["waiting"][0] == 1)
        gone.cancel()
        await bench.until(lambda truth: truth["waiting"][0] == 0 and truth["active"][0] == 1)
        return (await long)[0]

    assert on_bench(scenario, shape=ClusterShape(2, 1)) == 200


def test_the_barrier_slows_every_rank_by_the_heaviest_one():
    async def scenario(bench):
        loop = asyncio.get_running_loop()
        start = loop.time()
        headers = {OUT: "200", "x-emulator-prompt-tokens": "2000"}
        heavy = asyncio.create_task(
            bench.post("decode-1", prompt="y", max_tokens=200, headers=headers)
        )
        await bench.until(lambda truth: truth["active"][1] == 1)
        await bench.post("decode-0", prompt="x", headers={OUT: "10"})
        await heavy
        return loop.time() - start, await bench.truth()

    elapsed, truth = on_bench(scenario, step_time=StepTime(a0=1e-6, b0=0.001))
    # The light one's ten steps were ten of the heavy one's, whose loads are 2000 .. 2199.
    assert (truth["steps"], truth["sum_peak"]) == (200, 200 * 2000 + 199 * 200 // 2)
    assert elapsed >= 0.001 * truth["steps"] + 1e-6 * truth["sum_peak"]


def test_what_was_received_can_be_asked_for():
    async def scenario(bench):
        headers = {"Authorization": "Bearer abc", "X-Request-Id": "seen"}
        await bench.post("decode-0", prompt=PROMPT, headers=headers, whatever=1)
        return json.loads((await bench.get("admin", "/emulator/received"))[1])

    (received,) = on_bench(scenario)
    assert (received["endpoint"], received["path"]) == ("decode-0", TEXT)
    assert received["headers"]["authorization"] == "Bearer abc"
    assert json.loads(received["body"])["whatever"] == 1
