"""What the paper says of predictors is what `brtheory predict evaluate` says today."""

import json
from itertools import product
from typing import Any

import pytest

from benchmarks.prediction import REQUESTS, evaluated
from paper.collect import collect
from paper.measured import PREDICTED, PREDICTORS
from paper.sources import RESULTS
from paper.values import Values

EVALUATIONS = json.loads((RESULTS / "prediction.json").read_text(encoding="utf-8"))["evaluations"]
SHOWN = tuple(product(PREDICTED, PREDICTORS))


@pytest.fixture(scope="module")
def values() -> Values:
    return collect()


def _found(workload: str, predictor: str) -> dict[str, Any]:
    (found,) = (
        e for e in EVALUATIONS if (e["run"]["trace"], e["predictor"]) == (workload, predictor)
    )
    return dict(found)


def test_all_that_the_paper_shows_was_evaluated_on_all_requests(values: Values) -> None:
    shown = {(workload, name): _found(workload, name) for workload, name in SHOWN}
    assert {found["run"]["requests"] for found in shown.values()} == {REQUESTS}
    assert len(values.tables["prediction"]) == 1 + len(shown)


def test_an_evaluation_made_again_is_the_one_in_the_file() -> None:
    committed = _found("azure-2023-conv", "survival")
    again = evaluated(("--workload", "azure-2023-conv"), "survival", requests=REQUESTS)
    curves = again.pop("calibration_curve"), committed.pop("calibration_curve")
    for bin_again, bin_committed in zip(*curves, strict=True):
        assert bin_again == pytest.approx(bin_committed, rel=1e-9)
    reals = {key for key, value in committed.items() if isinstance(value, float)}
    assert {key: again[key] for key in reals} == pytest.approx(
        {key: committed[key] for key in reals}, rel=1e-9
    )
    assert {k: v for k, v in again.items() if k not in reals} == {
        k: v for k, v in committed.items() if k not in reals
    }


def test_the_share_past_the_gate_is_that_of_the_curve(values: Values) -> None:
    committed = _found("azure-2023-conv", "survival")
    past = sum(b["count"] for b in committed["calibration_curve"] if b["low"] >= 0.5)
    head, row = values.tables["prediction"][:2]
    assert row[head.index("past gate")] == f"{100 * past / committed['predictions']:.2f} %"


def test_the_proxy_table_has_a_line_for_every_router_but_the_direct_way(values: Values) -> None:
    rows = json.loads((RESULTS / "proxy.json").read_text(encoding="utf-8"))["rows"]
    routers = {row["router"] for row in rows} - {"direct"}
    assert len(values.tables["proxy"]) == 1 + len(routers)
    assert values.tables["proxy"][1][0] == "this proxy"
    ours, theirs = (
        next(
            row["cpu_s_per_token"]
            for row in rows
            if (row["router"], row.get("streams")) == (router, 512)
        )
        for router in ("brtheory", "vllm-router")
    )
    assert values.texts["proxy.to-vllm-router"] == f"{ours / theirs:.2f}"


def test_every_certified_bracket_is_in_the_paper(values: Values) -> None:
    cells = json.loads((RESULTS / "bracket.json").read_text(encoding="utf-8"))["cells"].values()
    head, *rows = values.tables["bracket"]
    shown = {(row[0], row[1]): row[head.index("optimum known within")] for row in rows}
    assert shown == {
        (cell["trace"], cell["preset"]): f"{cell['optimum_known_within']:.2%}" for cell in cells
    }


def test_the_calibration_figure_tells_its_numbers_to_those_who_cannot_see_it(
    values: Values,
) -> None:
    assert "azure-2023-conv, predicted: observed" in values.figures["calibration"]
