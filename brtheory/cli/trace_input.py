"""Options that say which requests a command takes: a trace file, how to read it, or a workload."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from brtheory.cli.progress import progress_bar
from brtheory.errors import InputError
from brtheory.traces.read import read_trace
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import generate_workload

PANEL = "Requests"


class OnErrorChoice(StrEnum):
    """What to do with a bad row."""

    RAISE = "raise"
    SKIP = "skip"


OnErrorOption = Annotated[
    OnErrorChoice,
    typer.Option(
        "--on-error",
        help="raise: stop at the first bad row. skip: drop bad rows and count them by reason.",
        rich_help_panel=PANEL,
    ),
]
Start = Annotated[
    float | None,
    typer.Option(
        "--start",
        min=0.0,
        help="Keep rows from this second on, counted from the first.",
        rich_help_panel=PANEL,
    ),
]
End = Annotated[
    float | None,
    typer.Option(
        "--end",
        help="Keep rows before this second, counted from the first.",
        rich_help_panel=PANEL,
    ),
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate",
        help="Multiply the arrival rate by this, e.g. 2 halves the gaps.",
        rich_help_panel=PANEL,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Which columns to use where names are unusual, e.g. "
        "prompt_tokens=IN,output_tokens=OUT; also arrival_s (case does not matter).",
        rich_help_panel=PANEL,
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Trace file (see `brtheory trace describe`).",
        rich_help_panel=PANEL,
    ),
]
WorkloadName = Annotated[
    str | None,
    typer.Option(
        "--workload",
        help="Embedded workload instead (see `brtheory workloads list`).",
        rich_help_panel=PANEL,
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        "--requests",
        "--limit",
        min=1,
        help="Keep at most so many.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class RequestOptions:
    """The requests of a run: of a trace file, or of an embedded workload."""

    trace: TraceFile = None
    workload: WorkloadName = None
    requests: Count = None
    on_error: OnErrorOption = OnErrorChoice.RAISE
    start: Start = None
    end: End = None
    rate: Rate = 1.0
    columns: ColumnsOption = None

    def load(self, *, seed: int) -> tuple[Trace, dict[str, int]]:
        """Read the trace file or generate the workload, exactly one of which must be given.

        Returns
        -------
        tuple
            The requests, and the rows dropped by reason.

        Raises
        ------
        InputError
            If both or neither are given, an option does not go with a workload, or the input does
            not fit.
        """
        if self.trace is not None and self.workload is None:
            with reading_bar(self.trace) as advance:
                result = read_trace(
                    self.trace, on_error=self.on_error.value, limit=self.requests,
                    start_s=self.start, end_s=self.end, rate=self.rate,
                    columns=parse_columns(self.columns), seed=seed, on_progress=advance,
                )  # fmt: skip
            return result.trace, result.dropped
        if self.workload is not None and self.trace is None:
            refuse_reading_options(start=self.start, end=self.end, columns=self.columns)
            generated = generate_workload(self.workload, requests=self.requests, seed=seed)
            return generated.scaled(self.rate) if self.rate != 1 else generated, {}
        got = "both" if self.trace else "none"
        raise InputError("input", "one of --trace FILE and --workload NAME", got)


def refuse_reading_options(*, start: float | None, end: float | None, columns: str | None) -> None:
    """Refuse options that say how to read a trace where none is read.

    Raises
    ------
    InputError
        If one of them is given.
    """
    for name, value in (("--start", start), ("--end", end), ("--columns", columns)):
        if value is not None:
            raise InputError(name, "a --trace FILE to read", "a workload")


def parse_columns(text: str | None) -> dict[str, str] | None:
    """Return role to column name from ``role=NAME,role=NAME``.

    Raises
    ------
    InputError
        If a part is not of that form or a role comes twice.
    """
    if text is None:
        return None
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not (role and equals and name):
            raise InputError("--columns", "role=NAME,role=NAME", part)
        if role.lower() in columns:
            raise InputError("--columns", "each role once", role)
        columns[role.lower()] = name
    return columns


@contextmanager
def reading_bar(file: Path) -> Iterator[Callable[[int], None]]:
    """Show a bar over the bytes of a trace file and yield ``advance(bytes)``."""
    total = file.stat().st_size if file.is_file() else None
    with progress_bar(f"reading {escape(file.name)}", total=total) as advance:
        yield advance
