"""The proxy as clients use it: the real openai SDK, and curl, on the emulated decode group."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager

import openai
import pytest

from brtheory.emulator.faults import FaultRule
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.unit.proxy.desk import books_are_empty
from tests.unit.proxy.engines import asynchronous, until
from tests.unit.proxy.test_with_emulator import emulated, nothing_is_left

MESSAGES = [{"role": "user", "content": "a prompt of more than sixteen bytes"}]
SIX = {"model": "emulated", "max_tokens": 6, "extra_body": {"ignore_eos": True}}
CHAT = {"messages": MESSAGES, **SIX}
TEXT = {"prompt": "tell me something long", **SIX}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}


@asynccontextmanager
async def served(*flags, **config):
    """An emulated group, the proxy before it, and an asynchronous client of the SDK."""
    async with emulated(*flags, **config) as s:
        async with openai.AsyncOpenAI(**options(s)) as client:
            yield s, client
        await nothing_is_left(s)


def options(s, **changes):
    return {"base_url": f"{s.url}/v1", "api_key": "a-key", "max_retries": 0, **changes}


def fault(s, kind, **rule):
    s.emulator.deployment.faults.add(FaultRule(kind=kind, **rule))


# -- answers ---------------------------------------------------------------------------------------


@asynchronous
async def test_the_asynchronous_sdk_reads_a_chat_and_its_stream():
    async with served() as (_, client):
        whole = await client.chat.completions.create(**CHAT)
        stream = await client.chat.completions.create(**CHAT, stream=True)
        chunks = [chunk async for chunk in stream]
    content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert content == whole.choices[0].message.content != ""
    assert whole.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 6
    assert whole._request_id


@asynchronous
async def test_the_synchronous_sdk_reads_models_texts_and_streams():
    def ask(given):
        with openai.OpenAI(**given) as client:
            models = [model.id for model in client.models.list()]
            text = client.completions.create(**TEXT).choices[0].text
            with client.completions.create(**TEXT, stream=True) as stream:
                streamed = "".join(chunk.choices[0].text for chunk in stream)
            raw = client.chat.completions.with_raw_response.create(**CHAT)
            return models, text, streamed, raw.headers

    async with served() as (s, _):
        models, text, streamed, headers = await asyncio.to_thread(ask, options(s))
    assert models == ["emulated"]
    assert text == streamed != ""
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]


@pytest.mark.parametrize("asked", [None, {"include_usage": True}, {"include_usage": False}])
@asynchronous
async def test_usage_in_a_stream_is_there_if_asked_for_and_only_then(asked):
    async with served() as (_, client):
        extra = {} if asked is None else {"stream_options": asked}
        stream = await client.chat.completions.create(**CHAT, stream=True, **extra)
        chunks = [chunk async for chunk in stream]
        whole = await client.chat.completions.create(**CHAT)
    if asked == {"include_usage": True}:
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == 6
        assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
        chunks.pop()
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


@asynchronous
async def test_a_forced_tool_is_called_whole_and_in_pieces():
    async with served() as (_, client):
        given = {**CHAT, "max_tokens": 200, "tools": [TOOL], "extra_body": {}}
        whole = await client.chat.completions.create(**given, tool_choice="required")
        forced = {"type": "function", "function": {"name": "look"}}
        async with client.chat.completions.stream(**given, tool_choice=forced) as stream:
            final = await stream.get_final_completion()
    (called,) = whole.choices[0].message.tool_calls
    (streamed,) = final.choices[0].message.tool_calls
    assert called.function.name == streamed.function.name == "look"
    assert json.loads(called.function.arguments) == json.loads(streamed.function.arguments)
    assert whole.choices[0].finish_reason == final.choices[0].finish_reason == "tool_calls"
    assert whole.choices[0].message.content is None


@asynchronous
async def test_log_probabilities_are_there_for_every_token():
    async with served() as (_, client):
        asked = {**CHAT, "logprobs": True, "top_logprobs": 2}
        whole = (await client.chat.completions.create(**asked)).choices[0]
        stream = await client.chat.completions.create(**asked, stream=True)
        parts = [chunk.choices[0] async for chunk in stream]
        text = (await client.completions.create(**TEXT, logprobs=2)).choices[0]
    entries = whole.logprobs.content
    assert "".join(entry.token for entry in entries) == whole.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in entries)
    streamed = [entry for part in parts if part.logprobs for entry in part.logprobs.content or []]
    assert streamed == entries
    assert "".join(text.logprobs.tokens) == text.text
    assert len(text.logprobs.token_logprobs) == 6


# -- errors the SDK types --------------------------------------------------------------------------


@asynchronous
async def test_what_is_refused_is_a_bad_request_that_names_the_field():
    async with served() as (_, client):
        for changes, param in [
            ({"n": 2}, "n"),
            ({"extra_body": {"kv_transfer_params": {"x": 1}}}, "kv_transfer_params"),
            ({"extra_body": {"stream": "yes"}}, "stream"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
            ({"max_tokens": -1}, "max_tokens"),
        ]:
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(**{**CHAT, **changes})
            assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
        with pytest.raises(openai.BadRequestError, match="one choice a request"):
            await client.completions.create(**{**TEXT, "prompt": ["one", "two"]})
        # The engine's own refusals keep the engine's own words.
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**{**CHAT, "max_tokens": 10**9})
        assert caught.value.type == "BadRequestError"
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(**{**CHAT, "model": "other"})
        assert caught.value.param == "model"
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model="emulated", input="x")


@asynchronous
async def test_keys_are_authentication_errors():
    async with emulated('server.api_keys=["good"]') as s:
        for key, fine in [("good", True), ("bad", False)]:
            async with openai.AsyncOpenAI(**options(s, api_key=key)) as client:
                if fine:
                    assert (await client.chat.completions.create(**CHAT)).choices
                    continue
                for call in (client.models.list(), client.chat.completions.create(**CHAT)):
                    with pytest.raises(openai.AuthenticationError) as caught:
                        await call
                    assert caught.value.code == "invalid_api_key"


@asynchronous
async def test_an_engine_that_wants_the_clients_key_gets_it():
    async with emulated("upstream.check_ranks=false", api_key="engine-key") as s:
        async with openai.AsyncOpenAI(**options(s, api_key="engine-key")) as client:
            assert (await client.chat.completions.create(**CHAT)).choices
        async with openai.AsyncOpenAI(**options(s, api_key="other")) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(**CHAT)


@asynchronous
async def test_a_full_line_is_a_rate_limit_with_a_time_to_wait_and_the_sdk_retries_by_it():
    """One decodes, one is pooled, one stands in line, and the next is refused."""
    flags = ("pool.requests=1", "pool.queue=1")
    shape, step = ClusterShape(1, 1, 1_000_000), StepTime(a0=0, b0=0.02)
    async with served(*flags, shape=shape, step_time=step) as (s, client):
        desk, busy = s.running.proxy.desk, []
        for is_there in (
            lambda: sum(s.truth["active"]) == 1,
            lambda: len(desk.pool) == 1,
            lambda: len(desk.gate) == 1,
        ):
            busy.append(asyncio.create_task(client.completions.create(**TEXT | {"max_tokens": 50})))
            await until(is_there)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.completions.create(**TEXT)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.code == "queue_full"
        patient = client.with_options(max_retries=8)
        assert (await patient.completions.create(**TEXT)).choices
        await asyncio.gather(*busy)


@pytest.mark.parametrize("role", ["prefill", "decode"])
@asynchronous
async def test_an_upstream_that_resets_all_connections_is_a_server_error_without_addresses(role):
    async with served("pool.queue_s=0.5") as (s, client):
        fault(s, "reset", role=role, times=None)
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as caught:
                await client.chat.completions.create(**CHAT, stream=stream)
            assert caught.value.status_code in (502, 503)
            assert "127.0.0.1" not in str(caught.value)
            assert caught.value.request_id
        await until(lambda: books_are_empty(s.running.proxy.desk))


@asynchronous
async def test_a_dead_proxy_is_a_connection_error():
    async with emulated() as s:
        pass
    async with openai.AsyncOpenAI(**options(s)) as client:
        with pytest.raises(openai.APIConnectionError):
            await client.chat.completions.create(**CHAT)


@pytest.mark.parametrize("kind", ["death", "truncate", "error_event"])
@asynchronous
async def test_a_stream_that_breaks_raises_in_the_sdk_after_what_came(kind):
    async with served() as (s, client):
        fault(s, kind, role="decode", after_tokens=3)
        stream = await client.completions.create(**TEXT, stream=True)
        seen = []

        async def read():
            async for chunk in stream:
                seen.append(chunk.choices[0].text)  # noqa: PERF401  # kept when it raises

        with pytest.raises(openai.APIError):
            await read()
        assert "".join(seen) != ""
        # The next request is served as if nothing had been.
        assert (await client.completions.create(**TEXT)).usage.completion_tokens == 6


# -- leaving ---------------------------------------------------------------------------------------


@asynchronous
async def test_closing_a_stream_frees_its_slot_at_once():
    async with served(step_time=StepTime(a0=0, b0=0.02)) as (s, client):
        endless = TEXT | {"max_tokens": 100_000}
        stream = await client.completions.create(**endless, stream=True)
        await anext(aiter(stream))
        assert sum(s.truth["active"]) == 1
        await stream.close()
        await until(lambda: sum(s.truth["active"]) == 0)
        await until(lambda: books_are_empty(s.running.proxy.desk))
        assert s.truth["cancelled"] == 1


@pytest.mark.parametrize("stream", [False, True])
@asynchronous
async def test_a_client_that_times_out_leaves_nothing_behind(stream):
    async with served(shape=ClusterShape(1, 1, 1_000_000)) as (s, client):
        impatient = client.with_options(timeout=0.3)
        endless = TEXT | {"max_tokens": 100_000}
        blocker = await client.completions.create(**endless, stream=True)
        await anext(aiter(blocker))
        # It waits in the pool; its slot is taken.
        with pytest.raises(openai.APITimeoutError):
            await impatient.completions.create(**endless, stream=stream)
        await until(lambda: len(s.running.proxy.desk.pool) == 0)
        await blocker.close()


# -- curl ------------------------------------------------------------------------------------------

CURL = shutil.which("curl")


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
@asynchronous
async def test_curl_sees_every_token_as_it_comes():
    async with emulated(step_time=StepTime(a0=0, b0=0.05)) as s:
        body = json.dumps(
            {
                "prompt": "x",
                "model": "emulated",
                "stream": True,
                "max_tokens": 5,
                "ignore_eos": True,
            }
        )
        curl = await asyncio.create_subprocess_exec(
            CURL, "-sN", f"{s.url}/v1/completions", "-d", body, stdout=asyncio.subprocess.PIPE
        )
        arrived, lines, clock = [], [], asyncio.get_running_loop().time
        async for line in curl.stdout:
            lines.append(line.decode())
            if line.startswith(b"data: {"):
                arrived.append(clock())
        await curl.wait()
    assert lines[-2:] == ["data: [DONE]\n", "\n"]
    assert len(arrived) == 5
    # A step takes 50 ms, so that 5 tokens at once would have come within much less than 4 steps.
    assert arrived[-1] - arrived[0] > 0.1
