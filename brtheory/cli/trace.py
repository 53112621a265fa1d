"""``brtheory trace``: what a trace file is, and how to turn it into a canonical one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from brtheory.cli.description_view import show_description, show_dropped
from brtheory.cli.option_groups import grouped
from brtheory.cli.options import Json
from brtheory.cli.trace_input import (
    ColumnsOption,
    Count,
    End,
    OnErrorChoice,
    OnErrorOption,
    Rate,
    Start,
    parse_columns,
    reading_bar,
)
from brtheory.traces.canonical import write_trace
from brtheory.traces.describe import describe_stream
from brtheory.traces.figure import description_figure, save_figure
from brtheory.traces.read import TraceStream, collect, stream_trace

app = typer.Typer(
    help="Read traces of LLM requests: Azure, BurstGPT, Mooncake, Qwen, vidur, ServeGen, any CSV, "
    "JSON Lines or Parquet.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


File = Annotated[
    Path,
    typer.Argument(
        help="Trace file; its format and compression (gzip, zstd) are told by its content. "
        "For ServeGen a chunk-N-trace.csv or the directory of all of them.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class ReadingOptions:
    """What to keep of a trace file, and what to do with its bad rows."""

    on_error: OnErrorOption = OnErrorChoice.RAISE
    limit: Count = None
    start: Start = None
    end: End = None
    rate: Rate = 1.0
    columns: ColumnsOption = None
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="For ServeGen, whose requests are sampled.")
    ] = 0

    def stream(self, file: Path, advance: Callable[[int], None]) -> TraceStream:
        """Open a trace file; ``advance`` is told how many bytes of it have been read."""
        return stream_trace(
            file,
            on_error=self.on_error.value,
            limit=self.limit,
            start_s=self.start,
            end_s=self.end,
            rate=self.rate,
            columns=parse_columns(self.columns),
            seed=self.seed,
            on_progress=advance,
        )


@app.command()
@grouped
def describe(
    file: File,
    reading: ReadingOptions,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it: a file ending in .svg or .png.")
    ] = None,
) -> None:
    """Say what a trace is: size, rate, burstiness, token percentiles, and what is unusual.

    Reads a file of any size in bounded memory. Percentiles are exact.

    `brtheory trace describe requests.csv --plot requests.svg`
    """
    with reading_bar(file) as advance:
        description = describe_stream(reading.stream(file, advance))
    if plot is not None:
        save_figure(description_figure(description), plot)
    if as_json:
        typer.echo(json.dumps(description.as_json(), allow_nan=False))
    else:
        show_description(Console(), description)


@app.command()
@grouped
def convert(
    file: File,
    out: Annotated[
        Path, typer.Argument(help="Output ending in .csv or .parquet.", show_default=False)
    ],
    reading: ReadingOptions,
    as_json: Json = False,
) -> None:
    """Write a trace as a canonical file: arrival_s, prompt_tokens, output_tokens.

    Parquet also keeps where the trace comes from and whether it is synthetic; CSV does not. The
    output appears whole or not at all.

    `brtheory trace convert requests.jsonl.gz requests.parquet --on-error skip`
    """
    with reading_bar(file) as advance:
        result = collect(reading.stream(file, advance))
    write_trace(result.trace, out)
    if as_json:
        summary = {
            "format": result.format,
            "rows": len(result.trace),
            "dropped": result.dropped,
            "out": str(out),
        }
        typer.echo(json.dumps(summary))
        return
    console = Console()
    show_dropped(console, result.dropped)
    typer.echo(f"{out}: {len(result.trace):,} rows from {result.format}")
