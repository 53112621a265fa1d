"""Request bodies of the completion endpoints: read as an engine reads them, refused as it refuses.

Unknown fields are ignored, as vLLM does. Errors carry the status, type and message of the error
object that the client gets.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from brtheory.emulator.call import ApiError, Call, Limits, Prompt
from brtheory.emulator.noise import digest
from brtheory.emulator.tokens import count_tokens

DEFAULT_TEXT_TOKENS = 16
"""max_tokens of /v1/completions where the client gives none."""
KEY_BYTES = 16
"""Leading bytes of a prompt that decide the words of its answer."""
MOST_CHOICES = 128
MOST_LOGPROBS = 20
MOST_SEQUENCES = 1024
"""Answers of one request: prompts times choices."""
MOST_STOPS = 64


class _StreamOptions(BaseModel):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str | None = None
    messages: list[dict[str, Any]] | None = Field(None, min_length=1)
    prompt: str | list[str] | list[int] | list[list[int]] | None = None
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    min_tokens: int = Field(0, ge=0)
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    stream: bool = False
    stream_options: _StreamOptions | None = None
    return_token_ids: bool | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    add_generation_prompt: bool = True
    kv_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None


def parse_call(
    data: bytes,
    *,
    chat: bool,
    limits: Limits,
    output_tokens: str | None = None,
    prompt_tokens: str | None = None,
) -> Call:
    """Read and check a request.

    Parameters
    ----------
    data
        The body.
    chat
        Which endpoint it came to.
    limits
        What the engine serves.
    output_tokens, prompt_tokens
        The headers ``x-emulator-output-tokens`` and ``x-emulator-prompt-tokens``; the body's
        ``vllm_xargs`` may carry ``emulator_output_tokens`` and ``emulator_prompt_tokens`` too.

    Raises
    ------
    ApiError
        With the status and message an engine would answer.
    """
    body = _parse(data)
    _check_model(body, limits)
    _check_options(body)
    extra = body.vllm_xargs or {}
    forced_prompt = _count(prompt_tokens or extra.get("emulator_prompt_tokens"), "prompt")
    prompts = tuple(
        _sized(prompt, forced_prompt)
        for prompt in ((_chat_prompt(body),) if chat else _text_prompts(body))
    )
    if len(prompts) * body.n > MOST_SEQUENCES:
        raise ApiError(400, f"prompts times n: at most {MOST_SEQUENCES} expected", param="n")
    return Call(
        chat=chat,
        prompts=prompts,
        n=body.n,
        max_tokens=tuple(_limit(body, prompt, chat=chat, limits=limits) for prompt in prompts),
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        stop=_stops(body),
        include_stop=body.include_stop_str_in_output,
        stop_token_ids=frozenset(body.stop_token_ids or ()),
        forced_output=_count(output_tokens or extra.get("emulator_output_tokens"), "output"),
        stream=body.stream,
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        continuous_usage=bool(
            body.stream_options
            and body.stream_options.include_usage
            and body.stream_options.continuous_usage_stats
        ),
        return_token_ids=bool(body.return_token_ids),
        logprobs=_logprobs(body, chat=chat),
        tool=_tool(body) if chat else None,
        kv=body.kv_transfer_params or {},
    )


def _parse(data: bytes) -> _Body:
    try:
        return _Body.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or None
        raise ApiError(400, f"{where or 'body'}: {first['msg']}", param=where) from error


def _check_model(body: _Body, limits: Limits) -> None:
    if body.model not in {None, limits.model}:
        raise ApiError(
            404,
            f"The model `{body.model}` does not exist.",
            kind="NotFoundError",
            param="model",
        )


def _check_options(body: _Body) -> None:
    if body.stream_options is not None and not body.stream:
        raise ApiError(
            400, "Stream options can only be defined when `stream=True`.", param="stream_options"
        )
    limit = body.max_completion_tokens or body.max_tokens
    if limit is not None and body.min_tokens > limit:
        raise ApiError(
            400,
            f"min_tokens must be less than or equal to max_tokens={limit}, got {body.min_tokens}.",
            param="min_tokens",
        )
    # A flag in a chat, a number of alternatives in a text; True is 1.
    if not 0 <= (body.logprobs or 0) <= MOST_LOGPROBS:
        raise ApiError(400, f"logprobs: 0 to {MOST_LOGPROBS} expected", param="logprobs")
    if body.top_logprobs and not body.logprobs:
        raise ApiError(
            400, "when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs"
        )


def _chat_prompt(body: _Body) -> Prompt:
    if body.messages is None:
        raise ApiError(400, "messages: Field required", param="messages")
    texts = [_message_text(message) for message in body.messages]
    # One token opens each message and, unless the last one is continued, the answer.
    tokens = sum(1 + count_tokens(text) for text in texts) + int(body.add_generation_prompt)
    if body.tools:
        tokens += count_tokens(json.dumps(body.tools))
    text = "".join(texts)
    whole = digest(json.dumps([body.messages, body.tools]).encode())
    return Prompt(tokens, _key(text), whole, text=text)


def _message_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ApiError(
            400, "messages.content: a text or a list of parts expected", param="messages"
        )
    return "".join(str(part.get("text", "")) for part in content)


def _text_prompts(body: _Body) -> tuple[Prompt, ...]:
    given = body.prompt
    if given is None or given == []:
        raise ApiError(400, "prompt: at least one prompt is required", param="prompt")
    if isinstance(given, str):
        return (_text_prompt(given),)
    ids = [item for item in given if isinstance(item, int)]
    if ids:
        return (_ids_prompt(ids),)
    texts = [_text_prompt(item) for item in given if isinstance(item, str)]
    return tuple(texts) or tuple(_ids_prompt(item) for item in given if isinstance(item, list))


def _text_prompt(text: str) -> Prompt:
    return Prompt(count_tokens(text), _key(text), digest(text.encode()), text=text)


def _ids_prompt(ids: list[int]) -> Prompt:
    if not ids:
        raise ApiError(400, "prompt: a list of token ids must not be empty", param="prompt")
    beginning = ids[: KEY_BYTES // 4]
    return Prompt(
        len(ids), digest(repr(beginning).encode()), digest(repr(ids).encode()), ids=tuple(ids)
    )


def _key(text: str) -> int:
    return digest(text.encode()[:KEY_BYTES])


def _sized(prompt: Prompt, tokens: int | None) -> Prompt:
    if tokens is None:
        return prompt
    return Prompt(tokens, prompt.key, prompt.whole, text=prompt.text, ids=prompt.ids)


def _limit(body: _Body, prompt: Prompt, *, chat: bool, limits: Limits) -> int:
    """Output tokens: as many as asked for, or as the context has room for beyond the prompt."""
    room = limits.max_model_len - prompt.tokens
    asked = body.max_completion_tokens if chat else None
    asked = asked or body.max_tokens or (None if chat else DEFAULT_TEXT_TOKENS)
    if asked is not None and asked > limits.max_model_len:
        raise ApiError(
            400,
            f"max_tokens={asked} cannot be greater than max_model_len={limits.max_model_len}. "
            f"Please request fewer output tokens. (parameter=max_tokens, value={asked})",
            param="max_tokens",
        )
    if room < 1:
        raise ApiError(
            400,
            f"This model's maximum context length is {limits.max_model_len} tokens. However, your "
            f"request has {prompt.tokens} input tokens.",
            param="input_tokens",
        )
    return room if asked is None else min(asked, room)


def _stops(body: _Body) -> tuple[str, ...]:
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    if len(stops) > MOST_STOPS:
        raise ApiError(400, f"stop: at most {MOST_STOPS} strings expected", param="stop")
    if "" in stops:
        raise ApiError(400, "stop cannot contain an empty string.", param="stop")
    return stops


def _logprobs(body: _Body, *, chat: bool) -> int | None:
    if body.logprobs is None or body.logprobs is False:
        return None
    if chat:
        return body.top_logprobs or 0
    return int(body.logprobs)


def _tool(body: _Body) -> str | None:
    """The function that ``tool_choice`` forces: by name, or the first one if any is required."""
    names = [_function_name(tool) for tool in body.tools or ()]
    choice = body.tool_choice
    if isinstance(choice, dict):
        wanted = _function_name(choice)
        if wanted not in names:
            raise ApiError(400, f"The tool `{wanted}` is not in `tools`.", param="tool_choice")
        return wanted
    if choice != "required":
        return None
    if not names:
        raise ApiError(400, "tool_choice=required needs `tools`.", param="tool_choice")
    return names[0]


def _function_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ApiError(400, "tools: each needs a function with a name", param="tools")
    name: str = function["name"]
    return name


def _count(given: object, what: str) -> int | None:
    if given is None:
        return None
    try:
        count = int(str(given))
    except ValueError:
        count = 0
    if count < 1:
        raise ApiError(400, f"emulator {what} tokens: an integer >= 1 expected, got {given}")
    return count
