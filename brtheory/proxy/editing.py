"""Taking out of a stream what the client did not ask for, byte by byte where something must go.

A chunk that needs no change is forwarded with the very bytes it came in. vLLM names its
configuration in the last chunk alone: where that is the usage chunk the client must not see, the
name moves to the chunk before it, which the client would have found it in.
"""

import json
from typing import Any

from brtheory.proxy.chunk import Chunk, ChunkKind
from brtheory.proxy.json_bytes import ANY, cut_members, member_value, replace_member
from brtheory.proxy.openai import TRANSFER_FIELDS, Injection
from brtheory.proxy.sse import SseEvent, encode_event

_TRANSFERS = tuple(name.encode() for name in TRANSFER_FIELDS)
FINGERPRINT = "system_fingerprint"
FINISHED = b'"finish_reason":"'
_IDS = (("choices", ANY, "token_ids"), ("choices", ANY, "prompt_token_ids"), ("prompt_token_ids",))


class StreamEditor:
    """Edits the chunks of one stream.

    Parameters
    ----------
    injection
        What was asked for in the client's name.
    prompt_details
        ``usage.prompt_tokens_details`` of the prefill answer, which tells the tokens really cached;
        None leaves decode's.
    """

    def __init__(
        self,
        injection: Injection,
        *,
        prompt_details: Any = None,
    ) -> None:
        self._drop_final = injection.usage
        self._cut_usage = injection.continuous
        self._cut_ids = injection.token_ids
        self._details = None if prompt_details is None else json.dumps(prompt_details).encode()
        self._held = b""

    @property
    def quick(self) -> bool | None:
        """Whether ``edit`` cuts the usage of a plain chunk, None where it does more to it."""
        return None if self._cut_ids else self._cut_usage

    def edit(self, event: SseEvent, chunk: Chunk) -> bytes:
        """Bytes to forward for an event, empty where the client must not see it, or not yet."""
        if chunk.kind is ChunkKind.USAGE and self._drop_final:
            return self._let_go(member_value(chunk.data, (FINGERPRINT,)))
        before, edited = self._let_go(None), self._edited(event, chunk)
        if self._drop_final and FINISHED in chunk.data and FINGERPRINT.encode() not in chunk.data:
            self._held = edited
            return before
        return before + edited if before else edited

    def _let_go(self, fingerprint: bytes | None) -> bytes:
        """The chunk that was held back because it may be the client's last."""
        held, self._held = self._held, b""
        if not held or fingerprint is None:
            return held
        end = held.rindex(b"}")
        return held[:end] + b',"' + FINGERPRINT.encode() + b'":' + fingerprint + held[end:]

    def _edited(self, event: SseEvent, chunk: Chunk) -> bytes:
        if chunk.kind is ChunkKind.USAGE:
            data = with_prompt_details(chunk.data, self._details)
        else:
            data = chunk.rest if self._cut_usage and chunk.usage is not None else chunk.data
        if self._cut_ids:
            data = _without_token_ids(data)
        if any(name in data for name in _TRANSFERS):
            data = without_transfers(data)
        return event.raw if data is chunk.data else _rewrap(event, data)


def without_transfers(data: bytes) -> bytes:
    """A document without what engines tell one another of blocks."""
    for name in TRANSFER_FIELDS:
        data = cut_members(data, (name,))
    return data


def with_prompt_details(data: bytes, details: bytes | None) -> bytes:
    """A document whose usage tells the prefill node's details of the prompt, if there are any."""
    if details is None:
        return data
    return replace_member(data, ("usage", "prompt_tokens_details"), value=details)


def _without_token_ids(data: bytes) -> bytes:
    if b"token_ids" not in data:
        return data
    for path in _IDS:
        data = cut_members(data, path)
    return data


def _rewrap(event: SseEvent, data: bytes) -> bytes:
    """The event with other data: its own framing where the data is one line."""
    old = event.data or b""
    if old and event.raw.count(old) == 1:
        return event.raw.replace(old, data, 1)
    return encode_event(data, name=event.name)
