"""The study's table in terminals of any width: nothing is cut, nothing is left out."""

from io import StringIO

import pytest
from rich.console import Console

from brtheory.cli.study_view import comparison_tables
from brtheory.study.comparison_table import COLUMNS, table_rows
from tests.unit.study.samples import ROUTERS, document, metrics

STUDY = document(
    {router: [metrics(90_000 + i), metrics(80_000 + i)] for i, router in enumerate(ROUTERS)}
)


def printed(width):
    console = Console(file=StringIO(), width=width)
    tables = list(comparison_tables(STUDY, console))
    for table in tables:
        console.print(table)
    return tables, console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_every_column_stands_in_one_table_and_every_figure_is_whole(width):
    tables, text = printed(width)
    titles = [column.header.replace("\n", " ") for table in tables for column in table.columns]
    assert [title for title in titles if title != "router"] == [c.title for c in COLUMNS]
    assert titles.count("router") == len(tables)
    assert "…" not in text
    for row in table_rows(STUDY):
        for part in (row.title, *(p for c in row.cells for p in (c.text, c.detail))):
            assert part in text
    assert max(map(len, text.splitlines())) <= width


def test_a_wide_terminal_has_one_table_and_a_usual_one_two():
    assert len(printed(140)[0]) == 1
    assert len(printed(80)[0]) == 2
