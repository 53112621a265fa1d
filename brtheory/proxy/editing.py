"""Taking out of a stream what the client did not ask for, byte by byte where something must go.

A chunk that needs no change is forwarded with the very bytes it came in.
"""

import json
from typing import Any

from brtheory.proxy.chunk import Chunk, ChunkKind
from brtheory.proxy.json_bytes import ANY, cut_members, replace_member
from brtheory.proxy.openai import Injection
from brtheory.proxy.sse import SseEvent, encode_event

HIDDEN = "kv_transfer_params"


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

    @property
    def quick(self) -> bool | None:
        """Whether ``edit`` cuts the usage of a plain chunk, None where it does more to it."""
        return None if self._cut_ids else self._cut_usage

    def edit(self, event: SseEvent, chunk: Chunk) -> bytes:
        """Bytes to forward for an event, empty where the client must not see it."""
        if chunk.kind is ChunkKind.USAGE:
            if self._drop_final:
                return b""
            data = self._with_prefill_details(chunk.data)
        else:
            data = chunk.rest if self._cut_usage and chunk.usage is not None else chunk.data
        if self._cut_ids:
            data = _without_token_ids(data)
        if b'"kv_transfer_params"' in data:
            data = cut_members(data, (HIDDEN,))
        return event.raw if data is chunk.data else _rewrap(event, data)

    def _with_prefill_details(self, data: bytes) -> bytes:
        if self._details is None:
            return data
        return replace_member(data, ("usage", "prompt_tokens_details"), value=self._details)


def _without_token_ids(data: bytes) -> bytes:
    if b"token_ids" not in data:
        return data
    return cut_members(cut_members(data, ("choices", ANY, "token_ids")), ("prompt_token_ids",))


def _rewrap(event: SseEvent, data: bytes) -> bytes:
    """The event with other data: its own framing where the data is one line."""
    old = event.data or b""
    if old and event.raw.count(old) == 1:
        return event.raw.replace(old, data, 1)
    return encode_event(data, name=event.name)
