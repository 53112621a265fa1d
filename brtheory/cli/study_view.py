"""How a study looks in a terminal: the comparison, in as many tables as its width asks for."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from brtheory.cli.wide_table import TextTable, fitting_tables
from brtheory.study.comparison_table import COLUMNS, TableCell, table_rows
from brtheory.study.report import PAGE, SCOPE_TITLES
from brtheory.study.results import StudyDocument

PLAIN_WIDTH = 140
"""Columns where nobody watches: a file or a pipe has no width of its own."""
PROSE_WIDTH = 100


def show_study(document: StudyDocument, out: Path) -> None:
    """Print the table, what the numbers say in words, and where the files are."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    label = " (synthetic)" if document.trace.synthetic else ""
    console.print(Text(f"{document.trace.name}{label}", style="italic"))
    for table in comparison_tables(document, console):
        console.print(table)
    console.print(f"averages over {SCOPE_TITLES[document.main_scope]}; {_conditions(document)}")
    for finding in document.findings:
        console.print(Padding(Text(finding.text), (1, 0, 0, 2)), width=PROSE_WIDTH)
    for note in document.trace.notes:
        console.print(Padding(Text(f"note: {note}"), (1, 0, 0, 2)), width=PROSE_WIDTH)
    console.print(f"\nnumbers: {out / 'results.json'}, {out / 'results.parquet'}", soft_wrap=True)
    console.print(str(out / PAGE), soft_wrap=True)


def comparison_tables(document: StudyDocument, console: Console) -> Iterator[Table]:
    """One table, or where that is wider than the console several, each as wide as fits."""
    rows = table_rows(document)
    lines = [(row.title, [_cell_text(cell) for cell in row.cells]) for row in rows]
    return fitting_tables(TextTable("router", [column.title for column in COLUMNS], lines), console)


def _cell_text(cell: TableCell) -> Text:
    text = Text(cell.text, style="bold" if cell.best else "")
    return text.append(f"\n{cell.detail}", style="dim") if cell.detail else text


def _conditions(document: StudyDocument) -> str:
    conditions, count = document.conditions, len(document.conditions.seeds)
    seeds = "one seed, no intervals" if count == 1 else f"mean of {count} seeds, 95 % intervals"
    return (
        f"{seeds}; "
        f"{conditions.replicas} replicas x {conditions.slots} slots, {conditions.arrivals}, "
        f"a0 {conditions.a0:g} s/token, b0 {conditions.b0:g} s"
    )
