"""Requests of the OpenAI API: read the client's body, make the prefill and decode bodies from it.

Unknown fields pass through both ways. What the proxy adds to a body (usage in every chunk, token
ids) is remembered as an ``Injection`` so that it can be taken out of the answer again.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from brtheory.proxy.faults import RequestError

LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")
TRANSFER_FIELDS = ("kv_transfer_params", "ec_transfer_params")
"""What engines tell one another of blocks: neither from a client nor to one."""
ROUTER_FIELDS = (*TRANSFER_FIELDS, "data_parallel_rank")
"""Fields only the router may set: a client's would reach other clients' blocks or ranks."""
DEEPEST = 256
"""Levels of a body: what is barely read may not be written again, which takes more stack."""
WHOLE_ONLY = ("prompt_logprobs", "use_beam_search")
"""Fields whose answer cannot be assembled from a stream."""


class Endpoint(Enum):
    """Paths that generate."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"


@dataclass(frozen=True)
class ClientRequest:
    """A checked request.

    Parameters
    ----------
    endpoint
        Where it came in.
    body
        The parsed JSON object, unchanged.
    size
        Bytes of the body as it came.
    stream
        Whether the client wants server-sent events.
    usage_asked, continuous_asked
        ``stream_options`` of the client.
    token_ids_asked, logprobs_asked
        Whether chunks hold token ids or log probabilities by the client's own wish.
    choices
        Sequences generated: n times the number of prompts.
    """

    endpoint: Endpoint
    body: Mapping[str, Any]
    size: int
    stream: bool
    usage_asked: bool
    continuous_asked: bool
    token_ids_asked: bool
    logprobs_asked: bool
    choices: int

    @property
    def model(self) -> str | None:
        """The model named by the client."""
        model = self.body.get("model")
        return model if isinstance(model, str) else None

    @property
    def length_limit(self) -> int | None:
        """Most output tokens the client allows, None where it sets no limit."""
        given = [self.body.get(field) for field in LENGTH_FIELDS]
        limits = [value for value in given if isinstance(value, int)]
        return min(limits, default=None)

    @property
    def whole_only(self) -> bool:
        """Whether the answer must come whole from upstream, since no stream carries it all."""
        if any(self._asks(field) for field in WHOLE_ONLY):
            return True
        # With echo, vLLM tells the prompt's log probabilities too; in chats even unasked.
        told = self.endpoint is Endpoint.CHAT or self._asks("logprobs")
        return bool(self.body.get("echo")) and told

    def _asks(self, field: str) -> bool:
        # 0 asks: for the log probabilities of the prompt's own tokens.
        value = self.body.get(field)
        return value is not None and value is not False

    @property
    def may_call_tools(self) -> bool:
        """Whether the engine looks for calls in the text: in a stream with another parser."""
        return bool(self.body.get("tools")) and self.body.get("tool_choice") != "none"


@dataclass(frozen=True)
class Injection:
    """What the proxy asked upstream for beyond the client's wish.

    Parameters
    ----------
    usage
        Usage in the stream at all.
    continuous
        Usage in every chunk.
    token_ids
        Token ids in every chunk.
    """

    usage: bool = False
    continuous: bool = False
    token_ids: bool = False


def read_request(raw: bytes, endpoint: Endpoint, *, allow_many: bool = False) -> ClientRequest:
    """Check a client's body, as far as the router depends on it.

    Raises
    ------
    RequestError
        400, naming the field, if the body is no JSON object or a field has the wrong kind.
    """
    body = _parse(raw)
    _refuse_router_fields(body)
    stream = _flag(body, "stream")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise _bad("stream_options", "an object", options)
    if options is not None and not stream:
        raise RequestError(
            400, "stream_options is only allowed with stream: true", param="stream_options"
        )
    for field in LENGTH_FIELDS:
        _count(body, field, least=0)
    choices = _choices(body)
    if choices > 1 and not allow_many:
        raise RequestError(
            400, "this deployment generates one choice a request (n = 1, one prompt)", param="n"
        )
    return ClientRequest(
        endpoint=endpoint,
        body=body,
        size=len(raw),
        stream=stream,
        usage_asked=bool((options or {}).get("include_usage")),
        continuous_asked=bool((options or {}).get("continuous_usage_stats")),
        token_ids_asked=bool(body.get("return_token_ids")),
        logprobs_asked=body.get("logprobs") not in (None, False),
        choices=choices,
    )


def prefill_body(
    request: ClientRequest, *, kv_params: Mapping[str, Any] | None, min_tokens: bool
) -> bytes:
    """Body of the prefill leg: one token, no stream, everything that shapes the prompt kept.

    Parameters
    ----------
    request
        The client's.
    kv_params
        The connector's ``kv_transfer_params``.
    min_tokens
        Send ``min_tokens: 1`` even where the client sent none (Ascend returns KV parameters only
        for answers that end by length).
    """
    body = dict(request.body)
    body.pop("stream_options", None)
    body["stream"] = False
    body["max_tokens"] = 1
    if "max_completion_tokens" in body:
        body["max_completion_tokens"] = 1
    if min_tokens or "min_tokens" in body:
        body["min_tokens"] = 1
    if kv_params is not None:
        body["kv_transfer_params"] = kv_params
    return _dump(body)


def decode_body(
    request: ClientRequest,
    *,
    kv_params: Mapping[str, Any] | None,
    injection: Injection,
    stream: bool,
) -> bytes:
    """Body of the decode leg: the client's, its own limits, KV parameters and injections added."""
    body = dict(request.body)
    body["stream"] = stream
    if stream and (injection.usage or injection.continuous):
        options = dict(body.get("stream_options") or {})
        options["include_usage"] = True
        if injection.continuous:
            options["continuous_usage_stats"] = True
        body["stream_options"] = options
    if injection.token_ids:
        body["return_token_ids"] = True
    if kv_params is not None:
        body["kv_transfer_params"] = kv_params
    return _dump(body)


def injection_for(request: ClientRequest, *, usage: bool, token_ids: bool) -> Injection:
    """What to ask upstream for so that tokens can be counted, and the client did not ask for.

    Parameters
    ----------
    request
        The client's.
    usage, token_ids
        Which counting sources the deployment lets the proxy ask for.
    """
    return Injection(
        usage=usage and not request.usage_asked,
        continuous=usage and not request.continuous_asked,
        token_ids=token_ids and not request.token_ids_asked,
    )


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            400, f"the body is not JSON that can be sent on: {_line(error)}"
        ) from error
    if not isinstance(body, dict):
        raise RequestError(400, f"the body is not a JSON object but {_kind(body)}")
    # Counting is quick; only few bodies have so many brackets that their depth must be known.
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _deeper_than(DEEPEST, body):
        raise RequestError(400, f"the body is nested more than {DEEPEST} levels deep")
    return body


def _deeper_than(most: int, body: dict[str, Any]) -> bool:
    level: list[Any] = [body]
    for _ in range(most):
        level = [inner for outer in level for inner in _containers_in(outer)]
    return bool(level)


def _containers_in(outer: dict[str, Any] | list[Any]) -> list[Any]:
    parts = outer.values() if isinstance(outer, dict) else outer
    return [part for part in parts if isinstance(part, dict | list)]


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _refuse_constant(token: str) -> None:
    raise ValueError(f"{token} is not a JSON number")


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"{token} is too large a number")
    return value


def _refuse_router_fields(body: Mapping[str, Any]) -> None:
    extra = body.get("vllm_xargs")
    for field in ROUTER_FIELDS:
        if body.get(field) is not None or (isinstance(extra, dict) and field in extra):
            raise RequestError(400, f"{field} is set by the router, not by clients", param=field)


def _choices(body: Mapping[str, Any]) -> int:
    per_prompt = max(_count(body, "n", least=1) or 1, _count(body, "best_of", least=1) or 1)
    prompt = body.get("prompt")
    # A list of integers is one tokenised prompt; a list of anything else is a batch.
    batch = isinstance(prompt, list) and not all(isinstance(part, int) for part in prompt)
    return per_prompt * (len(prompt) if batch and isinstance(prompt, list) else 1)


def _flag(body: Mapping[str, Any], field: str) -> bool:
    value = body.get(field)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _bad(field, "true or false", value)


def _count(body: Mapping[str, Any], field: str, *, least: int) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _bad(field, f"an integer >= {least}", value)
    return value


def _bad(field: str, expected: str, got: object) -> RequestError:
    return RequestError(400, f"{field}: expected {expected}, got {_kind(got)}", param=field)


def _kind(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
