"""Measured steps read from CSV or JSON Lines: the load of each and how long it took.

A record has a load in KV tokens (``max_load``, or ``load``) and seconds (``seconds``, or ``gap_s``,
the time between two tokens of a stream: in lockstep each request makes one token a step, so a gap
is a step). ``replica`` names where it was measured; other columns are not looked at.
"""

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brtheory.analysis.step_time_fit import check_step
from brtheory.contracts import read_text
from brtheory.errors import InputError

LOADS, TIMES, REPLICA = ("max_load", "load"), ("seconds", "gap_s"), "replica"
SUFFIXES = (".csv", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class StepRecords:
    """Measured steps of one replica, or of all together.

    Parameters
    ----------
    replica
        Its name; None for all together.
    max_load, seconds
        Shape (n,), float64: tokens >= 0 and durations > 0, in file order.
    """

    replica: str | None
    max_load: NDArray[np.float64]
    seconds: NDArray[np.float64]


def read_step_records(path: Path, *, per_replica: bool = False) -> list[StepRecords]:
    """Read a file of records.

    Parameters
    ----------
    path
        Ending in .csv (with a header), .jsonl or .ndjson.
    per_replica
        Whether to keep replicas apart; every record must then name its own.

    Returns
    -------
    list of StepRecords
        One element, or one a replica, sorted by name.

    Raises
    ------
    InputError
        With ``file:line`` if a record does not fit, or if there is none.
    """
    groups: defaultdict[str | None, list[tuple[float, float]]] = defaultdict(list)
    for where, record in _records(path):
        replica = _replica(record, where) if per_replica else None
        load = _number(record, LOADS, where=where, expected="tokens >= 0")
        seconds = _number(record, TIMES, where=where, expected="a duration > 0")
        try:
            check_step(load, seconds)
        except InputError as error:
            raise InputError(where, error.expected, error.got) from error
        groups[replica].append((load, seconds))
    if not groups:
        raise InputError(str(path), "at least one record", "none")
    return [
        StepRecords(replica, *np.array(rows, dtype=np.float64).T)
        for replica, rows in sorted(groups.items(), key=lambda group: str(group[0]))
    ]


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(str(path), "a file ending in " + ", ".join(SUFFIXES), path.name)
    lines = read_text(path).splitlines()
    return _csv(path, lines) if suffix == ".csv" else _json_lines(path, lines)


def _csv(path: Path, lines: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(lines, strict=True)
    try:
        for record in reader:
            if None in record or None in record.values():
                fields = len(reader.fieldnames or ())
                raise InputError(f"{path}:{reader.line_num}", f"{fields} fields", "another number")
            yield f"{path}:{reader.line_num}", record
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}", "CSV", str(error)) from error


def _json_lines(path: Path, lines: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(where, "one JSON object a line", line[:40]) from error
        if not isinstance(record, dict):
            raise InputError(where, "one JSON object a line", line[:40])
        yield where, record


def _replica(record: Mapping[str, Any], where: str) -> str:
    value = record.get(REPLICA)
    if value is None or value == "":
        raise InputError(where, f"a field {REPLICA!r} to tell replicas apart", "none")
    return str(value)


def _number(
    record: Mapping[str, Any], names: tuple[str, ...], *, where: str, expected: str
) -> float:
    name = next((name for name in names if name in record), None)
    if name is None:
        raise InputError(where, "a field " + " or ".join(names), ", ".join(map(str, record)))
    value = record[name]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: {name}", expected, repr(value))
    return number
