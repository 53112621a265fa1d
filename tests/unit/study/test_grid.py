"""Grid studies: rows, paired ratios, files that survive a stop, a page that opens offline."""

import json
import re
from dataclasses import replace

import polars as pl
import pytest

from brtheory.analysis.statistics import ratio_of_means
from brtheory.errors import InputError
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import simulate
from brtheory.study.grid.document import Baseline, GridDocument
from brtheory.study.grid.plan import ROUTER, Plan
from tests.conftest import ROOT
from tests.unit.study.grid_samples import METRIC, run_small, small_plan
from tests.unit.study.page import Page


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder and the document of a finished study with a law in it."""
    folder = tmp_path_factory.mktemp("grid")
    return folder, run_small(folder, small_plan(law=True))


def test_means_and_paired_ratios_are_those_of_the_runs(finished):
    _, document = finished
    plan, values = small_plan(), {}
    for cell in plan.cells:
        trace = cell.supply.take(cell.requests, seed=cell.seed)
        window = summarise(simulate(trace, cell.task.config))["loaded_window"]
        values.setdefault(tuple(cell.labels.items()), []).append(window[METRIC])
    for labels, measured in values.items():
        estimate = document.estimate(METRIC, dict(labels))
        assert estimate.values == measured
        against = ratio_of_means(measured, values[labels[0], (ROUTER, "jsq")])
        assert estimate.ratio == against.value
    own = document.estimate(METRIC, {"slots": 2, ROUTER: "jsq"})
    assert (own.ratio, own.ratio_low, own.ratio_high) == (1.0, None, None)


def test_a_law_is_a_cell_like_any_other(finished):
    _, document = finished
    law = document.estimate("imbalance_per_replica_tokens", {"slots": 2, ROUTER: "law"})
    simulated = document.estimate("imbalance_per_replica_tokens", {"slots": 2, ROUTER: "jsq"})
    assert law.ratio == pytest.approx(law.mean / simulated.mean)


def test_parquet_has_a_row_a_run_and_scope_and_a_column_an_axis(finished):
    folder, document = finished
    frame = pl.read_parquet(folder / "results.parquet")
    # 2 slots x 2 routers x 2 seeds and a law x 2 seeds, over 2 scopes.
    assert frame.height == 2 * (2 * 2 * 2 + 2)
    chosen = (pl.col("slots") == 4) & (pl.col(ROUTER) == "br0")
    window = frame.filter(chosen & (pl.col("scope") == "loaded_window")).sort("seed")
    assert window[METRIC].to_list() == document.estimate(METRIC, {"slots": 4, ROUTER: "br0"}).values


def test_the_file_reads_back_as_the_document(finished):
    folder, document = finished
    text = (folder / "results.json").read_text(encoding="utf-8")
    assert GridDocument.model_validate_json(text) == document
    assert document.findings[0].text == "5 groups"


def test_tables_bold_the_best_of_a_column(finished):
    _, document = finished
    (table,) = document.tables
    for column in range(2):
        means = [
            document.estimate(METRIC, {"slots": (2, 4)[column], ROUTER: label}).mean
            for label in ("jsq", "br0")
        ]
        bold = [line.entries[column].best for line in table.lines]
        assert bold == [mean == min(means) for mean in means]


def test_the_page_is_well_formed_and_offline(finished):
    folder, _ = finished
    page = Page((folder / "report" / "index.html").read_text(encoding="utf-8"))
    assert page.open == page.mismatched == page.loads == []
    assert "Few slots <or> many" in "".join(page.text)
    assert len(page.svgs) == 1
    assert page.svgs[0]["aria-label"].startswith("Heat map")


def test_a_study_goes_on_where_cells_are_left(finished, tmp_path):
    _, whole = finished
    run_small(tmp_path, small_plan(law=True))
    cells = sorted((tmp_path / "cells").glob("*.json"))
    for path in cells[::2]:
        path.unlink()
    again = run_small(tmp_path, small_plan(law=True))
    assert again.provenance.cells_computed == len(cells[::2])
    assert again.provenance.cells_reused == len(cells[1::2])
    assert again.model_copy(update={"provenance": whole.provenance}) == whole


def test_one_seed_gives_no_intervals(tmp_path):
    plan = small_plan()
    document = run_small(tmp_path, replace(plan, cells=[c for c in plan.cells if c.seed == 0]))
    estimate = document.estimate(METRIC, {"slots": 2, ROUTER: "br0"})
    assert (estimate.low, estimate.ratio_low) == (None, None)
    assert estimate.ratio is not None


def test_short_runs_are_called_short(tmp_path):
    findings = run_small(tmp_path, small_plan(requests=10)).findings
    # 10 requests on 2 x 4 slots.
    assert any("only 1.2 requests a slot" in finding.text for finding in findings)


def test_ratios_are_against_the_axis_of_the_baseline(tmp_path):
    plan = replace(small_plan(), baseline=Baseline(axis="slots", value=2))
    document = run_small(tmp_path, plan)
    top = document.estimate(METRIC, {"slots": 4, ROUTER: "br0"})
    bottom = document.estimate(METRIC, {"slots": 2, ROUTER: "br0"})
    assert top.ratio == pytest.approx(top.mean / bottom.mean)
    assert bottom.ratio == 1.0


def test_a_cell_without_a_label_is_refused():
    plan = small_plan()
    with pytest.raises(InputError, match="expected labels"):
        Plan(
            name="x", title="x", question="x", axes=plan.axes[:1], cells=plan.cells,
        )  # fmt: skip


def test_the_documents_study_of_your_own_runs(tmp_path):
    text = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(code, names)
    document = run_small(tmp_path, names["plan"])
    assert json.loads(document.model_dump_json(by_alias=True))["study"] == "slots"
    assert len(names["view"].find(document)) == 2
