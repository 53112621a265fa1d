"""Members of a JSON text found, cut and replaced as bytes, the rest left exactly as it is.

A path is a tuple of keys from the outermost object inwards; ``ANY`` stands for every element of an
array. Nothing is decoded but the keys, so numbers, escapes and spacing of the rest survive.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

ANY = "*"
Path = tuple[str, ...]

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_FLAT_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*\})\s*\}\s*\Z')
_SPACE = b" \t\r\n"


class Span(NamedTuple):
    """Where a member stands: its key from ``start``, its value from ``value`` to ``end``."""

    start: int
    value: int
    end: int


class Usage(NamedTuple):
    """The ``usage`` member at the end of a text: its value, and the text without it."""

    value: bytes
    rest: bytes


@dataclass(slots=True)
class _Container:
    """An open object or array of the scan."""

    is_object: bool
    key: str | None = None
    start: int = 0
    value: int = 0


def find_members(text: bytes, path: Path) -> Iterator[Span]:
    """Spans of the members at ``path``, in order of their ends.

    Only well-formed JSON has a defined answer; other text yields spans or none, never an error
    beyond ``ValueError``.
    """
    stack: list[_Container] = []
    for match in _TOKEN.finditer(text):
        token, at = match.group(), match.start()
        if token[:1] == b'"':
            if stack and stack[-1].is_object and stack[-1].key is None:
                stack[-1].key, stack[-1].start = json.loads(token), at
        elif token in b"{[":
            stack.append(_Container(token == b"{"))
        elif token == b":":
            if stack:
                stack[-1].value = at + 1
        else:
            yield from _ended(stack, path, text, at)
            if token == b",":
                if stack:
                    stack[-1].key = None
            elif stack:
                stack.pop()


def member_value(text: bytes, path: Path) -> bytes | None:
    """Bytes of the first member at ``path``, None where there is none."""
    for span in find_members(text, path):
        return text[span.value : span.end].strip()
    return None


def cut_members(text: bytes, path: Path) -> bytes:
    """The text without the members at ``path``."""
    while (span := next(find_members(text, path), None)) is not None:
        text = _cut(text, span)
    return text


def replace_member(text: bytes, path: Path, *, value: bytes) -> bytes:
    """The text with the first member at ``path`` given another value, if it is there."""
    span = next(find_members(text, path), None)
    return text if span is None else text[: span.value] + value + text[span.end :]


def usage_at_end(text: bytes) -> Usage | None:
    """The outermost object's ``usage``, where it is its last member and holds no object.

    This is where servers put it, and the one case that must be fast. It is exact: an unescaped
    ``"usage"`` after a comma and before a colon is a key; the object after it has no inner braces,
    and the brace that follows ends the text, so the key belongs to the outermost object.
    """
    at = text.rfind(b'"usage"')
    if at < 0:
        return None
    match = _FLAT_USAGE.match(text, at)
    if match is None:
        return None
    before = text[:at].rstrip(_SPACE)
    if before[-1:] != b",":
        return None
    return Usage(match.group(1), before[:-1] + b"}")


def _ended(stack: list[_Container], path: Path, text: bytes, end: int) -> Iterator[Span]:
    """The member that ends here, if its path is the wanted one."""
    if len(stack) != len(path) or stack[-1].key is None:
        return
    if all(_fits(container, part) for container, part in zip(stack, path, strict=True)):
        top = stack[-1]
        yield Span(top.start, top.value, top.value + len(text[top.value : end].rstrip(_SPACE)))


def _fits(container: _Container, part: str) -> bool:
    return container.key == part if container.is_object else part == ANY


def _cut(text: bytes, span: Span) -> bytes:
    """Cut a member with one of the commas beside it."""
    before, after = text[: span.start].rstrip(_SPACE), text[span.end :].lstrip(_SPACE)
    if before.endswith(b","):
        return before[:-1] + text[span.end :]
    return text[: span.start] + (after[1:].lstrip(_SPACE) if after.startswith(b",") else after)
