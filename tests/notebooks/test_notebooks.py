"""Notebooks run, and each executed .ipynb is its source with outputs."""

from pathlib import Path

import nbformat
import pytest

from notebooks.build import cells, execute, read_source, sources

SOURCES = sources()
EXPECTED = {
    "g_scaling",
    "optimality_gap",
    "predictors",
    "proof_ledger",
    "start_here",
    "your_trace",
}


def _executed(source: Path) -> nbformat.NotebookNode:
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def test_the_promised_notebooks_exist() -> None:
    assert {source.stem for source in SOURCES} == EXPECTED


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_is_its_source_with_outputs(source: Path) -> None:
    assert cells(_executed(source)) == cells(read_source(source))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_every_cell_of_a_committed_notebook_ran_without_an_error(source: Path) -> None:
    code = [cell for cell in _executed(source).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_runs_in_a_small_size(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRTHEORY_NOTEBOOK_SIZE", "smoke")
    notebook = execute(source)
    assert any(cell.get("outputs") for cell in notebook.cells)
