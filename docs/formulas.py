"""Docstrings hold plain formulas (``G*(Delta - m)_+``): the site shows stars, not emphasis.

A Griffe extension; MkDocs loads it through mkdocs.yml.
"""

import re
from typing import Any

import griffe

CODE = re.compile(r"(`[^`]*`)")
MARKS = re.compile(r"[*_](?=\W|$)|(?<=\W)[*_]|\*")


class Formulas(griffe.Extension):
    """Escapes what Markdown would read as emphasis."""

    def on_object(self, *, obj: griffe.Object, **_kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            lines = obj.docstring.value.splitlines()
            obj.docstring.value = "\n".join(escaped(line) for line in lines)


def escaped(line: str) -> str:
    """A line of prose with literal stars; code and list marks stay what they are."""
    if line.startswith("    ") or line.lstrip().startswith((">>>", "...", "* ")):
        return line
    parts = CODE.split(line)
    return "".join(
        part if at % 2 else MARKS.sub(lambda found: "\\" + found[0], part)
        for at, part in enumerate(parts)
    )
