"""How a grid study looks in a terminal: its tables, what they say, and where the files are."""

from pathlib import Path

from rich.padding import Padding
from rich.text import Text

from brtheory.cli.study_view import figure_text, results_console, show_words
from brtheory.cli.wide_table import TextTable, fitting_tables
from brtheory.study.grid.document import GridDocument, Table


def show_grid(document: GridDocument, folder: Path) -> None:
    """Print tables, findings, notes and paths."""
    console = results_console()
    console.print(Text(document.title, style="bold"))
    for table in document.tables:
        console.print(Padding(Text(table.title, style="italic"), (1, 0, 0, 0)))
        for part in fitting_tables(_text_table(table), console):
            console.print(part)
    show_words(console, document.findings, notes=document.notes, folder=folder)


def _text_table(table: Table) -> TextTable:
    return TextTable(
        corner=table.corner,
        columns=table.columns,
        lines=[
            (line.title, [figure_text(entry) for entry in line.entries]) for line in table.lines
        ],
    )
