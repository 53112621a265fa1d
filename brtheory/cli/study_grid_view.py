"""How a grid study looks in a terminal: its tables, what they say, and where the files are."""

import sys
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from brtheory.cli.wide_table import TextTable, fitting_tables
from brtheory.study.grid.document import Entry, GridDocument, Table
from brtheory.study.report import PAGE

PLAIN_WIDTH = 140
PROSE_WIDTH = 100


def show_grid(document: GridDocument, folder: Path) -> None:
    """Print tables, findings, notes and paths."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(Text(document.title, style="bold"))
    for table in document.tables:
        console.print(Padding(Text(table.title, style="italic"), (1, 0, 0, 0)))
        for part in fitting_tables(_text_table(table), console):
            console.print(part)
    for text in [finding.text for finding in document.findings]:
        console.print(Padding(Text(text), (1, 0, 0, 2)), width=PROSE_WIDTH)
    for text in document.notes:
        console.print(Padding(Text(f"note: {text}"), (1, 0, 0, 2)), width=PROSE_WIDTH)
    files = ", ".join(str(folder / name) for name in ("results.json", "results.parquet"))
    console.print(f"\nnumbers: {files}", soft_wrap=True)
    console.print(str(folder / PAGE), soft_wrap=True)


def _text_table(table: Table) -> TextTable:
    return TextTable(
        corner=table.corner,
        columns=table.columns,
        lines=[
            (line.title, [_entry_text(entry) for entry in line.entries]) for line in table.lines
        ],
    )


def _entry_text(entry: Entry) -> Text:
    text = Text(entry.text, style="bold" if entry.best else "")
    return text.append(f"\n{entry.detail}", style="dim") if entry.detail else text
