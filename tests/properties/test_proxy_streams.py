"""Laws of streams: counts equal the truth, what the client sees is what it asked for."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.proxy.assembly import Assembler
from brtheory.proxy.chunk import ChunkKind, quick_usage, read_chunk
from brtheory.proxy.counting import ChunkRatio, TokenCounter, TokenSource
from brtheory.proxy.editing import StreamEditor
from brtheory.proxy.openai import Endpoint, Injection, read_request
from brtheory.proxy.sse import DONE, SseEvent, encode_event
from brtheory.proxy.translation import Ending, Translation

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=12)
"""Tokens per chunk: 0 is a chunk whose text a parser has swallowed."""


def chunk(
    tokens: int, total: int, *, usage: bool = False, ids: bool = False, logprobs: bool = False
) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "delta": {"content": "x" * tokens}}
    if logprobs:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": -1.0}] * tokens}
    if ids:
        choice["token_ids"] = list(range(tokens))
    document = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    if usage:
        document["usage"] = {"prompt_tokens": 3, "completion_tokens": total}
    return document


def final(total: int) -> dict[str, Any]:
    usage = {"prompt_tokens": 3, "completion_tokens": total, "total_tokens": 3 + total}
    return {"id": "c", "choices": [], "usage": usage}


def text(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def stream(sizes: list[int], **flags: bool) -> list[dict[str, Any]]:
    totals = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [chunk(n, total, **flags) for n, total in zip(sizes, totals, strict=True)]


@settings(deadline=None)
@given(sizes=SIZES)
@pytest.mark.parametrize(
    ("flags", "source"),
    [
        ({"usage": True, "ids": True, "logprobs": True}, TokenSource.USAGE),
        ({"ids": True, "logprobs": True}, TokenSource.TOKEN_IDS),
        ({"logprobs": True}, TokenSource.LOGPROBS),
    ],
)
def test_exact_sources_equal_the_truth_after_every_chunk(
    sizes: list[int], flags: dict[str, bool], source: TokenSource
) -> None:
    counter, truth = TokenCounter(ChunkRatio(), logprobs=True), 0
    for size, document in zip(sizes, stream(sizes, **flags), strict=True):
        truth += size
        assert counter.observe(read_chunk(text(document))) == size
        assert counter.tokens == truth
        assert counter.source is source
    assert not source.degraded


@settings(deadline=None)
@given(sizes=SIZES, true_total=st.integers(0, 99))
def test_without_a_source_chunks_are_counted_and_the_final_usage_settles(
    sizes: list[int], true_total: int
) -> None:
    ratio = ChunkRatio()
    counter = TokenCounter(ratio)
    for document in stream(sizes):
        counter.observe(read_chunk(text(document)))
    carrying = sum(size > 0 for size in sizes)
    assert counter.tokens == carrying
    assert counter.source is (TokenSource.CHUNKS if carrying else None)
    assert counter.observe(read_chunk(text(final(true_total)))) == true_total - carrying
    assert (counter.tokens, counter.settled) == (true_total, True)
    assert counter.corrected == abs(true_total - carrying)
    if carrying:
        # One stream moves the ratio a tenth of the way from 1 to what it has shown.
        assert ratio.value == pytest.approx(1 + 0.1 * (min(true_total / carrying, 64) - 1))
    else:
        assert ratio.value == 1.0


def test_log_probabilities_count_only_where_the_client_asked_for_them() -> None:
    counter = TokenCounter(ChunkRatio())
    counter.observe(read_chunk(text(chunk(3, 3, logprobs=True))))
    assert (counter.tokens, counter.source) == (1, TokenSource.CHUNKS)


def test_role_finish_and_usage_chunks_carry_no_token() -> None:
    counter = TokenCounter(ChunkRatio())
    for delta, reason in (({"role": "assistant", "content": ""}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        assert counter.observe(read_chunk(text({"choices": [choice]}))) == 0
    assert counter.observe(read_chunk(b'{"error":{"message":"x"}}')) == 0
    assert counter.observe(read_chunk(b"not json")) == 0


@settings(deadline=None)
@given(counts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=12))
def test_cumulative_counts_merge_monotonically_for_each_choice(
    counts: list[tuple[int, int]],
) -> None:
    counter, best = TokenCounter(ChunkRatio(), choices=3), {0: 0, 1: 0, 2: 0}
    for index, count in counts:
        document = chunk(1, count, usage=True)
        document["choices"][0]["index"] = index
        assert counter.observe(read_chunk(text(document))) >= 0
        best[index] = max(best[index], count)
        assert counter.tokens == sum(best.values())


# -- editing -------------------------------------------------------------------------------------


def editor(options: dict[str, bool] | None, *, ids: bool = False, **kw: Any) -> StreamEditor:
    body = json.dumps({"stream": True, "stream_options": options}).encode()
    request = read_request(body, Endpoint.CHAT)
    injection = Injection(
        usage=not request.usage_asked, continuous=not request.continuous_asked, token_ids=ids
    )
    return StreamEditor(injection, **kw)


def edit(with_editor: StreamEditor, document: dict[str, Any]) -> bytes:
    data = text(document)
    return with_editor.edit(SseEvent(encode_event(data), data), read_chunk(data))


@settings(deadline=None)
@given(sizes=SIZES, ids=st.booleans())
def test_a_client_without_usage_sees_exactly_a_stream_without_usage(
    sizes: list[int], ids: bool
) -> None:
    mine = editor(None, ids=ids)
    upstream = [*stream(sizes, usage=True, ids=ids), final(sum(sizes))]
    seen = b"".join(edit(mine, document) for document in upstream)
    assert seen == b"".join(encode_event(text(document)) for document in stream(sizes))


@settings(deadline=None)
@given(sizes=SIZES)
def test_a_client_with_usage_at_the_end_sees_it_only_there(sizes: list[int]) -> None:
    mine, last = editor({"include_usage": True}), final(sum(sizes))
    seen = b"".join(edit(mine, document) for document in [*stream(sizes, usage=True), last])
    assert seen == b"".join(encode_event(text(document)) for document in [*stream(sizes), last])


@settings(deadline=None)
@given(sizes=SIZES)
def test_a_client_that_asked_for_everything_gets_the_very_bytes(sizes: list[int]) -> None:
    mine = editor({"include_usage": True, "continuous_usage_stats": True})
    for document in [*stream(sizes, usage=True), final(sum(sizes))]:
        data = text(document)
        event = SseEvent(b": note\r\ndata:" + data + b"\r\n\r\n", data)
        assert mine.edit(event, read_chunk(data)) is event.raw


def test_editing_keeps_comments_and_line_ends_of_the_event() -> None:
    data = text(chunk(1, 1, usage=True))
    event = SseEvent(b": note\r\ndata:" + data + b"\r\n\r\n", data)
    assert editor(None).edit(event, read_chunk(data)) == (
        b": note\r\ndata:" + text(chunk(1, 1)) + b"\r\n\r\n"
    )


def test_kv_parameters_are_never_shown() -> None:
    document = {**chunk(1, 1), "kv_transfer_params": {"remote_host": "10.0.0.1"}}
    assert edit(editor(None), document) == encode_event(text(chunk(1, 1)))


def test_cached_tokens_are_those_of_the_prefill_node() -> None:
    document = final(4)
    document["usage"]["prompt_tokens_details"] = {"cached_tokens": 3}
    seen = edit(editor({"include_usage": True}, prompt_details={"cached_tokens": 0}), document)
    document["usage"]["prompt_tokens_details"] = {"cached_tokens": 0}
    assert json.loads(seen.removeprefix(b"data: ")) == document


@settings(deadline=None)
@given(
    sizes=SIZES,
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    asked=st.sampled_from([None, {"include_usage": True, "continuous_usage_stats": True}]),
    odd=st.lists(st.sampled_from([b": note\n\n", b'data: {"x":1}\n\n', b"data: [1]\r\n\r\n"])),
)
def test_the_quick_way_gives_the_bytes_counts_and_growth_of_the_close_look(
    sizes: list[int], cuts: list[int], asked: dict[str, bool] | None, odd: list[bytes]
) -> None:
    documents = [*stream(sizes, usage=True), final(sum(sizes))]
    raw = b"".join(encode_event(text(document)) for document in documents)
    raw = b"".join(odd) + raw + b"".join(odd) + DONE
    borders = sorted({0, *(cut for cut in cuts if cut < len(raw)), len(raw)})
    seen = []
    for quick in (True, False):
        mine, grown = editor(asked), [0]
        counter = TokenCounter(ChunkRatio())
        translation = Translation(
            mine.edit, counter, grow=grown.append, limit=10**6, quick=mine.quick if quick else None
        )
        out = b"".join(translation.feed(raw[a:b]) for a, b in pairwise(borders))
        assert translation.ending is Ending.DONE
        seen.append((out + translation.finish(), counter.tokens, counter.source, grown))
    assert seen[0] == seen[1]
    assert sum(seen[0][3]) == sum(sizes)


@settings(deadline=None)
@given(number=st.integers(0, 10**6), content=st.text(max_size=20), extra=st.booleans())
def test_the_quick_look_agrees_with_the_close_one_wherever_it_answers(
    number: int, content: str, extra: bool
) -> None:
    document = chunk(1, number, usage=True)
    document["choices"][0]["delta"]["content"] = content + ',"usage":{'
    if extra:
        document["usage"]["details"] = {"cached": 1}
    data = text(document)
    quick, close = quick_usage(data), read_chunk(data)
    assert (quick is None) == extra
    if quick is not None:
        assert quick == (close.completion_tokens, close.rest)
        assert close.kind is ChunkKind.CHOICES


# -- chunks and assembly -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"choices":[{"index":0}]}', ChunkKind.CHOICES),
        (b'{"choices": [ ],"usage":{"completion_tokens":1}}', ChunkKind.USAGE),
        (b'{"choices":[{"x":{"choices":[]}}]}', ChunkKind.CHOICES),
        (b'{"error":{"message":"boom"}}', ChunkKind.ERROR),
        (b'{"error":null,"x":1}', ChunkKind.OTHER),
        (b"{}", ChunkKind.OTHER),
        (b"garbage", ChunkKind.OTHER),
    ],
)
def test_kinds_of_chunks(data: bytes, kind: ChunkKind) -> None:
    assert read_chunk(data).kind is kind


@settings(deadline=None)
@given(parts=st.lists(st.text(max_size=4), min_size=1, max_size=6), cut=st.integers(0, 5))
def test_an_assembled_chat_response_holds_all_texts_and_unknown_fields(
    parts: list[str], cut: int
) -> None:
    assembler = Assembler(Endpoint.CHAT)
    assembler.add(
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    )
    for part in parts:
        delta = {"content": part, "reasoning_content": part[:cut]}
        logprobs = {"content": [{"token": part, "top_logprobs": []}]}
        assembler.add({"choices": [{"index": 0, "delta": delta, "logprobs": logprobs}]})
    last = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 7}
    assembler.add({"choices": [last], "system_fingerprint": "f"})
    assembler.add({"choices": [], "usage": {"completion_tokens": len(parts)}})
    whole = assembler.response()
    assert whole == {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "system_fingerprint": "f",
        "usage": {"completion_tokens": len(parts)},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "stop_reason": 7,
                "logprobs": {"content": [{"token": p, "top_logprobs": []} for p in parts]},
                "message": {
                    "role": "assistant",
                    "content": "".join(parts),
                    "reasoning_content": "".join(part[:cut] for part in parts),
                },
            }
        ],
    }


def test_tool_calls_are_joined_by_index() -> None:
    assembler = Assembler(Endpoint.CHAT)
    pieces = [
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"x":'}}],
        [{"index": 0, "function": {"arguments": "1}"}}],
        [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}],
    ]
    for piece in pieces:
        assembler.add({"choices": [{"index": 0, "delta": {"tool_calls": piece}}]})
    message = assembler.response()["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_completions_join_text_choice_by_choice() -> None:
    assembler = Assembler(Endpoint.COMPLETIONS)
    for index, part in ((1, "b"), (0, "a"), (1, "B")):
        assembler.add({"object": "text_completion", "choices": [{"index": index, "text": part}]})
    assert [choice["text"] for choice in assembler.response()["choices"]] == ["a", "bB"]
    assert assembler.response()["object"] == "text_completion"


def test_assembly_hides_token_ids_nobody_asked_for_and_kv_parameters() -> None:
    assembler = Assembler(Endpoint.CHAT)
    assembler.add({"kv_transfer_params": {}, "prompt_token_ids": [1], **chunk(2, 2, ids=True)})
    whole = assembler.response(token_ids=False)
    assert "kv_transfer_params" not in whole
    assert "prompt_token_ids" not in whole
    assert "token_ids" not in whole["choices"][0]
