"""``brtheory workloads``: synthetic traces calibrated to published statistics."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from brtheory.cli.description_view import show_description
from brtheory.cli.options import Json, Seed
from brtheory.traces.canonical import write_trace
from brtheory.traces.describe import Description, describe_trace
from brtheory.traces.workloads import (
    find_workload,
    generate_workload,
    published_statistics,
    workload_names,
)

app = typer.Typer(
    help="Synthetic workloads, each calibrated to the published statistics of a real trace.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Name = Annotated[
    str, typer.Argument(help="A name from `brtheory workloads list`.", show_default=False)
]
Requests = Annotated[
    int | None,
    typer.Option("--requests", min=1, help="How many requests; default: the workload's own size."),
]


@app.command("list")
def list_workloads(as_json: Json = False) -> None:
    """List the workloads and where their numbers come from."""
    workloads = [find_workload(name) for name in workload_names()]
    rows = [
        {
            "name": workload.name,
            "synthetic": True,
            "title": workload.published.title,
            "source": workload.published.source,
            "requests": workload.requests,
            "rate_per_s": workload.rate_per_s,
        }
        for workload in workloads
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("name", "calibrated to", "requests", title="synthetic workloads")
    for row in rows:
        table.add_row(
            str(row["name"]), Text(f"{row['title']}: {row['source']}"), f"{row['requests']:,}"
        )
    Console().print(table)


@app.command()
def describe(name: Name, requests: Requests = None, seed: Seed = 0, as_json: Json = False) -> None:
    """Describe a generated workload beside the published figures it is calibrated to."""
    trace = generate_workload(name, requests=requests, seed=seed)
    description = describe_trace(trace, format_name="workload")
    published = published_statistics(name)
    if as_json:
        document = {**description.as_json(), "published": published}
        typer.echo(json.dumps(document, allow_nan=False))
        return
    console = Console()
    show_description(console, description)
    console.print(Text(f"method: {find_workload(name).method}"))
    console.print(_comparison(description, published))


@app.command()
def generate(
    name: Name,
    out: Annotated[
        Path,
        typer.Option("--out", help="Output ending in .csv or .parquet.", show_default=False),
    ],
    requests: Requests = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write a generated workload as a canonical trace file; the same seed gives the same file.

    Parquet keeps the mark that it is synthetic and its source; CSV has no room for them.

    `brtheory workloads generate reasoning-r1 --requests 5000 --out requests.parquet`
    """
    trace = generate_workload(name, requests=requests, seed=seed)
    write_trace(trace, out)
    if as_json:
        summary = {"name": name, "synthetic": True, "rows": len(trace), "seed": seed}
        typer.echo(json.dumps({**summary, "source": trace.source, "out": str(out)}))
    else:
        typer.echo(f"{out}: {len(trace):,} rows, {trace.source}, seed {seed}")


def _comparison(description: Description, published: dict[str, float]) -> Table:
    table = Table("figure", title="published and generated", title_justify="left")
    table.add_column("published", justify="right")
    table.add_column("generated", justify="right")
    for key, value in published.items():
        generated = description.figure(key)
        shown = "not computed" if generated is None else f"{generated:,.6g}"
        table.add_row(key, f"{value:,.6g}", shown)
    return table
