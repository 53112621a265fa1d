"""Request bodies: read and refused as an engine does."""

import json

import pytest

from brtheory.emulator.body import parse_call
from brtheory.emulator.call import ApiError, Limits

LIMITS = Limits("emulated", 1000)


def chat(**body):
    body.setdefault("messages", [{"role": "user", "content": "hello you"}])
    return parse_call(json.dumps(body).encode(), chat=True, limits=LIMITS)


def text(**body):
    body.setdefault("prompt", "hello you")
    return parse_call(json.dumps(body).encode(), chat=False, limits=LIMITS)


def refusal(call, **body):
    with pytest.raises(ApiError) as caught:
        call(**body)
    return caught.value


def test_limits_default_to_sixteen_tokens_of_text_and_to_the_room_left_in_a_chat():
    # "hello you" has 9 bytes: 3 tokens; a chat adds one for the message and one for the answer.
    assert text().max_tokens == (16,)
    assert chat().prompt_tokens == 5
    assert chat().max_tokens == (995,)


def test_a_limit_beyond_the_room_left_is_lowered_to_it():
    assert chat(max_tokens=996).max_tokens == chat(max_tokens=1000).max_tokens == (995,)


def test_a_chat_prefers_max_completion_tokens_and_text_does_not_know_it():
    assert chat(max_tokens=7, max_completion_tokens=9).max_tokens == (9,)
    assert chat(max_tokens=7).max_tokens == (7,)
    assert text(max_tokens=7, max_completion_tokens=9).max_tokens == (7,)


def test_a_continued_message_weighs_what_the_answer_it_continues_weighed():
    """The prompt with 5 emitted words as an assistant message has 5 tokens more."""
    said = " cup eye pan mix sea"
    messages = [
        {"role": "user", "content": "hello you"},
        {"role": "assistant", "content": said},
    ]
    again = chat(messages=messages, add_generation_prompt=False, continue_final_message=True)
    assert again.prompt_tokens == chat().prompt_tokens + 5


def test_templating_fields_change_the_prompt():
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    assert chat(tools=[tool]).prompt_tokens > chat().prompt_tokens
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": " you"}]
    assert chat(messages=[{"role": "user", "content": parts}]).prompt_tokens == 5


def test_prompts_come_as_text_batch_or_token_ids():
    assert [p.tokens for p in text(prompt=["abcd", "abcdefgh"]).prompts] == [1, 2]
    assert [p.tokens for p in text(prompt=[5, 6, 7]).prompts] == [3]
    batch = text(prompt=[[5, 6, 7], [8]])
    assert [p.tokens for p in batch.prompts] == [3, 1]
    assert batch.prompts[0].token_ids() == [5, 6, 7]


def test_unknown_fields_pass():
    assert chat(temperature=0.3, whatever={"x": [1]}).max_tokens == (995,)


def test_lengths_may_be_forced_by_header_or_extra_arguments():
    data = b'{"prompt": "x"}'
    by_header = parse_call(data, chat=False, limits=LIMITS, output_tokens="12", prompt_tokens="345")
    extra = {"emulator_output_tokens": 12, "emulator_prompt_tokens": 345}
    by_body = text(prompt="x", vllm_xargs=extra)
    for call in (by_header, by_body):
        assert (call.forced_output, call.prompt_tokens) == (12, 345)


def test_usage_options_need_each_other():
    both = {"include_usage": True, "continuous_usage_stats": True}
    call = chat(stream=True, stream_options=both)
    assert (call.include_usage, call.continuous_usage) == (True, True)
    alone = chat(stream=True, stream_options={"continuous_usage_stats": True})
    assert (alone.include_usage, alone.continuous_usage) == (False, False)


@pytest.mark.parametrize(
    ("call", "body", "status", "param"),
    [
        (chat, {"model": "other"}, 404, "model"),
        (chat, {"stream_options": {"include_usage": True}}, 400, "stream_options"),
        (chat, {"min_tokens": 9, "max_tokens": 8}, 400, "min_tokens"),
        (chat, {"min_tokens": 2, "max_completion_tokens": 1}, 400, "min_tokens"),
        (chat, {"max_tokens": 0}, 400, "max_tokens"),
        (chat, {"max_tokens": 1001}, 400, "max_tokens"),
        (chat, {"n": 0}, 400, "n"),
        (chat, {"stop": ["a", ""]}, 400, "stop"),
        (chat, {"top_logprobs": 2}, 400, "top_logprobs"),
        (text, {"logprobs": -1}, 400, "logprobs"),
        (text, {"logprobs": 10**9}, 400, "logprobs"),
        (text, {"prompt": ["x"] * 20, "n": 100}, 400, "n"),
        (text, {"stop": ["x"] * 65}, 400, "stop"),
        (chat, {"messages": []}, 400, "messages"),
        (chat, {"messages": None}, 400, "messages"),
        (chat, {"messages": [{"role": "user", "content": 5}]}, 400, "messages"),
        (chat, {"tool_choice": "required"}, 400, "tool_choice"),
        (chat, {"tools": [{"type": "function"}], "tool_choice": "required"}, 400, "tools"),
        (text, {"prompt": None}, 400, "prompt"),
        (text, {"prompt": []}, 400, "prompt"),
        (text, {"prompt": [[]]}, 400, "prompt"),
        (text, {"prompt": "x" * 4000}, 400, "input_tokens"),
        (text, {"vllm_xargs": {"emulator_output_tokens": 0}}, 400, None),
        (text, {"vllm_xargs": {"emulator_prompt_tokens": "many"}}, 400, None),
    ],
)
def test_what_an_engine_refuses_is_refused_with_its_field(call, body, status, param):
    error = refusal(call, **body)
    assert (error.status, error.param) == (status, param)
    assert error.to_json()["error"]["code"] == status


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b'{"n": "many"}', b"[" * 9999]
)
def test_bytes_that_are_no_request_are_a_400(data):
    with pytest.raises(ApiError) as caught:
        parse_call(data, chat=True, limits=LIMITS)
    assert caught.value.status == 400


def test_a_tool_is_called_when_it_is_forced_and_only_then():
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {}}}
        for name in ("look", "jump")
    ]
    named = {"type": "function", "function": {"name": "jump"}}
    assert chat(tools=tools).tool is None
    assert chat(tools=tools, tool_choice="auto").tool is None
    assert chat(tools=tools, tool_choice="required").tool == "look"
    assert chat(tools=tools, tool_choice=named).tool == "jump"
    other = {"type": "function", "function": {"name": "swim"}}
    assert refusal(chat, tools=tools, tool_choice=other).param == "tool_choice"
