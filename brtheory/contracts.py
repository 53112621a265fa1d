"""JSON documents with a contract: read strictly, and point at the line that does not fit.

A contract is a pydantic model; its JSON Schema is published under docs/schemas. Duplicate keys,
NaN, unknown fields and numbers of the wrong kind are refused with ``file:line``.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from brtheory.errors import InputError

Model = TypeVar("Model")
Location = Sequence[int | str]


class Contract(BaseModel):
    """Base of every document: strict types, no unknown fields, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def read_contract(path: Path, model: type[Model]) -> Model:
    """Read one JSON document from a file.

    Raises
    ------
    InputError
        With ``file:line`` if the text is not JSON or does not fit the contract.
    """
    return parse_contract(read_text(path), model, name=str(path))


def schema_of(path: Path) -> object:
    """The contract a file names; None if it names none, which its reader then reports."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return document.get("schema") if isinstance(document, dict) else None


def read_text(path: Path) -> str:
    """Read a UTF-8 file; a byte order mark is left out.

    Raises
    ------
    InputError
        If the file cannot be read, or its bytes are not UTF-8.
    """
    try:
        with readable(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), "UTF-8 text", f"byte {error.start} that is not") from error


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn a failure to open or read ``path`` in the block into bad input.

    Raises
    ------
    InputError
        If it is missing, a directory, or cannot be read.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(path)):
            raise
        reason = (error.strerror or str(error)).lower()
        raise InputError(str(path), "a readable file", reason) from error


def parse_contract(text: str, model: type[Model], *, name: str, first_line: int = 1) -> Model:
    """Parse and check one JSON document.

    Parameters
    ----------
    text
        The document.
    model
        The pydantic model it must fit.
    name
        File name used in messages.
    first_line
        Line of the file on which ``text`` starts.

    Raises
    ------
    InputError
        As ``read_contract``.
    """
    try:
        data = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{first_line + error.lineno - 1}", "JSON", error.msg) from error
    except _BadValueError as error:
        line = first_line + text[: text.find(error.token)].count("\n")
        raise InputError(f"{name}:{line}", error.expected, error.token) from error
    except RecursionError as error:
        raise InputError(
            f"{name}:{first_line}", "JSON nested less deeply", "too many levels"
        ) from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise InputError(
            f"{name}:{first_line}", "JSON numbers of sane length", str(error)
        ) from error
    try:
        return TypeAdapter(model).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = first_line + line_of(text, first["loc"]) - 1
        raise InputError(f"{name}:{line}", *_expected_got(first)) from error


def line_of(text: str, location: Location) -> int:
    """Line (from 1) of the value at ``location`` (keys and indices) in a JSON text.

    Where the path leaves the document (a missing field), the line of its last existing parent.
    """
    position = _skip_space(text, 0)
    for part in location:
        child = _child(text, position, part)
        if child is None:
            break
        position = child
    return text.count("\n", 0, position) + 1


def at_line(error: InputError, text: str, *, name: str, first_line: int = 1) -> InputError:
    """Point an error about a part of a document (``requests[3].id``) at ``file:line``."""
    location = [
        int(token) if token.isdigit() else token for token in re.findall(r"\w+", error.where)
    ]
    line = first_line + line_of(text, location) - 1
    return InputError(f"{name}:{line}: {error.where}", error.expected, error.got)


class _BadValueError(Exception):
    def __init__(self, expected: str, token: str) -> None:
        super().__init__(expected)
        self.expected = expected
        self.token = token


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _BadValueError("keys used once", f'"{twice}"')
    return result


def _refuse_constant(token: str) -> None:
    raise _BadValueError("finite numbers", token)


def _expected_got(error: Any) -> tuple[str, str]:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"]).lstrip(".")
    message = error["msg"][0].lower() + error["msg"][1:]
    message = message.removeprefix("input should be ").removeprefix("value error, ")
    if error["type"] == "missing":
        return f"field {path}", "nothing"
    if error["type"] == "extra_forbidden":
        return "known fields only", path
    got = json.dumps(error["input"], default=str)
    return f"{path} to be {message}" if path else message, got if len(got) <= 60 else got[
        :57
    ] + "..."


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _child(text: str, position: int, part: int | str) -> int | None:
    """Position of member ``part`` of the container that starts at ``position``, or None."""
    opening = text[position : position + 1]
    if opening not in ("{", "["):
        return None
    index, position = 0, _skip_space(text, position + 1)
    while text[position] not in "}]":
        key: int | str = index
        if opening == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        if key == part:
            return position
        _, position = _DECODER.raw_decode(text, position)
        position = _skip_space(text, position)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
        index += 1
    return None
