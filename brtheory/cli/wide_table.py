"""Tables as wide as the terminal: one, or several where that is too narrow for all columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class TextTable:
    """Headings, and lines of a title and as many texts as there are columns."""

    corner: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Text]]]


def fitting_tables(table: TextTable, console: Console) -> Iterator[Table]:
    """One table, or where that is wider than the console several, each as wide as fits."""
    start = 0
    while start < len(table.columns):
        end = len(table.columns)
        while end > start + 1 and not _fits(_part(table, range(start, end)), console):
            end -= 1
        yield _part(table, range(start, end))
        start = end


def _fits(table: Table, console: Console) -> bool:
    # Asked of a console without bounds, because measuring is clamped to the width at hand.
    unbounded = console.options.update(max_width=10_000)
    return console.measure(table, options=unbounded).maximum <= console.width


def _part(table: TextTable, columns: Sequence[int]) -> Table:
    part = Table(show_edge=False)
    part.add_column(table.corner, no_wrap=True)
    for column in columns:
        # Two words on two lines: a heading should not be wider than its numbers.
        title = "\n".join(table.columns[column].rsplit(" ", 1))
        part.add_column(title, justify="right", no_wrap=True)
    for title, texts in table.lines:
        part.add_row(Text(title), *(texts[column] for column in columns))
    return part
