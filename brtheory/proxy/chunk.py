"""One chunk of a generation stream, looked at no deeper than needed."""

import json
import re
from enum import Enum
from typing import Any, NamedTuple

from brtheory.proxy.json_bytes import cut_members, member_value, usage_at_end
from brtheory.proxy.openai import TRANSFER_FIELDS

_QUICK_TAIL = re.compile(
    rb',"usage":\{[^{}]*?"completion_tokens":(\d+)'
    rb'(?:[^{}]*|[^{}]*"completion_tokens_details":\{[^{}]*\}[^{}]*)\}\}\Z'
)
_SPECIAL = re.compile(
    b"|".join(f'"{name}"'.encode() for name in (*TRANSFER_FIELDS, "recomputed"))
    + b'|"finish_reason":"'
)
"""What makes a chunk one to look at closely."""
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_PROMPT_TOKENS = re.compile(rb'"prompt_tokens"\s*:\s*(\d+)')
_COMPLETION_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')


class ChunkKind(Enum):
    """What a chunk is."""

    CHOICES = "choices"
    USAGE = "usage"
    """The final chunk with empty choices."""
    ERROR = "error"
    OTHER = "other"


class Chunk(NamedTuple):
    """A chunk.

    Parameters
    ----------
    data
        Its JSON text.
    kind
        What it is.
    usage
        Bytes of its usage object, None where there is none or it is null.
    rest
        ``data`` without its usage member, every other byte unchanged.
    """

    data: bytes
    kind: ChunkKind
    usage: bytes | None
    rest: bytes

    @property
    def completion_tokens(self) -> int | None:
        """Completion tokens its usage counts, None where it counts none."""
        if self.usage is None:
            return None
        match = _COMPLETION_TOKENS.search(self.usage)
        return int(match.group(1)) if match else None

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens its usage counts, None where it counts none."""
        if self.usage is None:
            return None
        match = _PROMPT_TOKENS.search(self.usage)
        return int(match.group(1)) if match else None

    def parsed(self) -> dict[str, Any]:
        """The whole chunk decoded; an empty object where it is no JSON object."""
        try:
            document = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def choices(self) -> list[dict[str, Any]]:
        """Its decoded choices, those that are objects."""
        choices = self.parsed().get("choices")
        return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def read_chunk(data: bytes) -> Chunk:
    """Look at a chunk; text that is no JSON is ``OTHER``, never an error."""
    usage = usage_at_end(data)
    if usage is not None:
        return Chunk(data, _kind(data, usage.rest), usage.value, usage.rest)
    if b'"usage"' not in data:
        return Chunk(data, _kind(data, data), None, data)
    try:
        value = member_value(data, ("usage",))
        rest = cut_members(data, ("usage",))
    except ValueError:
        return Chunk(data, ChunkKind.OTHER, None, data)
    return Chunk(data, _kind(data, rest), None if value == b"null" else value, rest)


def quick_usage(data: bytes) -> tuple[int, bytes] | None:
    """Completion tokens and the text without usage, of a chunk as servers send it by the thousand.

    One choice-bearing chunk that finishes none, with a usage at its end and no spaces; None for
    anything else, which ``read_chunk`` then looks at. Both agree wherever this one answers.
    """
    at = data.rfind(b',"usage":{')
    if at < 0 or data.count(b'"choices"') != 1 or b'"choices":[{' not in data:
        return None
    match = _QUICK_TAIL.match(data, at)
    if match is None or _SPECIAL.search(data):
        return None
    return int(match.group(1)), data[:at] + b"}"


def _kind(data: bytes, rest: bytes) -> ChunkKind:
    if b'"choices"' not in rest:
        return ChunkKind.ERROR if _has(data, "error") else ChunkKind.OTHER
    empty = _NO_CHOICES.search(rest)
    if empty is None:
        return ChunkKind.CHOICES
    if rest.count(b"{", 0, empty.start()) == 1 and b"}" not in rest[: empty.start()]:
        # Nothing has been opened before but the chunk itself: these are its own choices.
        return ChunkKind.USAGE
    value = member_value(data, ("choices",)) or b""
    return ChunkKind.USAGE if value.strip(b"[] \t\r\n") == b"" else ChunkKind.CHOICES


def _has(data: bytes, key: str) -> bool:
    if f'"{key}"'.encode() not in data:
        return False
    try:
        return member_value(data, (key,)) not in (None, b"null")
    except ValueError:
        return False
