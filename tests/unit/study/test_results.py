"""The document: schema as published, rows the same in both files."""

import json

import jsonschema
import polars as pl
import pytest

from brtheory.study.results import StudyDocument, write_results
from tests.conftest import ROOT
from tests.unit.study.samples import document, metrics

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "study.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def made():
    return document({"jsq": [metrics(10), metrics(30)], "brh:horizon=80": [metrics(5), None]})


def test_written_document_fits_the_schema_and_reads_back(made, tmp_path):
    write_results(made, tmp_path)
    text = (tmp_path / "results.json").read_text()
    jsonschema.validate(json.loads(text), SCHEMA)
    assert StudyDocument.model_validate_json(text) == made


def test_parquet_holds_the_same_rows(made, tmp_path):
    write_results(made, tmp_path)
    table = pl.read_parquet(tmp_path / "results.parquet").to_dicts()
    assert len(table) == len(made.rows) == 8  # 2 routers x 2 seeds x 2 scopes
    for record, row in zip(table, made.rows, strict=True):
        assert (record["label"], record["seed"], record["scope"]) == (
            row.label,
            row.seed,
            row.scope,
        )
        for name in metrics(1):
            assert record[name] == row.metrics.get(name)
    assert json.loads(table[-1]["params"]) == {"horizon": 80}


def test_a_tampered_document_does_not_fit_the_schema(made, tmp_path):
    write_results(made, tmp_path)
    values = json.loads((tmp_path / "results.json").read_text())
    values["rows"][0]["scope"] = "some_steps"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA)


def test_the_growth_section_does_not_decide_the_scope_of_the_comparison(made):
    """With every router's window empty, all steps are compared, whatever the growth section has."""
    emptied = [
        summary.model_copy(update={"metrics": {}})
        if (summary.section, summary.scope) == ("routers", "loaded_window")
        else summary
        for summary in made.summaries
    ]
    loaded = next(s for s in made.summaries if s.scope == "loaded_window")
    grown = loaded.model_copy(update={"section": "scaling"})
    assert made.main_scope == "loaded_window"
    assert made.model_copy(update={"summaries": [*emptied, grown]}).main_scope == "all_steps"
