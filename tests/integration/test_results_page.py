"""RESULTS.md says what the result files say; regenerate with `python docs/results_page.py`."""

import importlib.util

import pytest

from brtheory.contracts import read_contract
from brtheory.study.grid.document import GridDocument
from brtheory.study.grid.study import read_grid, trimmed
from brtheory.study.grids.catalogue import VIEWS
from tests.conftest import ROOT
from tests.unit.study.grid_samples import VIEW, run_small

spec = importlib.util.spec_from_file_location("results_page", ROOT / "docs" / "results_page.py")
results_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results_page)
KEPT = {name: results_page.KEPT / f"{name}.json" for name in VIEWS}


def test_the_page_is_rendered_from_the_result_files():
    assert (ROOT / "RESULTS.md").read_text(encoding="utf-8") == results_page.page()


@pytest.mark.parametrize("name", [name for name, path in KEPT.items() if path.exists()])
def test_tables_and_sentences_follow_from_the_numbers_kept(name):
    """Nothing in a published study depends on metrics that were cut away."""
    document = read_contract(KEPT[name], GridDocument)
    assert read_grid(document, VIEWS[name]) == document
    assert trimmed(document, VIEWS[name]) == document


def test_the_recommendation_is_on_the_page():
    page = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert "## Which router when" in page
    for finding in read_contract(KEPT["scenarios"], GridDocument).findings:
        assert finding.text in page


def test_a_study_taken_in_is_on_the_page(tmp_path, monkeypatch):
    run_small(tmp_path / "out")
    monkeypatch.setattr(results_page, "KEPT", tmp_path)
    monkeypatch.setattr(results_page, "VIEWS", {"small": VIEW})
    results_page.take_in(tmp_path / "out")
    page = results_page.page()
    assert "## Few slots <or> many" in page
    assert "* 4 groups" in page
    assert "| router | 2 | 4 |" in page
    assert "**" in page
    assert "(docs/images/results/heat.svg)" in page
