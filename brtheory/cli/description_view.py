"""How a description of a trace looks in a terminal: figures, small histograms, warnings."""

from collections.abc import Mapping

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brtheory.traces.describe import Description
from brtheory.traces.histograms import IntegerHistogram

_BINS = 12
_BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_description(console: Console, description: Description) -> None:
    """Print a description."""
    console.print(_overview(description))
    console.print(_tokens_table(description))
    console.print(
        Columns(
            [
                _histogram("prompt tokens", description.prompt_histogram),
                _histogram("output tokens", description.output_histogram),
            ],
            padding=(0, 4),
        )
    )
    show_dropped(console, description.dropped)
    for sentence in description.unusual:
        console.print(Text(f"! {sentence}", style="yellow"))


def show_dropped(console: Console, dropped: Mapping[str, int]) -> None:
    """Print the rows dropped by reason, or nothing if there were none."""
    if not dropped:
        return
    table = Table("reason", title="rows dropped", title_justify="left")
    table.add_column("rows", justify="right")
    for reason, rows in sorted(dropped.items(), key=lambda item: -item[1]):
        table.add_row(escape(reason), f"{rows:,}")
    console.print(table)


def bar(share: float, cells: int) -> str:
    """Return a horizontal bar that fills ``share`` (0 to 1) of ``cells`` characters."""
    eighths = round(share * cells * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _overview(description: Description) -> Table:
    grid = Table.grid(padding=(0, 2))
    mark = "  SYNTHETIC" if description.synthetic else ""
    facts = {
        "name": f"{description.name}{mark}",
        "format": description.format,
        "source": description.source,
        "rows": f"{description.rows:,}",
        "time span": _number(description.time_span_s, "s"),
        "rate": _number(description.rate_per_s, "requests/s"),
        "inter-arrival CV": _number(description.interarrival_cv),
        "correlation": _number(description.correlation, "(prompt, output tokens)"),
    }
    for key, value in facts.items():
        grid.add_row(Text(key, style="bold"), Text(value))
    return grid


def _number(value: float | None, unit: str = "") -> str:
    return "unknown" if value is None else f"{value:,.6g} {unit}".rstrip()


def _tokens_table(description: Description) -> Table:
    table = Table("tokens")
    table.add_column("prompt", justify="right")
    table.add_column("output", justify="right")
    for key, prompt in description.prompt_tokens.items():
        table.add_row(key, f"{prompt:,.6g}", f"{description.output_tokens[key]:,.6g}")
    return table


def _histogram(title: str, histogram: IntegerHistogram) -> Table:
    edges, counts = histogram.log_bins(_BINS)
    table = Table.grid(padding=(0, 1))
    table.title = title
    table.title_justify = "left"
    tallest, total = counts.max(), counts.sum()
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        label = f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
        table.add_row(
            Text(label, justify="right"),
            Text(bar(count / tallest, _BAR_CELLS).ljust(_BAR_CELLS), style="cyan"),
            Text(f"{count / total:.1%}", justify="right"),
        )
    return table
