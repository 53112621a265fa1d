"""The studies over a grid as commands: files, schema, words, bad input. Small sizes: seconds."""

import json

import jsonschema
import polars as pl
import pytest

from tests.cli_runner import run_cli
from tests.conftest import ROOT
from tests.unit.study.page import Page

SMALL = {
    "tables": ("--requests", 60),
    "scenarios": ("--requests", 60, "--on", "s1,azure-2023-code", "--routers", "br0,window"),
    "scaling": ("--requests", 120, "--largest", 8, "--slots", 4),
    "regimes": ("--requests", 30),
    "energy": ("--requests", 60),
    "ablation": ("--requests", 30),
    "robustness": ("--requests", 30),
    "heterogeneous": ("--requests", 60),
}
WORDS = {
    "tables": "pure barrier model",
    "scenarios": "With a backlog (closed:1.5), take",
    "scaling": "independent replicas would lose",
    "regimes": "A better router than JSQ wins back",
    "energy": "the least energy without knowledge of output lengths",
    "ablation": "imbalance from part to part",
    "robustness": "imbalance against the same router without it",
    "heterogeneous": "Most tokens per second",
}
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "grid-study.schema.json").read_text())


@pytest.mark.parametrize("name", SMALL)
def test_a_study_leaves_its_files_and_says_what_they_say(tmp_path, name):
    """JSON that fits the schema, a table of all runs, a page that opens offline, sentences."""
    arguments = ("study", name, *SMALL[name], "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    outcome = run_cli(*arguments)
    assert (outcome.code, outcome.err) == (0, "")
    assert WORDS[name] in " ".join(outcome.out.split())
    document = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    assert document["study"] == name
    frame = pl.read_parquet(tmp_path / "results.parquet")
    assert frame.height == 2 * len(document["summaries"])
    assert {axis["name"] for axis in document["axes"]} <= set(frame.columns)
    page = Page((tmp_path / "report" / "index.html").read_text(encoding="utf-8"))
    assert page.open == page.mismatched == page.loads == []
    assert page.svgs
    assert all(svg["aria-label"] for svg in page.svgs)
    assert len(page.ids) == len(set(page.ids))
    again = run_cli(*arguments, "--json")
    repeated = json.loads(again.out)
    assert repeated["provenance"]["cells_computed"] == 0
    assert {**repeated, "provenance": 0} == {**document, "provenance": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "2", "tables"), "--seeds: expected options after the name of the study"),
        (("--json", "energy"), "--json: expected options after the name of the study energy"),
        (("scenarios", "--on", "s9"), "expected one of azure-2023-conv"),
        (("scenarios", "--routers", "jsqq"), "router: expected one of"),
        (("scaling", "--workload", "nope"), "workload: expected one of"),
        (("scaling", "--largest", "1"), "--largest"),
        (("--predictor", "crystal-ball"), "--predictor: expected one of oracle"),
        (("energy", "--scheduler", "nowhere"), "--scheduler nowhere: expected a Dask scheduler"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("brtheory.study.dask_pool.CONNECT_S", 0.3)
    outcome = run_cli("study", *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert not list(tmp_path.glob("results/*/results.json"))


@pytest.mark.parametrize("name", SMALL)
def test_help_teaches(name):
    text = " ".join(run_cli("study", name, "--help").out.split())
    assert f"brtheory study {name}" in text
    for word in ("--json", "--out", "--jobs", "--seeds", "--requests", "--scheduler"):
        assert word in text


def test_a_deployable_predictor_stands_beside_the_oracle(tmp_path):
    outcome = run_cli(
        "study", "--replicas", 2, "--slots", 4, "--requests", 200, "--seeds", 2, "--scaling",
        "none", "--routers", "br0,brh:horizon=8", "--predictor", "survival", "--jobs", 1, "--out",
        tmp_path,
    )  # fmt: skip
    assert outcome.code == 0
    document = json.loads((tmp_path / "results.json").read_text())
    facts = {facts["label"]: facts for facts in document["routers"]}
    told, learned = facts["brh:horizon=8"], facts["brh:horizon=8:predictor=survival"]
    assert (told["oracle"], learned["oracle"]) == (True, False)
    assert learned["title"] == "BR-H (survival, H = 8)"
    kinds = {finding["kind"]: finding["text"] for finding in document["findings"]}
    assert "BR-H (survival, H = 8) has" in kinds["deployed"]
    rows = {row["label"]: row["metrics"]["imbalance_mean_tokens"] for row in document["rows"]}
    assert rows["brh:horizon=8"] != rows["brh:horizon=8:predictor=survival"]
