"""Bodies of the two legs: what is rewritten, what is kept, what is refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.proxy.connectors import PullConnector, Source
from brtheory.proxy.faults import RequestError
from brtheory.proxy.openai import (
    ClientRequest,
    Endpoint,
    Injection,
    decode_body,
    injection_for,
    prefill_body,
    read_request,
)

KEPT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hé"}],
    "tools": [{"type": "function"}],
    "tool_choice": "auto",
    "chat_template_kwargs": {"enable_thinking": False},
    "add_generation_prompt": True,
    "documents": [{"text": "d"}],
    "reasoning_effort": "low",
    "unknown_field": [1.5, None, {"deep": True}],
}


def read(body: Any, **options: Any) -> ClientRequest:
    return read_request(json.dumps(body).encode(), Endpoint.CHAT, **options)


def prefill(body: Any, *, min_tokens: bool = False) -> dict[str, Any]:
    raw = prefill_body(read(body), kv_params={"do_remote_decode": True}, min_tokens=min_tokens)
    sent: dict[str, Any] = json.loads(raw)
    return sent


def test_prefill_generates_one_token_without_a_stream_and_keeps_the_template() -> None:
    sent = prefill({**KEPT, "stream": True, "stream_options": {"include_usage": True}})
    rewritten = {
        "stream": False,
        "max_tokens": 1,
        "kv_transfer_params": {"do_remote_decode": True},
    }
    assert sent == {**KEPT, **rewritten}


@pytest.mark.parametrize("field", ["max_completion_tokens", "min_tokens"])
def test_a_limit_is_set_to_one_only_where_the_client_sent_it(field: str) -> None:
    assert prefill({**KEPT, field: 50})[field] == 1
    assert field not in prefill(KEPT)


def test_ascend_always_gets_min_tokens() -> None:
    assert prefill(KEPT, min_tokens=True)["min_tokens"] == 1


def test_decode_keeps_the_clients_limits_and_carries_kv_parameters_verbatim() -> None:
    kv = {"remote_block_ids": [[1, 2]], "opaque": {"x": None}}
    body = {**KEPT, "max_tokens": 77, "max_completion_tokens": 70, "min_tokens": 9}
    sent = json.loads(decode_body(read(body), kv_params=kv, injection=Injection(), stream=False))
    assert sent == {**body, "stream": False, "kv_transfer_params": kv}


@pytest.mark.parametrize(
    ("options", "injected"),
    [
        (None, Injection(usage=True, continuous=True)),
        ({"include_usage": True}, Injection(continuous=True)),
        ({"include_usage": True, "continuous_usage_stats": True}, Injection()),
    ],
)
def test_only_what_the_client_did_not_ask_for_is_injected(
    options: dict[str, bool] | None, injected: Injection
) -> None:
    request = read({**KEPT, "stream": True, "stream_options": options})
    injection = injection_for(request, usage=True, token_ids=False)
    assert injection == injected
    sent = json.loads(decode_body(request, kv_params=None, injection=injection, stream=True))
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"stream": "yes"}, "stream"),
        ({"stream": True, "stream_options": 3}, "stream_options"),
        ({"stream_options": {}}, "stream_options"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"best_of": 3}, "n"),
        ({"prompt": ["a", "b"]}, "n"),
        ({"kv_transfer_params": {"remote_host": "elsewhere"}}, "kv_transfer_params"),
        ({"vllm_xargs": {"kv_transfer_params": {}}}, "kv_transfer_params"),
        ({"data_parallel_rank": 3}, "data_parallel_rank"),
    ],
)
def test_what_cannot_be_served_is_the_clients_error_and_names_the_field(
    body: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        read(body)
    assert (caught.value.status, caught.value.param) == (400, param)
    error = json.loads(caught.value.body())["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"] == caught.value.message


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"3", b"null", b'{"a":NaN}', b"[" * 9999, b"\xff", b'{"a":1e999}']
)
def test_bodies_that_are_no_json_object_are_refused(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        read_request(raw, Endpoint.CHAT)
    assert caught.value.status == 400
    assert "\n" not in caught.value.message


def test_several_choices_pass_where_the_operator_allows_them() -> None:
    assert read({"n": 2, "prompt": ["a", "b"]}, allow_many=True).choices == 4
    assert read({"prompt": [1, 2, 3]}).choices == 1


@settings(deadline=None)
@given(raw=st.binary(max_size=30))
def test_no_bytes_raise_anything_but_a_request_error(raw: bytes) -> None:
    with suppress(RequestError):
        assert read_request(raw, Endpoint.COMPLETIONS).size == len(raw)


def test_the_request_is_not_changed_by_making_bodies() -> None:
    request = read({**KEPT, "stream": True, "stream_options": {"include_usage": True}})
    before = json.dumps(request.body)
    params = PullConnector().prefill_params(Source("x"))
    prefill_body(request, kv_params=params, min_tokens=True)
    decode_body(request, kv_params={}, injection=Injection(continuous=True), stream=True)
    assert json.dumps(request.body) == before
