"""ServeGen client data: windows of arrival rates and length tables, sampled into requests.

A client is a pair of files, ``chunk-N-trace.csv`` (no header: window start in seconds, requests
per second, CV, pattern, shape, scale; a window without a pattern is silent) and
``chunk-N-dataset.json`` (window start -> field -> the text of a Python dictionary token count ->
probability). The text is parsed as a literal and never evaluated.

In each window gaps follow the client's pattern (gamma or Weibull with the given shape), scaled to
its rate; prompt and output lengths are drawn independently of each other from the latest table at
or before the window: nothing but the two marginal laws is published.
"""

import ast
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from brtheory.errors import InputError
from brtheory.traces.blocks import read_blocks
from brtheory.traces.checks import RawRows
from brtheory.traces.faults import Faults
from brtheory.traces.formats import ARRIVAL, OUTPUT, PROMPT, Layout

LAYOUT = Layout(
    format="servegen",
    source="sampled from ServeGen client data (alibaba/ServeGen, Apache-2.0)",
    fields=(),
    columns={ARRIVAL: ARRIVAL, PROMPT: PROMPT, OUTPUT: OUTPUT},
    zero_output_is_failure=True,
)

_PATTERNS = ("gamma", "weibull")
_FIELDS = {PROMPT: "input_tokens", OUTPUT: "output_tokens"}
_HEADER = ("window", "rate", "cv", "pattern", "shape", "scale")
_LAST_WINDOW_S = 600.0  # the published windows' length, for a client with a single window


@dataclass(frozen=True)
class _Window:
    start_s: float
    rate: float
    pattern: str
    shape: float


@dataclass(frozen=True)
class _Client:
    dataset: Path
    windows: Sequence[_Window]
    tables: Mapping[float, Mapping[str, object]]


def is_servegen_line(fields: Sequence[str]) -> bool:
    """Return whether the first line of a CSV file is one of ServeGen's windows (or its header)."""
    cells = [field.strip().lower() for field in fields]
    if len(cells) != len(_HEADER):
        return False
    return tuple(cells) == _HEADER or (
        cells[3] in ("", *_PATTERNS) and all(_is_number(cells[place]) for place in (0, 1, 2, 4, 5))
    )


def client_files(path: Path) -> list[Path]:
    """Return the window files of a path: itself, or all ``*-trace.csv`` of a directory."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*-trace.csv"))
    if not files:
        raise InputError(
            str(path), "a trace file, or a directory of ServeGen clients (*-trace.csv)", "neither"
        )
    return files


def servegen_rows(
    path: Path, *, seed: int = 0, on_progress: Callable[[int], None] | None = None
) -> Generator[RawRows, None, None]:
    """Yield requests sampled from one client, or from all clients of a directory, by window."""
    random = np.random.default_rng(seed)
    clients = [_read_client(file, on_progress) for file in client_files(path)]
    starts = sorted({window.start_s for client in clients for window in client.windows})
    ends = [*starts[1:], starts[-1] + _window_length(starts)]
    for start, end in zip(starts, ends, strict=True):
        parts = [
            _sample(client, window, end_s=end, random=random)
            for client in clients
            for window in client.windows
            if window.start_s == start and window.pattern and window.rate > 0
        ]
        if parts:
            yield _merged(
                path, start, [np.concatenate(column) for column in zip(*parts, strict=True)]
            )


def _window_length(starts: Sequence[float]) -> float:
    return starts[-1] - starts[-2] if len(starts) > 1 else _LAST_WINDOW_S


def _merged(path: Path, start: float, columns: list[NDArray[np.float64]]) -> RawRows:
    order = np.argsort(columns[0], kind="stable")
    sampled = {
        role: pl.Series(column[order])
        for role, column in zip((ARRIVAL, PROMPT, OUTPUT), columns, strict=True)
    }
    faults = Faults(
        lambda row: f"{path}: window {start:g}, row {row + 1}", np.zeros(len(order), np.int64)
    )
    return RawRows(sampled, faults)


def _sample(
    client: _Client, window: _Window, *, end_s: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], ...]:
    length = end_s - window.start_s
    arrivals = window.start_s + _arrivals(window, length, random)
    tables = _tables_at(client, window.start_s)
    lengths = (_draw(client, tables, role, len(arrivals), random) for role in (PROMPT, OUTPUT))
    return arrivals, *lengths


def _arrivals(window: _Window, length_s: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Return arrival times from the window's start: gaps of the client's law scaled to its rate."""
    expected = window.rate * length_s
    count = int(expected) + int(random.random() < expected % 1.0)
    draws = (
        random.standard_gamma(window.shape, count + 1)
        if window.pattern == "gamma"
        else random.weibull(window.shape, count + 1)
    )
    times = np.cumsum(draws)
    scaled: NDArray[np.float64] = (
        times[:count] * (length_s / times[-1]) if times[-1] > 0 else times[:count]
    )
    return scaled


def _tables_at(client: _Client, start_s: float) -> tuple[float, Mapping[str, object]]:
    earlier = [key for key in client.tables if key <= start_s]
    if not earlier:
        expected = f"length tables at or before window {start_s:g}"
        raise InputError(str(client.dataset), expected, "none")
    key = max(earlier)
    return key, client.tables[key]


def _draw(
    client: _Client,
    tables: tuple[float, Mapping[str, object]],
    role: str,
    count: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    window, fields = tables
    where = f"{client.dataset}: {window:g}.{_FIELDS[role]}"
    tokens, weights = _parse_table(str(fields.get(_FIELDS[role])), where)
    place = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(count), side="right")
    return tokens[place]


@lru_cache(maxsize=1024)
def _parse_table(text: str, where: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return token counts and their probabilities from the text of a Python dictionary."""
    expected = "the text of a dictionary token count -> probability"
    try:
        table = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise InputError(where, expected, text[:60]) from error
    if not isinstance(table, dict) or not table:
        raise InputError(where, expected, text[:60])
    if not all(type(key) is int and key >= 0 for key in table):
        raise InputError(where, "whole token counts >= 0", text[:60])
    if not all(type(value) in (int, float) and 0 <= value <= 1 for value in table.values()):
        raise InputError(where, "probabilities from 0 to 1", text[:60])
    weights = np.array(list(table.values()), np.float64)
    if not np.isclose(weights.sum(), 1.0, atol=1e-6):
        raise InputError(where, "probabilities that sum to 1", f"a sum of {weights.sum():.6g}")
    return np.array(list(table), np.float64), weights


def _read_client(path: Path, on_progress: Callable[[int], None] | None) -> _Client:
    if not path.name.endswith("-trace.csv"):
        expected = "a ServeGen client named *-trace.csv beside its *-dataset.json"
        raise InputError(str(path), expected, path.name)
    dataset = path.with_name(path.name.removesuffix("-trace.csv") + "-dataset.json")
    windows = list(_windows(path, on_progress))
    if not windows:
        raise InputError(f"{path}:1", "at least one window", "none")
    return _Client(dataset, windows, _read_tables(dataset))


def _windows(path: Path, on_progress: Callable[[int], None] | None) -> Iterator[_Window]:
    number, previous = 0, -np.inf
    for block in read_blocks(path, on_progress=on_progress):
        for line in block.data.decode("utf-8", errors="replace").splitlines():
            number += 1
            cells = [cell.strip() for cell in line.split(",")]
            if not line.strip() or (number == 1 and tuple(cells) == _HEADER):
                continue
            window = _window(cells, f"{path}:{number}")
            if window.start_s <= previous:
                raise InputError(f"{path}:{number}", f"a window after {previous:g}", cells[0])
            previous = window.start_s
            yield window


def _window(cells: Sequence[str], where: str) -> _Window:
    if not is_servegen_line(cells):
        raise InputError(where, ",".join(_HEADER), ",".join(cells)[:60])
    start, rate, shape = (float(cells[place]) for place in (0, 1, 4))
    window = _Window(start, rate, cells[3].lower(), shape)
    if not (np.isfinite(start) and np.isfinite(rate) and start >= 0 and rate >= 0):
        raise InputError(where, "window start and rate >= 0", ",".join(cells)[:60])
    if window.pattern and rate > 0 and not (np.isfinite(shape) and shape > 0):
        raise InputError(where, "a shape > 0", cells[4])
    return window


def _read_tables(path: Path) -> dict[float, Mapping[str, object]]:
    """Return the windows that have tables; empty tables mean no requests were seen there."""
    text = b"".join(block.data for block in read_blocks(path))
    try:
        value = json.loads(text)
        tables = {float(key): fields for key, fields in value.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            str(path), "a JSON object of windows", " ".join(str(error).split())
        ) from error
    for key, fields in tables.items():
        if not isinstance(fields, dict):
            raise InputError(f"{path}: {key:g}", "an object of length tables", str(fields)[:60])
    return {
        key: fields
        for key, fields in tables.items()
        if all(str(fields.get(name, "{}")).strip() != "{}" for name in _FIELDS.values())
    }


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
