"""Going on after a preemption: what is asked for, and what the client sees."""

import json
from typing import Any

import pytest

from brtheory.proxy.chunk import read_chunk
from brtheory.proxy.continuation import Transcript, continued, wants_recompute
from brtheory.proxy.openai import ClientRequest, Endpoint, read_request


def request(endpoint: Endpoint, **body: Any) -> ClientRequest:
    return read_request(json.dumps(body).encode(), endpoint)


def transcript(*deltas: dict[str, Any], tokens: int = 2) -> Transcript:
    made = Transcript()
    for delta in deltas:
        choice = {"index": 0, "text": delta["text"]} if "text" in delta else {"delta": delta}
        made.add(read_chunk(json.dumps({"id": "first", "choices": [choice]}).encode()))
    made.tokens = tokens
    return made


USER = {"role": "user", "content": "hi"}


def test_a_chat_goes_on_as_an_unfinished_answer_with_what_is_left_of_its_limits() -> None:
    mine = request(Endpoint.CHAT, messages=[USER], max_tokens=10, min_tokens=1)
    body = continued(mine, transcript({"role": "assistant"}, {"content": "ab"})).body
    assert body["messages"] == [USER, {"role": "assistant", "content": "ab"}]
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert (body["max_tokens"], body["min_tokens"]) == (8, 0)
    assert mine.body["messages"] == [USER]


def test_an_answer_the_client_had_begun_is_gone_on_with() -> None:
    begun = [USER, {"role": "assistant", "content": "so "}]
    mine = request(Endpoint.CHAT, messages=begun, continue_final_message=True)
    body = continued(mine, transcript({"content": "ab"})).body
    assert body["messages"] == [USER, {"role": "assistant", "content": "so ab"}]


def test_at_least_one_token_is_asked_for() -> None:
    mine = request(Endpoint.COMPLETIONS, prompt="x", max_tokens=2)
    body = continued(mine, transcript({"text": "ab"}, tokens=2)).body
    assert (body["prompt"], body["max_tokens"]) == ("xab", 1)


@pytest.mark.parametrize(
    "delta",
    [{"tool_calls": [{"index": 0}]}, {"reasoning_content": "hm"}, {"content": "x", "audio": {}}],
)
def test_what_is_more_than_text_cannot_be_continued(delta: dict[str, Any]) -> None:
    mine = request(Endpoint.CHAT, messages=[USER])
    assert transcript({"content": "x"}).may_continue(mine)
    more = transcript({"content": "x"}, {**delta, "audio": 1} if "audio" in delta else delta)
    assert not more.may_continue(mine)


def test_token_prompts_cannot_be_continued_by_text() -> None:
    assert not transcript({"text": "x"}).may_continue(request(Endpoint.COMPLETIONS, prompt=[1, 2]))


def test_later_chunks_keep_the_first_id_and_count_all_tokens() -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    raw = json.dumps({"id": "second", "choices": [], "usage": usage}).encode()
    shown = json.loads(transcript({"text": "ab"}, tokens=2).shown(raw))
    assert shown["id"] == "first"
    assert shown["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def test_only_the_stop_reason_asks_for_it_not_the_word_in_a_text() -> None:
    said = {"choices": [{"text": "recomputed", "stop_reason": None}]}
    stopped = {"choices": [{"text": "", "stop_reason": "recomputed"}]}
    chunks = [read_chunk(json.dumps(document).encode()) for document in (said, stopped)]
    assert [wants_recompute(chunk) for chunk in chunks] == [False, True]
