"""Answers in the shapes of vLLM's OpenAI-compatible server: stream chunks and whole bodies.

One object per endpoint builds the members of ``choices``; what is around them (id, model, usage) is
the same for both.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from brtheory.emulator.call import Call
from brtheory.emulator.piece import Json, Piece
from brtheory.emulator.plan import SequencePlan
from brtheory.emulator.tokens import WORDS

ARGUMENTS_OPEN, ARGUMENTS_CLOSE = '{"text": "', '"}'
FINGERPRINT = "emulator"
"""``system_fingerprint``: in whole answers and in the last chunk of streams, as with vLLM."""


class Shape(Protocol):
    """How one endpoint writes choices."""

    @property
    def prefix(self) -> str:
        """Of reply ids."""

    @property
    def chunk_object(self) -> str:
        """``object`` of a chunk."""

    @property
    def full_object(self) -> str:
        """``object`` of a whole body."""

    def openings(self, plan: SequencePlan) -> Iterable[Json]:
        """Choices sent before the first token."""

    def chunk(self, piece: Piece) -> Json:
        """Choice of a chunk."""

    def full(self, piece: Piece) -> Json:
        """Choice of a whole body; the piece is all of the answer."""

    def prompt_ids(self, plan: SequencePlan) -> Json:
        """Members of the reply itself that name the prompt's token ids, if they were asked for."""


@dataclass(frozen=True, slots=True)
class ChatShape:
    """/v1/chat/completions, with a call of ``call.tool`` where one is forced."""

    call: Call
    reply_id: str = ""

    prefix = "chatcmpl"
    chunk_object = "chat.completion.chunk"
    full_object = "chat.completion"

    def openings(self, plan: SequencePlan) -> Iterable[Json]:
        """The role, and the name of the function called."""
        yield _choice(plan, delta={"role": "assistant", "content": ""}, finish_reason=None)
        if self.call.tool is not None:
            start = {"name": self.call.tool, "arguments": ARGUMENTS_OPEN}
            tool_call = {"index": 0, "id": self._tool_id(plan), "type": "function"}
            delta = {"tool_calls": [{**tool_call, "function": start}]}
            yield _choice(plan, delta=delta, finish_reason=None)

    def chunk(self, piece: Piece) -> Json:
        """Content, or a part of the function's arguments."""
        if self.call.tool is None:
            delta: Json = {"content": piece.text}
        else:
            tail = ARGUMENTS_CLOSE if piece.finish_reason == "stop" else ""
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece.text + tail}}]}
        return self._ended(piece, _choice(piece.plan, delta=delta))

    def full(self, piece: Piece) -> Json:
        """A message."""
        message: Json = {"role": "assistant", "content": piece.text}
        if self.call.tool is not None:
            tail = ARGUMENTS_CLOSE if piece.finish_reason == "stop" else ""
            function = {
                "name": self.call.tool,
                "arguments": ARGUMENTS_OPEN + piece.text + tail,
            }
            tool_call = {"id": self._tool_id(piece.plan), "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [tool_call]}
        return self._ended(piece, _choice(piece.plan, message=message))

    def prompt_ids(self, plan: SequencePlan) -> Json:
        """``prompt_token_ids`` of the first chunk or of the body."""
        return {"prompt_token_ids": plan.prompt.token_ids()} if self.call.return_token_ids else {}

    def _tool_id(self, plan: SequencePlan) -> str:
        return f"chatcmpl-tool-{self.reply_id}-{plan.index}"

    def _ended(self, piece: Piece, choice: Json) -> Json:
        called = self.call.tool is not None and piece.finish_reason == "stop"
        choice["logprobs"] = None if self.call.logprobs is None else self._logprobs(piece)
        choice["finish_reason"] = "tool_calls" if called else piece.finish_reason
        choice["stop_reason"] = piece.stop_reason
        return _with_ids(self.call, piece, choice)

    def _logprobs(self, piece: Piece) -> Json:
        return {
            "content": [
                {**entry, "top_logprobs": alternatives}
                for entry, alternatives in _entries(piece, self.call.logprobs or 0)
            ]
        }


@dataclass(frozen=True, slots=True)
class TextShape:
    """/v1/completions."""

    call: Call

    prefix = "cmpl"
    chunk_object = "text_completion"
    full_object = "text_completion"

    def openings(self, plan: SequencePlan) -> Iterable[Json]:
        """None."""
        del plan
        return ()

    def chunk(self, piece: Piece) -> Json:
        """Text."""
        return self._choice(piece)

    def full(self, piece: Piece) -> Json:
        """Text."""
        return self._choice(piece)

    def prompt_ids(self, plan: SequencePlan) -> Json:
        """None: the choices carry them."""
        del plan
        return {}

    def _choice(self, piece: Piece) -> Json:
        choice = _choice(
            piece.plan,
            text=piece.text,
            logprobs=None if self.call.logprobs is None else self._logprobs(piece),
            finish_reason=piece.finish_reason,
            stop_reason=piece.stop_reason,
        )
        if self.call.return_token_ids and piece.start == 0:
            choice["prompt_token_ids"] = piece.plan.prompt.token_ids()
        return _with_ids(self.call, piece, choice)

    def _logprobs(self, piece: Piece) -> Json:
        entries = list(_entries(piece, self.call.logprobs or 0))
        offset = len(piece.plan.text(0, piece.start))
        tokens = [entry["token"] for entry, _ in entries]
        lengths = [len(token) for token in tokens]
        return {
            "text_offset": [offset + sum(lengths[:i]) for i in range(len(tokens))],
            "token_logprobs": [entry["logprob"] for entry, _ in entries],
            "tokens": tokens,
            "top_logprobs": [
                {other["token"]: other["logprob"] for other in (entry, *others)}
                for entry, others in entries
            ],
        }


def shape_of(call: Call, reply_id: str) -> Shape:
    """The shape of the endpoint that was called."""
    return ChatShape(call, reply_id) if call.chat else TextShape(call)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds the choices of one reply.

    Parameters
    ----------
    shape
        Of the endpoint.
    reply_id
        Without the endpoint's prefix.
    model
        Its name.
    created
        Unix time in seconds.
    """

    shape: Shape
    reply_id: str
    model: str
    created: int

    def chunk(self, choices: Sequence[Json], *, usage: Json | None = None, **extra: Any) -> Json:
        """A chunk; ``usage`` is left out where it is None."""
        chunk = self._head(self.shape.chunk_object) | extra
        chunk["choices"] = list(choices)
        if usage is not None:
            chunk["usage"] = usage
        return chunk

    def full(
        self,
        choices: Sequence[Json],
        *,
        usage: Json,
        kv: Mapping[str, Any] | None,
        **extra: Any,
    ) -> Json:
        """A whole body."""
        body = self._head(self.shape.full_object) | extra
        body |= {"choices": list(choices), "system_fingerprint": FINGERPRINT, "usage": usage}
        return body | {"kv_transfer_params": kv, "ec_transfer_params": None}

    def _head(self, kind: str) -> Json:
        return {
            "id": f"{self.shape.prefix}-{self.reply_id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Compact JSON in UTF-8, characters unescaped; bytes that came as no text become ``?``."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def _choice(plan: SequencePlan, **members: Any) -> Json:
    return {"index": plan.index, **members}


def _with_ids(call: Call, piece: Piece, choice: Json) -> Json:
    if call.return_token_ids:
        choice["token_ids"] = piece.plan.token_ids(piece.start, piece.end)
    return choice


def _entries(piece: Piece, alternatives: int) -> Iterable[tuple[Json, list[Json]]]:
    """Each token with its log probability, and those of the ids that follow it as alternatives."""
    ids = piece.plan.token_ids(piece.start, piece.end)
    for position, token_id in enumerate(ids, start=piece.start):
        others = [(token_id + k) % len(WORDS) for k in range(alternatives)]
        yield (
            _entry(piece.plan, token_id, position),
            [_entry(piece.plan, other, position) for other in others],
        )


def _entry(plan: SequencePlan, token_id: int, position: int) -> Json:
    word = WORDS[token_id]
    return {
        "token": word,
        "logprob": plan.logprob(token_id, position),
        "bytes": list(word.encode()),
    }
