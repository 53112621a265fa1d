"""Answers recorded from a real vLLM node, through the proxy: the client gets what vLLM says.

The node was vLLM 0.32.0; fixtures/vllm-0.32.0.json holds its very bytes.
"""

import json
from pathlib import Path

import pytest
from aiohttp import web

from brtheory.proxy.connectors import PullConnector, Source
from brtheory.proxy.probes import engine_running, kv_usage
from tests.unit.proxy.engines import asynchronous, open_stream, stack

RECORDED = json.loads(
    (Path(__file__).parent / "fixtures" / "vllm-0.32.0.json").read_text(encoding="utf-8")
)


def each(group, argument):
    """One test for each recording of a group."""
    return pytest.mark.parametrize(
        argument, RECORDED[group], ids=[r["name"] for r in RECORDED[group]]
    )


def playing(events):
    """A node that answers with these events, in one write."""

    async def behave(engine, request, body):
        response = await open_stream(request)
        await response.write("".join(event + "\n\n" for event in events).encode())
        await response.write_eof()
        return response

    return behave


async def ask(s, path, **body):
    """Status, and the events or the document."""
    async with s.http.post(s.url + path, json={"model": "tiny", "prompt": "x", **body}) as reply:
        text = await reply.text()
        return reply.status, text[:-2].split("\n\n") if body.get("stream") else json.loads(text)


def documents(events):
    return [json.loads(event[6:]) for event in events if event != "data: [DONE]"]


def unasked(events):
    """What vLLM would have sent without being asked for usage.

    That is the same without usage, and with its fingerprint in the chunk that finishes: so say the
    recordings of streams that did not ask.
    """
    *chunks, final = documents(events)
    for chunk in chunks:
        del chunk["usage"]
    return [*chunks[:-1], {**chunks[-1], "system_fingerprint": final["system_fingerprint"]}]


@each("plain", "plain")
def test_vllm_names_its_configuration_in_the_chunk_that_finishes(plain):
    """The premise of ``unasked``."""
    *before, last = documents(plain["events"])
    assert last["choices"][0]["finish_reason"] is not None
    assert "system_fingerprint" in last
    assert not any("system_fingerprint" in chunk for chunk in before)


@each("streams", "stream")
@asynchronous
async def test_a_stream_is_what_vllm_sends_those_who_ask_for_no_usage(stream):
    async with stack(connector="none", decode_behaviour=playing(stream["counted"])) as s:
        status, events = await ask(s, stream["path"], stream=True, **stream["asked"])
        options = s.decodes[0].seen[0].body["stream_options"]
    assert options == {"include_usage": True, "continuous_usage_stats": True}
    assert (status, events[-1]) == (200, "data: [DONE]")
    assert documents(events) == unasked(stream["counted"])


@each("streams", "stream")
@asynchronous
async def test_a_stream_with_usage_asked_for_is_vllms_own_bytes(stream):
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with stack(connector="none", decode_behaviour=playing(stream["counted"])) as s:
        _, events = await ask(
            s, stream["path"], stream=True, stream_options=options, **stream["asked"]
        )
    assert events == stream["counted"]


@each("plain", "plain")
@asynchronous
async def test_a_stream_without_usage_passes_as_it_is_and_is_counted_by_what_it_has(plain):
    """A node that cannot count while it streams: three tokens each."""
    async with stack(connector="none", decode_behaviour=playing(plain["events"])) as s:
        _, events = await ask(s, plain["path"], stream=True, **plain["asked"])
        sources = {
            source: f'brtheory_token_source_total{{source="{source}"}} 1.0'
            for source in ("token_ids", "chunks")
        }
        metrics = await (await s.http.get(f"{s.url}/metrics")).text()
        decoded = await s.metric("brtheory_decode_tokens_total")
    assert events == plain["events"]
    assert sources["token_ids" if plain["asked"] else "chunks"] in metrics
    assert decoded == 3


@each("streams", "stream")
@asynchronous
async def test_the_load_follows_vllms_own_count_and_needs_no_correction(stream):
    async with stack(connector="none", decode_behaviour=playing(stream["counted"])) as s:
        await ask(s, stream["path"], stream=True, **stream["asked"])
        await ask(s, stream["path"], **stream["asked"])
        assert await s.metric("brtheory_decode_tokens_total") == 2 * 3
        assert await s.metric("brtheory_count_corrections_total") == 0
        metrics = await (await s.http.get(f"{s.url}/metrics")).text()
    assert 'brtheory_token_source_total{source="usage"} 2.0' in metrics


@each("streams", "stream")
@asynchronous
async def test_an_answer_assembled_from_a_stream_says_what_the_stream_says(stream):
    async with stack(connector="none", decode_behaviour=playing(stream["counted"])) as s:
        status, whole = await ask(s, stream["path"], **stream["asked"])
    *chunks, final = documents(stream["counted"])
    choices = [chunk["choices"][0] for chunk in chunks]
    assert status == 200
    assert (whole["usage"], whole["system_fingerprint"]) == (
        final["usage"],
        final["system_fingerprint"],
    )
    told = whole["choices"][0]
    said = "".join(c.get("text") or c.get("delta", {}).get("content") or "" for c in choices)
    assert (told.get("text") or told["message"]["content"]) == said
    assert told["finish_reason"] == choices[-1]["finish_reason"]
    if stream["asked"]:
        ids = [token for c in choices for token in c.get("token_ids") or ()]
        logprobs = [
            entry for c in choices for entry in (c["logprobs"] or {"content": []})["content"]
        ]
        assert (told["token_ids"], told["logprobs"]["content"]) == (ids, logprobs)


@asynchronous
async def test_a_whole_answer_of_vllm_passes_but_for_what_only_routers_use():
    async def whole(engine, request, body):
        return web.Response(text=RECORDED["whole"], content_type="application/json")

    async with stack(connector="none", decode_behaviour=whole) as s:
        _, got = await ask(s, "/v1/chat/completions", prompt_logprobs=1)
    expected = json.loads(RECORDED["whole"])
    del expected["kv_transfer_params"], expected["ec_transfer_params"]
    assert got == expected


@each("errors", "error")
@pytest.mark.parametrize("stream", [True, False])
@asynchronous
async def test_errors_are_vllms_own_whether_they_come_as_a_status_or_in_a_stream(error, stream):
    async def refuse(engine, request, body):
        if body["stream"] and error["stream_status"] == 200:
            return await playing([f"data: {error['answer']}", "data: [DONE]"])(
                engine, request, body
            )
        return web.Response(
            status=error["status"], text=error["answer"], content_type="application/json"
        )

    async with (
        stack(connector="none", decode_behaviour=refuse) as s,
        s.http.post(f"{s.url}/v1/completions", json={"prompt": "x", "stream": stream}) as reply,
    ):
        assert (reply.status, await reply.text()) == (error["status"], error["answer"])


def test_metrics_of_vllm_are_read_by_engine():
    text = "\n".join(RECORDED["metrics"])
    assert engine_running(text) == {0: 0}
    assert kv_usage(text) == 0.0


def test_kv_parameters_of_vllms_prefill_answer_are_passed_on_as_they_are():
    params = json.loads(RECORDED["prefill"])["kv_transfer_params"]
    assert params["do_remote_prefill"] is True
    assert PullConnector().decode_params(params, Source("t")) == params
