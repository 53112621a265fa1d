"""How a study looks in a terminal: the comparison, in as many tables as its width asks for."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from brtheory.cli.wide_table import TextTable, fitting_tables
from brtheory.study.comparison_table import COLUMNS, TableCell, table_rows
from brtheory.study.grid.document import Entry
from brtheory.study.report import PAGE, SCOPE_TITLES
from brtheory.study.results import Finding, StudyDocument

PLAIN_WIDTH = 140
"""Columns where nobody watches: a file or a pipe has no width of its own."""
PROSE_WIDTH = 100


def show_study(document: StudyDocument, out: Path) -> None:
    """Print the table, what the numbers say in words, and where the files are."""
    console = results_console()
    label = " (synthetic)" if document.trace.synthetic else ""
    console.print(Text(f"{document.trace.name}{label}", style="italic"))
    for table in comparison_tables(document, console):
        console.print(table)
    console.print(f"averages over {SCOPE_TITLES[document.main_scope]}; {_conditions(document)}")
    show_words(console, document.findings, notes=document.trace.notes, folder=out)


def results_console() -> Console:
    """A console as wide as the terminal, or ``PLAIN_WIDTH`` where there is none."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def show_words(
    console: Console, findings: Sequence[Finding], *, notes: Sequence[str], folder: Path
) -> None:
    """Print what the numbers say, what to know about them, and where the files are."""
    for text in [*(finding.text for finding in findings), *(f"note: {note}" for note in notes)]:
        console.print(Padding(Text(text), (1, 0, 0, 2)), width=PROSE_WIDTH)
    numbers = f"\nnumbers: {folder / 'results.json'}, {folder / 'results.parquet'}"
    console.print(numbers, soft_wrap=True)
    console.print(str(folder / PAGE), soft_wrap=True)


def figure_text(figure: TableCell | Entry) -> Text:
    """A figure of a table: bold where it is the best, what is beside it below."""
    text = Text(figure.text, style="bold" if figure.best else "")
    return text.append(f"\n{figure.detail}", style="dim") if figure.detail else text


def comparison_tables(document: StudyDocument, console: Console) -> Iterator[Table]:
    """One table, or where that is wider than the console several, each as wide as fits."""
    rows = table_rows(document)
    lines = [(row.title, [figure_text(cell) for cell in row.cells]) for row in rows]
    return fitting_tables(TextTable("router", [column.title for column in COLUMNS], lines), console)


def _conditions(document: StudyDocument) -> str:
    conditions, count = document.conditions, len(document.conditions.seeds)
    seeds = "one seed, no intervals" if count == 1 else f"mean of {count} seeds, 95 % intervals"
    return (
        f"{seeds}; "
        f"{conditions.replicas} replicas x {conditions.slots} slots, {conditions.arrivals}, "
        f"a0 {conditions.a0:g} s/token, b0 {conditions.b0:g} s"
    )
