"""What vLLM does that no protocol says, played by small engines; seen on vLLM 0.32.0."""

import asyncio
import json
import re
from typing import Any

import pytest
from aiohttp import web

from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.emulator import Emulator
from brtheory.emulator.faults import FaultRule
from brtheory.errors import InputError
from brtheory.proxy.check import check_workers
from brtheory.proxy.config import load_settings
from brtheory.proxy.fleet import decode_replicas
from brtheory.proxy.serving import start
from brtheory.simulation.workload import ClusterShape
from tests.unit.proxy.engines import (
    Behaviour,
    Engine,
    asynchronous,
    event,
    open_stream,
    raw_stream,
    stack,
    until,
)
from tests.unit.proxy.test_with_emulator import FAST, emulated, settings_for

DONE = b"data: [DONE]\n\n"
LOST = {"message": "Internal server error", "type": "InternalServerError", "code": 500}
PRINT = "vllm-0.32.0-f9cf57b2"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]


def role_chunk(body: dict[str, Any]) -> dict[str, Any]:
    """What opens a chat: a role and no token."""
    document = {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    if (body.get("stream_options") or {}).get("continuous_usage_stats"):
        document["usage"] = {"prompt_tokens": 5, "completion_tokens": 0}
    return document


async def lose(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Open the answer, then find that the prompt's KV could not be fetched."""
    response = await open_stream(request)
    await response.write(event(role_chunk(body)))
    await asyncio.sleep(0.01)
    await response.write(event({"error": LOST}) + DONE)
    await response.write_eof()
    return response


@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_a_request_whose_kv_is_lost_behind_its_role_is_prefilled_again(stream: bool) -> None:
    """The client sees one answer, and decode gets KV parameters of a second prefill."""
    async with stack() as s:
        s.decodes[0].script = [lose]
        status, _, text = await s.generate("chat/completions", stream=stream, **CHAT)
        assert status == 200
        assert "error" not in text
        assert text.count("t1 ") == 1
        assert len(s.prefills[0].seen) == 2
        assert await s.metric("brtheory_retries_total") == 1


@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_a_request_that_is_lost_twice_gets_the_engines_error_with_its_status(
    stream: bool,
) -> None:
    async with stack() as s:
        s.decodes[0].behave = lose
        status, _, text = await s.generate("chat/completions", stream=stream, **CHAT)
        assert (status, json.loads(text)) == (500, {"error": LOST})
        assert len(s.decodes[0].seen) == 2


def named(body: dict[str, Any]) -> list[bytes]:
    """Two tokens; the configuration's name is in the last chunk, whichever that is."""
    options = body.get("stream_options") or {}
    first = {"id": "c", "choices": [{"index": 0, "text": "a", "finish_reason": None}]}
    last: dict[str, Any] = {
        "id": "c",
        "choices": [{"index": 0, "text": "b", "finish_reason": "length"}],
    }
    if options.get("continuous_usage_stats"):
        first["usage"] = {"prompt_tokens": 5, "completion_tokens": 1}
        last["usage"] = {"prompt_tokens": 5, "completion_tokens": 2}
    if not options.get("include_usage"):
        return [event(first), event({**last, "system_fingerprint": PRINT}), DONE]
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    final = {"id": "c", "choices": [], "usage": usage, "system_fingerprint": PRINT}
    return [event(first), event(last), event(final), DONE]


def naming(*, until_part: int | None = None) -> Behaviour:
    """Send ``named``, or only its first parts."""

    async def behave(
        engine: Engine, request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse:
        return await raw_stream(*named(body)[:until_part])(engine, request, body)

    return behave


@pytest.mark.parametrize("options", [None, {"include_usage": True}])
@asynchronous
async def test_the_name_of_the_configuration_is_where_the_client_would_find_it(
    options: dict[str, bool] | None,
) -> None:
    async with stack(connector="none", decode_behaviour=naming()) as s:
        asked = {} if options is None else {"stream_options": options}
        _, _, text = await s.generate(stream=True, **asked)
        assert text.encode() == b"".join(named(asked))


@asynchronous
async def test_a_last_chunk_is_not_lost_with_the_stream_that_breaks_behind_it() -> None:
    async with stack(connector="none", decode_behaviour=naming(until_part=2)) as s:
        _, _, text = await s.generate(stream=True)
        parts = text.split("\n\n")
        assert json.loads(parts[1][6:])["choices"][0]["finish_reason"] == "length"
        assert "error" in json.loads(parts[2][6:])
        assert parts[3] == "data: [DONE]"


@asynchronous
async def test_answers_with_tools_come_whole_since_streams_have_another_parser() -> None:
    async with stack() as s:
        await s.generate("chat/completions", tools=TOOLS, **CHAT)
        await s.generate("chat/completions", tools=TOOLS, tool_choice="none", **CHAT)
        await s.generate("chat/completions", tools=TOOLS, stream=True, **CHAT)
        assert [seen.body["stream"] for seen in s.decodes[0].seen] == [False, True, True]


@pytest.mark.parametrize(
    ("path", "fields", "whole"),
    [
        ("completions", {"echo": True, "logprobs": 1}, True),
        ("completions", {"echo": True, "logprobs": 0}, True),
        ("completions", {"echo": True}, False),
        ("completions", {"logprobs": 1}, False),
        ("completions", {"prompt_logprobs": 0}, True),
        ("chat/completions", {"echo": True, **CHAT}, True),
        ("chat/completions", {"logprobs": True, **CHAT}, False),
    ],
)
@asynchronous
async def test_log_probabilities_of_prompts_come_whole_since_streams_lack_them(
    path: str, fields: dict[str, Any], whole: bool
) -> None:
    """With ``echo`` and ``logprobs``, vLLM 0.32.0 has ``prompt_logprobs`` in whole answers only."""
    async with stack() as s:
        await s.generate(path, **fields)
        assert [seen.body["stream"] for seen in s.decodes[0].seen] == [not whole]


@asynchronous
async def test_a_whole_answer_with_tools_tells_the_tokens_cached_by_prefill() -> None:
    async def whole(engine: Engine, request: web.Request, body: dict[str, Any]) -> web.Response:
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}
        hidden = {"kv_transfer_params": {"remote_host": "h"}, "ec_transfer_params": {"x": 1}}
        return web.json_response({"id": "c", "choices": [], "usage": usage, **hidden})

    async with stack(decode_behaviour=whole) as s:
        _, _, text = await s.generate("chat/completions", tools=TOOLS, **CHAT)
        # The engines' prefill answers tell 7 cached tokens.
        usage = {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 7},
        }
        assert json.loads(text) == {"id": "c", "choices": [], "usage": usage}


@asynchronous
async def test_where_engines_preempt_answers_with_tools_are_assembled() -> None:
    """Only a stream tells that a request was preempted."""
    async with stack(connector="mooncake-ascend") as s:
        await s.generate("chat/completions", tools=TOOLS, **CHAT)
        assert s.decodes[0].seen[0].body["stream"] is True


@asynchronous
async def test_clients_cannot_name_encoder_blocks() -> None:
    async with stack() as s:
        status, _, text = await s.generate(ec_transfer_params={"remote_host": "elsewhere"})
        assert (status, json.loads(text)["error"]["param"]) == (400, "ec_transfer_params")
        assert s.prefills[0].seen == []


@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_token_ids_nobody_asked_for_are_taken_out_of_completions_too(stream: bool) -> None:
    """vLLM writes the prompt's ids into a completion's choice, not beside its choices."""

    async def with_ids(
        engine: Engine, request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse:
        assert body["return_token_ids"]
        choice = {"index": 0, "text": "a", "token_ids": [3], "prompt_token_ids": [1, 2]}
        return await raw_stream(event({"id": "c", "choices": [choice]}), DONE)(
            engine, request, body
        )

    async with stack("upstream.token_ids=true", connector="none", decode_behaviour=with_ids) as s:
        _, _, text = await s.generate(stream=stream)
        assert '"a"' in text
        assert "token_ids" not in text


@asynchronous
async def test_nodes_that_count_their_own_ranks_are_asked_by_their_own_count() -> None:
    """Eight requests on the four ranks of two nodes: each rank decodes."""
    async with emulated(ranks_per_endpoint=2, counts_own_ranks=True) as s:
        body = {"max_tokens": 30, "ignore_eos": True}
        replies = [s.generate(prompt=f"word {number}", **body) for number in range(8)]
        assert [status for status, _, _ in await asyncio.gather(*replies)] == [200] * 8
        decoded = [book.decoded for book in s.running.proxy.desk.mirror.replicas.values()]
        assert min(decoded) > 0
        assert sum(decoded) == 8 * 30


@asynchronous
async def test_a_node_that_counts_its_own_ranks_is_not_used_until_the_proxy_is_told() -> None:
    config = EmulatorConfig(
        shape=ClusterShape(4, 8), ranks_per_endpoint=2, counts_own_ranks=True, prefill_speed=FAST
    )
    async with Emulator(config) as emulator:
        flags = [re.sub(r", first_rank = \d+", "", flag) for flag in settings_for(emulator)]
        settings = load_settings(None, environment={}, flags=flags)
        findings = await check_workers(settings)
    faults = {finding.worker: finding.fault for finding in findings if finding.fault is not None}
    assert set(faults) == {"decode-1/2", "decode-1/3"}
    assert all("set first_rank" in fault for fault in faults.values())


@asynchronous
async def test_a_node_slow_to_prove_its_ranks_keeps_no_other_from_being_probed() -> None:
    """A first token of vLLM can take half a minute; a node that dies meanwhile is noticed."""
    slow = FaultRule(kind="slow_start", endpoint="decode-1", times=None, delay_s=60)
    config = EmulatorConfig(
        shape=ClusterShape(4, 8), ranks_per_endpoint=2, prefill_speed=FAST, faults=(slow,)
    )
    async with Emulator(config) as emulator:
        settings = load_settings(None, environment={}, flags=settings_for(emulator))
        running = await start(settings)
        try:
            live = running.proxy.desk.fleet.live
            await until(lambda: len(live("decode")) == 2)
            prefills = live("prefill")
            await emulator.kill(prefills[0])
            await until(lambda: live("prefill") == prefills[1:])
            assert live("decode") == ["decode-0/0", "decode-0/1"]
        finally:
            await running.stop(drain_s=1.0)


@pytest.mark.parametrize(("ranks", "first_rank"), [([3, 4], 4), (None, 4)])
def test_the_first_rank_of_a_node_is_not_above_its_ranks(
    ranks: list[int] | None, first_rank: int
) -> None:
    with pytest.raises(InputError):
        decode_replicas("d", "http://d", ranks=ranks, slots=8, first_rank=first_rank)
