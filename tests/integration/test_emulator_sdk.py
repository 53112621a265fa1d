"""The emulator as people use it: the openai SDK, curl, and the command line."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.metadata import EntryPoint, EntryPoints

import openai
import pytest

from tests.cli_runner import run_cli
from tests.emulator_bench import PROMPT, PROMPT_TOKENS, on_bench

MESSAGES = [{"role": "user", "content": PROMPT}]
SIX = {"x-emulator-output-tokens": "6"}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}


def with_sdk(scenario, **changes):
    """Run a scenario with an asynchronous client of the SDK on rank 0."""

    async def on(bench):
        options = {"base_url": bench.url("decode-0", "/v1"), "api_key": "x", "max_retries": 0}
        async with openai.AsyncOpenAI(**options) as client:
            return await scenario(bench, client)

    return on_bench(on, **changes)


def test_the_asynchronous_sdk_reads_a_chat_and_its_stream():
    async def scenario(bench, client):
        body = {"model": "emulated", "messages": MESSAGES, "extra_headers": SIX}
        whole = await client.chat.completions.create(**body)
        stream = await client.chat.completions.create(
            **body, stream=True, stream_options={"include_usage": True}
        )
        return whole, [chunk async for chunk in stream]

    whole, chunks = with_sdk(scenario)
    content = [c.choices[0].delta.content for c in chunks if c.choices]
    assert "".join(content) == whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == chunks[-1].usage.completion_tokens == 6
    assert whole.usage.prompt_tokens == PROMPT_TOKENS + 2


def test_the_synchronous_sdk_reads_models_and_texts():
    async def scenario(bench):
        url = bench.url("decode-0", "/v1")
        return await asyncio.to_thread(_synchronously, url)

    models, text, streamed = on_bench(scenario)
    assert models == ["emulated"]
    assert text == streamed


def _synchronously(url):
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as client:
        models = [model.id for model in client.models.list()]
        body = {"model": "emulated", "prompt": PROMPT, "extra_headers": SIX}
        text = client.completions.create(**body).choices[0].text
        with client.completions.create(**body, stream=True) as stream:
            return models, text, "".join(chunk.choices[0].text for chunk in stream)


def test_odd_framing_is_read_by_the_sdk_all_the_same():
    """CRLF, comments, event lines, no space after the colon, split every seven bytes."""

    async def scenario(bench, client):
        body = {"model": "emulated", "prompt": PROMPT, "stream": True, "extra_headers": SIX}
        texts = []
        for kind in ("odd_framing", None):
            if kind:
                await bench.fault(kind)
            stream = await client.completions.create(**body)
            texts.append("".join([chunk.choices[0].text async for chunk in stream]))
        return texts

    odd, plain = with_sdk(scenario)
    assert odd == plain != ""


def test_a_forced_tool_is_called_with_arguments_that_parse():
    async def scenario(bench, client):
        body = {"model": "emulated", "messages": MESSAGES, "extra_headers": SIX, "tools": [TOOL]}
        whole = await client.chat.completions.create(**body, tool_choice="required")
        stream = await client.chat.completions.create(
            **body, tool_choice={"type": "function", "function": {"name": "look"}}, stream=True
        )
        auto = await client.chat.completions.create(**body)
        return whole.choices[0], [c.choices[0] async for c in stream], auto.choices[0]

    whole, streamed, auto = with_sdk(scenario)
    (call,) = whole.message.tool_calls
    assert (call.function.name, whole.finish_reason) == ("look", "tool_calls")
    calls = [c.delta.tool_calls[0] for c in streamed if c.delta.tool_calls]
    assert calls[0].function.name == "look"
    arguments = "".join(c.function.arguments for c in calls)
    assert json.loads(arguments) == json.loads(call.function.arguments)
    assert streamed[-1].finish_reason == "tool_calls"
    assert auto.message.tool_calls is None


def test_log_probabilities_are_there_for_every_token():
    async def scenario(bench, client):
        chat = await client.chat.completions.create(
            model="emulated",
            messages=MESSAGES,
            logprobs=True,
            top_logprobs=2,
            extra_headers=SIX,
        )
        text = await client.completions.create(
            model="emulated", prompt=PROMPT, logprobs=2, extra_headers=SIX
        )
        return chat.choices[0], text.choices[0]

    chat, text = with_sdk(scenario)
    entries = chat.logprobs.content
    assert "".join(entry.token for entry in entries) == chat.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in entries)
    assert all(bytes(entry.bytes).decode() == entry.token for entry in entries)
    assert "".join(text.logprobs.tokens) == text.text
    starts = text.logprobs.text_offset
    assert [text.text[a:].startswith(t) for a, t in zip(starts, text.logprobs.tokens, strict=True)]
    assert len(text.logprobs.token_logprobs) == len(text.logprobs.top_logprobs) == 6


def test_errors_have_the_types_the_sdk_knows():
    async def scenario(bench, client):
        async def fails(kind, **body):
            with pytest.raises(kind) as caught:
                await client.completions.create(**{"model": "emulated", "prompt": "x", **body})
            return caught.value

        missing = await fails(openai.NotFoundError, model="other")
        bad = await fails(openai.BadRequestError, max_tokens=10**9)
        await bench.fault("status", status=429)
        limited = await fails(openai.RateLimitError)
        await bench.fault("reset")
        cut = await fails(openai.APIConnectionError)
        return missing, bad, limited, cut

    missing, bad, _, _ = with_sdk(scenario)
    assert missing.body["param"] == "model"
    assert bad.body["type"] == "BadRequestError"


def test_an_error_in_a_stream_is_raised_by_the_sdk():
    async def scenario(bench, client):
        await bench.fault("error_event", after_tokens=1)
        stream = await client.completions.create(
            model="emulated", prompt=PROMPT, stream=True, extra_headers=SIX
        )
        with pytest.raises(openai.APIError, match="emulated engine error"):
            [chunk async for chunk in stream]

    with_sdk(scenario)


# -- the command -----------------------------------------------------------------------------------


CURL = shutil.which("curl")


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
def test_curl_sees_every_token_as_an_event():
    async def scenario(bench):
        body = json.dumps({"prompt": PROMPT, "stream": True, "max_tokens": 5, "ignore_eos": True})
        url = bench.url("decode-0", "/v1/completions")
        curl = await asyncio.create_subprocess_exec(
            CURL, "-sN", url, "-d", body, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await curl.communicate()
        return out.decode()

    answer = on_bench(scenario)
    assert answer.count("data: ") == 6
    assert answer.endswith("data: [DONE]\n\n")


@contextmanager
def emulate(*arguments):
    """The command as a process of its own; yields it with its addresses."""
    program = "import typer; from brtheory.cli.emulate import emulate; typer.run(emulate)"
    command = [sys.executable, "-c", program, "--port-base", "0", "--json-ready", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            if process.poll() is None:
                process.kill()


def test_the_command_says_where_it_listens_and_stops_cleanly_when_terminated():
    with emulate("--decode-ranks", "2", "--prefill", "1", "--b0", "0.001") as (process, ready):
        assert [server["ranks"] for server in ready["decode"]] == [[0], [1]]
        with openai.OpenAI(base_url=ready["decode"][1]["url"] + "/v1", api_key="x") as client:
            endless = client.completions.create(
                model="emulated",
                prompt=PROMPT,
                stream=True,
                max_tokens=100_000,
                extra_body={"ignore_eos": True},
            )
            next(iter(endless))
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=10)
            endless.close()
    assert (process.returncode, out, err) == (0, b"", b"")


@pytest.fixture
def command_known(monkeypatch):
    """The command by name, whether or not the installed metadata lists it yet."""
    entry = EntryPoint("emulate", "brtheory.cli.emulate:emulate", "brtheory.commands")
    monkeypatch.setattr("brtheory.cli.main.entry_points", lambda **_: EntryPoints([entry]))


@pytest.mark.usefixtures("command_known")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "192.0.2.1"], "--host: expected a loopback address"),
        (["--connector", "sglang"], "connector: expected nixl"),
        (["--on-lost-kv", "shrug"], "--on-lost-kv: expected recompute | fail"),
        (["--fault", "explode"], "--fault"),
        (["--time-scale", "0"], "time_scale: expected finite and > 0"),
        (["--decode-ranks", "4", "--ranks-per-endpoint", "3"], "a divisor of 4"),
    ],
)
def test_options_that_make_no_sense_are_one_line(arguments, message):
    outcome = run_cli("emulate", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
