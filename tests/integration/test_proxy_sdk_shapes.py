"""Responses in vLLM's own shape through the proxy: bytes untouched, unknown fields kept, both ways.

fixtures/vllm_shapes.json says where the shapes come from.
"""

import json
from pathlib import Path

import openai
import pytest
from aiohttp import web

from tests.unit.proxy.engines import asynchronous, open_stream, stack

SHAPES = json.loads(
    (Path(__file__).parent / "fixtures" / "vllm_shapes.json").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in SHAPES["cases"]}
PROMPT_TOKENS = SHAPES["prompt_tokens"]
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def usage_of(completion_tokens):
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def dump(document):
    return json.dumps(document, separators=(",", ":"))


def stream_of(case, *, include_usage, continuous):
    """The events vLLM sends for a case."""
    texts = []
    for chunk, tokens in zip(case["chunks"], case["usages"], strict=True):
        usage = f',"usage":{dump(usage_of(tokens))}' if continuous else ""
        texts.append(chunk.replace("@usage@", usage))
    if include_usage:
        head = {k: v for k, v in json.loads(texts[0]).items() if k in ("id", "object", "created")}
        texts.append(dump({**head, "choices": [], "usage": usage_of(case["usages"][-1])}))
    return [f"data: {text}\n\n".encode() for text in [*texts, "[DONE]"]]


def engine_for(case, *, cut=None):
    """A decode engine that answers as vLLM would; ``cut`` is the size of what it writes at once."""

    async def behave(engine, request, body):
        if not body["stream"]:
            return web.Response(text=case["whole"], content_type="application/json")
        options = body.get("stream_options") or {}
        data = b"".join(
            stream_of(
                case,
                include_usage=bool(options.get("include_usage")),
                continuous=bool(options.get("continuous_usage_stats")),
            )
        )
        response = await open_stream(request)
        for at in range(0, len(data), cut or len(data)):
            await response.write(data[at : at + (cut or len(data))])
        await response.write_eof()
        return response

    return behave


async def prefill_reply(engine, request, body):
    return web.Response(text=SHAPES["prefill"], content_type="application/json")


def body_of(case, **fields):
    prompt = {"prompt": "Hi"} if case["endpoint"] == "completions" else {"messages": MESSAGES}
    return {"model": "served/model-7b", **prompt, **case["request"], **fields}


MESSAGES = [{"role": "user", "content": "What is two and two?"}]


async def raw_answer(s, case, **fields):
    url = f"{s.url}/v1/{case['endpoint']}"
    async with s.http.post(url, json=body_of(case, **fields)) as reply:
        data = await reply.read()
        assert reply.status == 200, data
        return data


def without_kv(events):
    """KV parameters never reach a client; a chunk that holds them is the one exception."""
    return [event for event in events if b"kv_transfer_params" not in event]


# -- from the engine to the client -----------------------------------------------------------------


@every_case
@pytest.mark.parametrize("cut", [None, 7])
@asynchronous
async def test_chunks_reach_the_client_with_the_very_bytes_the_engine_sent(case, cut):
    """Whatever usage the client asks for: none, at the end, or in every chunk too."""
    async with stack(decode_behaviour=engine_for(case, cut=cut)) as s:
        s.prefills[0].behave = prefill_reply
        for include_usage, continuous in [(False, False), (True, False), (True, True)]:
            asked = {"include_usage": include_usage, "continuous_usage_stats": continuous}
            options = {"stream_options": asked} if include_usage else {}
            got = await raw_answer(s, case, stream=True, **options)
            events = [event + b"\n\n" for event in got.split(b"\n\n")[:-1]]
            wanted = stream_of(case, include_usage=include_usage, continuous=continuous)
            if without_kv(wanted) == wanted:
                assert got == b"".join(wanted)
            assert [event for event in events if event in wanted] == without_kv(wanted)
            assert len(events) == len(wanted)
            assert b"kv_transfer_params" not in got
            assert s.decodes[0].seen[-1].body["stream_options"]["continuous_usage_stats"] is True


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["whole"]])
@asynchronous
async def test_an_answer_put_together_from_a_stream_is_the_one_vllm_would_give(name):
    """Field by field, nulls apart: vLLM's whole responses list fields that a stream leaves out."""
    case = CASES[name]
    async with stack(decode_behaviour=engine_for(case)) as s:
        got, wanted = json.loads(await raw_answer(s, case)), json.loads(case["whole"])
        # What calls tools is asked for whole: vLLM's two parsers disagree on odd calls.
        assert s.decodes[0].seen[-1].body["stream"] is ("tools" not in case["request"])
        # The prefill node's account of cached tokens stands in where one is given.
        got["usage"].pop("prompt_tokens_details", None)
        wanted["usage"].pop("prompt_tokens_details", None)
        assert known(got) == known(wanted)


def known(value):
    """A document without its nulls."""
    if isinstance(value, dict):
        return {key: known(inner) for key, inner in value.items() if inner is not None}
    return [known(inner) for inner in value] if isinstance(value, list) else value


@asynchronous
async def test_prompt_log_probabilities_come_whole_but_for_kv_parameters_and_cached_tokens():
    case = SHAPES["with_prompt_logprobs"]
    whole = case["whole"]
    start = whole.index(',"kv_transfer_params"')
    # The prefill node's account of cached tokens, as it wrote it, stands in for decode's.
    cached = '"prompt_tokens_details":{"cached_tokens": 7}'
    wanted = whole[:start].replace('"prompt_tokens_details":null', cached) + "}"
    async with stack(decode_behaviour=engine_for(case)) as s:
        assert await raw_answer(s, case) == wanted.encode()
        assert s.decodes[0].seen[-1].body["stream"] is False


@pytest.mark.parametrize("kind", ["too long", "no model"])
@pytest.mark.parametrize("leg", ["prefill", "decode"])
@asynchronous
async def test_errors_of_vllm_pass_with_status_and_bytes_and_the_sdk_types_them(kind, leg):
    error = SHAPES["errors"][kind]

    async def refuse(engine, request, body):
        return web.Response(
            status=error["status"], text=error["body"], content_type="application/json"
        )

    async with stack() as s:
        (s.prefills if leg == "prefill" else s.decodes)[0].behave = refuse
        for stream in (False, True):
            status, _, text = await s.generate(stream=stream)
            assert (status, text) == (error["status"], error["body"])
        typed = {400: openai.BadRequestError, 404: openai.NotFoundError}[error["status"]]
        async with sdk(s) as client:
            with pytest.raises(typed) as caught:
                await client.chat.completions.create(model="m", messages=MESSAGES)
            assert caught.value.body == json.loads(error["body"])["error"]
            assert caught.value.request_id


@asynchronous
async def test_an_error_event_of_vllm_is_the_http_error_it_is_if_nothing_came_before():
    event = SHAPES["errors"]["in the stream"]["event"]

    async def fail(engine, request, body):
        response = await open_stream(request)
        await response.write(f"data: {event}\n\ndata: [DONE]\n\n".encode())
        await response.write_eof()
        return response

    async with stack(decode_behaviour=fail) as s, sdk(s) as client:
        with pytest.raises(openai.InternalServerError, match="EngineCore"):
            await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)


# -- from the client to the engine -----------------------------------------------------------------

UNKNOWN = {
    "chat_template_kwargs": {"enable_thinking": False, "nested": {"a": [1, None, True]}},
    "documents": [{"title": "Ü", "text": "\u2028 line \U0001f642"}],
    "guided_json": {"type": "object", "properties": {"x": {"type": "number"}}},
    "structured_outputs": {"regex": "[a-z]+\\d{3}"},
    "vllm_xargs": {"a_plugin": "x", "n": 3},
    "service_tier": "flex",
    "logit_bias": {"15496": -100.0},
    "seed": 9223372036854775807,
    "a_field_of_tomorrow": {"big": 18446744073709551616, "small": 1e-300, "tenth": 0.1, "e": ""},
    "metadata": {},
    "stop_token_ids": [],
    "priority": 0,
    "bad_words": ["<|x|>"],
}


@pytest.mark.parametrize("stream", [False, True])
@asynchronous
async def test_fields_the_proxy_does_not_know_reach_both_legs_as_they_are(stream):
    async with stack() as s:
        status, _, _ = await s.generate(
            path="chat/completions", messages=MESSAGES, stream=stream, max_tokens=5, **UNKNOWN
        )
        assert status == 200
        for engine in (s.prefills[0], s.decodes[0]):
            body = engine.seen[-1].body
            assert {name: body[name] for name in UNKNOWN} == UNKNOWN
            assert body["messages"] == MESSAGES
        assert s.decodes[0].seen[-1].body["max_tokens"] == 5


@asynchronous
async def test_kv_parameters_of_vllm_go_from_prefill_to_decode_verbatim():
    async with stack() as s:
        s.prefills[0].behave = prefill_reply
        assert (await s.generate())[0] == 200
        wanted = json.loads(SHAPES["prefill"])["kv_transfer_params"]
        assert s.decodes[0].seen[-1].body["kv_transfer_params"] == wanted


# -- what the SDK makes of it ----------------------------------------------------------------------


def sdk(s, **options):
    given = {"base_url": f"{s.url}/v1", "api_key": "x", "max_retries": 0, **options}
    return openai.AsyncOpenAI(**given)


@every_case
@asynchronous
async def test_the_sdk_reads_every_shape_and_shows_what_it_does_not_know(case):
    """The SDK's own accumulation of the stream says what the engine said."""
    async with stack(decode_behaviour=engine_for(case)) as s, sdk(s) as client:
        known_names = {"stop", "tools", "tool_choice", "parallel_tool_calls", "logprobs"}
        known_names |= {"top_logprobs", "reasoning_effort"}
        request = case["request"]
        create = (
            client.completions if case["endpoint"] == "completions" else client.chat.completions
        ).create
        stream = await create(
            **{name: value for name, value in body_of(case).items() if name not in request},
            **{name: value for name, value in request.items() if name in known_names},
            extra_body={n: value for n, value in request.items() if n not in known_names},
            stream=True,
        )
        chunks = [chunk async for chunk in stream]
        sent = [json.loads(text.replace("@usage@", "")) for text in case["chunks"]]
        assert len(chunks) == len(sent)
        for chunk, document in zip(chunks, sent, strict=True):
            document.pop("kv_transfer_params", None)
            assert known(json.loads(chunk.to_json())) == known(document)
        assert all(chunk.usage is None for chunk in chunks)
