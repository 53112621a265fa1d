"""``brtheory tick``: one router decision from a JSON state."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import Json
from brtheory.contracts import at_line, parse_contract, readable
from brtheory.errors import InputError
from brtheory.routers.tick_document import TickDocument, answer_tick

STDIN = "-"


def tick(
    state: Annotated[
        str, typer.Argument(help="A JSON or JSON Lines file, or - for standard input.")
    ],
    as_json: Json = False,
) -> None:
    """Decide one tick for a STATE, or one for each line of a JSON Lines file, in order.

    The state gives the router, its parameters, projected loads and free slots of each replica, and
    the pool, oldest first. The answer lists the admissions in decision order.

    `brtheory tick states.jsonl --json`
    """
    name = "standard input" if state == STDIN else state
    for line, text in _documents(state):
        answer = _answer(text, name=name, line=line)
        if as_json:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        else:
            _show(answer)


def _answer(text: str, *, name: str, line: int) -> dict[str, object]:
    document = parse_contract(text, TickDocument, name=name, first_line=line)
    try:
        return answer_tick(document)
    except InputError as error:
        raise at_line(error, text, name=name, first_line=line) from error


def _documents(state: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text): one document a line, or one that spans the whole file."""
    if state == STDIN:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")  # whatever the locale
        yield from _split(enumerate(sys.stdin, start=1), name="standard input")
        return
    with readable(Path(state)), Path(state).open(encoding="utf-8-sig") as lines:
        yield from _split(enumerate(lines, start=1), name=state)


def _split(lines: Iterator[tuple[int, str]], *, name: str) -> Iterator[tuple[int, str]]:
    try:
        first = next(((n, text) for n, text in lines if text.strip()), None)
        if first is None:
            raise InputError(name, "a JSON object", "nothing")
        if not _is_complete(first[1]):
            yield first[0], first[1] + "".join(text for _, text in lines)
            return
        yield first
        yield from ((n, text) for n, text in lines if text.strip())
    except UnicodeDecodeError as error:
        raise InputError(name, "UTF-8 text", f"byte {error.start} that is not") from error


def _is_complete(line: str) -> bool:
    """Whether a line is a JSON document of its own, or broken in a way no further line mends."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos < len(line.rstrip())
    except (ValueError, RecursionError):
        return True
    return True


def _show(answer: dict[str, object]) -> None:
    table = Table("request", "replica", "stage", "score")
    admissions = answer["admissions"]
    assert isinstance(admissions, list)  # noqa: S101  # shape of TickAnswerDocument
    for admission in admissions:
        table.add_row(*(str("-" if value is None else value) for value in admission.values()))
    Console().print(table)
