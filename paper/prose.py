"""Lint of the paper's sources: keys they use, and digits someone typed where a key belongs.

A Typst source is prose with islands of code (``#num("key")``), math (``$G - 1$``), raw text and
comments. Digits may stand in islands; in prose only inside a name of ``NAMES``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

KEY_CALL = re.compile(r'#?\b(num|table-of|figure-of|findings-of|statement)\("([^"]+)"')
"""Calls that take a key: a number, a generated table, a generated figure, a statement's verdict."""

NAMES = re.compile(r"BR-0|cvc5|\bz3\b|H100|R_max")
"""Names with digits in them that prose may use."""

_REFERENCE = re.compile(r"@[\w:.-]+|<[\w:.-]+>|https?://\S+")
_NO_PROSE = re.compile(r"(?<![:\w])//[^\n]*|^#(?:set|show|import)\b[^\n]*", re.MULTILINE)
"""Comments, and lines that set things up."""
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Used:
    """A key as a source uses it: which call, which key, on which line."""

    call: str
    key: str
    line: int


def used_keys(source: str) -> list[Used]:
    """Every generated value that a source asks for."""
    text = _without_comments(source)
    return [
        Used(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in KEY_CALL.finditer(text)
    ]


def typed_digits(source: str) -> list[tuple[int, str]]:
    """Digits in prose: pairs (line, the word they stand in)."""
    prose = _REFERENCE.sub(_blank, _prose(_without_comments(source)))
    prose = NAMES.sub(_blank, prose)
    return [
        (prose.count("\n", 0, word.start()) + 1, word[0])
        for word in re.finditer(r"\S+", prose)
        if any(letter.isdigit() for letter in word[0])
    ]


def _without_comments(source: str) -> str:
    return _NO_PROSE.sub(_blank, source)


def _blank(found: re.Match[str]) -> str:
    """As many blanks, so that lines and columns stay what they are."""
    return re.sub(r"\S", " ", found[0])


def _prose(source: str) -> str:
    """The source with everything that is not prose blanked out."""
    kept = [" " if not letter.isspace() else letter for letter in source]
    for at in _prose_places(source):
        kept[at] = source[at]
    return "".join(kept)


def _prose_places(source: str) -> Iterator[int]:
    modes = ["prose"]
    at = 0
    while at < len(source):
        letter = source[at]
        if modes[-1] == "prose":
            if letter in "$`":
                at = _closing_quote(source, at, letter)
            elif call := re.compile(r"#[\w.-]+\(?").match(source, at):
                at = call.end() - 1
                if source[at] == "(":
                    modes.append("code")
            elif letter == "]" and len(modes) > 1:
                modes.pop()
            else:
                yield at
        elif letter in '"$`':
            at = _closing_quote(source, at, letter)
        elif letter == "[":
            modes.append("prose")
        elif letter in _OPENING:
            modes.append("code")
        elif letter in _CLOSING:
            modes.pop()
        at += 1


def _closing_quote(source: str, at: int, quote: str) -> int:
    end = source.find(quote, at + 1)
    while end > 0 and source[end - 1] == "\\":
        end = source.find(quote, end + 1)
    return len(source) if end < 0 else end
