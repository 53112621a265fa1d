"""Going on after the engine has preempted a request: prefill again with the text so far.

The client notices nothing: the continued stream keeps the first one's id, and its usage counts the
tokens of both.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from brtheory.proxy.chunk import Chunk
from brtheory.proxy.json_bytes import replace_member
from brtheory.proxy.openai import LENGTH_FIELDS, ClientRequest, Endpoint

RECOMPUTED = "recomputed"
LONGEST_TEXT = 1 << 20
"""Characters remembered of a stream; a longer one cannot be continued."""


def wants_recompute(chunk: Chunk) -> bool:
    """Whether the engine has ended the stream because it preempted the request."""
    if b'"recomputed"' not in chunk.data:
        return False
    return any(choice.get("stop_reason") == RECOMPUTED for choice in chunk.choices())


class Transcript:
    """What a stream has said so far.

    Attributes
    ----------
    tokens
        Tokens of earlier streams of the same request.
    first_id
        The id of the first chunk, as JSON.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._plain = True
        self.tokens = 0
        self.first_id: bytes | None = None

    @property
    def text(self) -> str:
        """The text, over all streams."""
        return "".join(self._parts)

    def add(self, chunk: Chunk) -> None:
        """Take a chunk in."""
        document = chunk.parsed()
        if self.first_id is None and "id" in document:
            self.first_id = json.dumps(document["id"]).encode()
        for choice in chunk.choices():
            delta = choice.get("delta")
            text = choice.get("text") if delta is None else _content(delta)
            if text is None:
                self._plain = False
            else:
                self._parts.append(text)
                self._length += len(text)

    def may_continue(self, request: ClientRequest) -> bool:
        """Whether text alone says all: no tool calls, no reasoning, one textual prompt."""
        if not self._plain or self._length > LONGEST_TEXT or request.choices > 1:
            return False
        if request.endpoint is Endpoint.CHAT:
            return isinstance(request.body.get("messages"), list)
        return isinstance(request.body.get("prompt"), str)

    def shown(self, chunk_bytes: bytes) -> bytes:
        """A chunk of a continued stream as the client should see it."""
        if self.tokens == 0:
            return chunk_bytes
        if self.first_id is not None:
            chunk_bytes = replace_member(chunk_bytes, ("id",), value=self.first_id)
        return _moved_usage(chunk_bytes, self.tokens)


def continued(original: ClientRequest, transcript: Transcript) -> ClientRequest:
    """The request that goes on where the transcript ends.

    Parameters
    ----------
    original
        The client's own request.
    transcript
        Its text and tokens so far.
    """
    body = dict(original.body)
    if original.endpoint is Endpoint.CHAT:
        messages = list(body["messages"])
        if body.get("continue_final_message") and messages:
            last = dict(messages[-1])
            last["content"] = f"{last.get('content') or ''}{transcript.text}"
            messages[-1] = last
        else:
            messages.append({"role": "assistant", "content": transcript.text})
        body |= {
            "messages": messages,
            "continue_final_message": True,
            "add_generation_prompt": False,
        }
    else:
        body["prompt"] = body["prompt"] + transcript.text
        body["echo"] = False
    for field in (*LENGTH_FIELDS, "min_tokens"):
        if isinstance(body.get(field), int):
            least = 0 if field == "min_tokens" else 1
            body[field] = max(least, body[field] - transcript.tokens)
    return replace(original, body=body, size=original.size + len(transcript.text))


def _content(delta: Any) -> str | None:
    """Text of a chat delta, None where it holds more than text."""
    if not isinstance(delta, dict):
        return None
    if any(value for key, value in delta.items() if key not in ("role", "content")):
        return None
    content = delta.get("content")
    return content if isinstance(content, str) else ""


def _moved_usage(data: bytes, tokens: int) -> bytes:
    """Count ``tokens`` as completion instead of prompt: they came from an earlier stream."""
    if b'"usage"' not in data:
        return data
    usage = json.loads(data).get("usage")
    if not isinstance(usage, Mapping):
        return data
    moved = dict(usage)
    for field, change in (("prompt_tokens", -tokens), ("completion_tokens", tokens)):
        if isinstance(moved.get(field), int):
            moved[field] += change
    return replace_member(data, ("usage",), value=json.dumps(moved, separators=(",", ":")).encode())
