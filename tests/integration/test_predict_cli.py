"""``brtheory predict`` as a shell sees it: contract, table, figure, model, errors, determinism."""

import json
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points

import jsonschema
import numpy as np
import pytest

from brtheory.prediction.evaluation_document import PredictEvaluateDocument
from brtheory.traces.read import read_trace
from tests.cli_runner import run_cli

SMALL = ("--requests", 600, "--replicas", 2, "--slots", 16)


TRAINING = ("--workload", "azure-2023-conv", "--requests", 1500, "--replicas", 2, "--slots", 16)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The command is there whether or not the installed metadata already names it."""
    mine = EntryPoint("predict", "brtheory.cli.predict:app", "brtheory.commands")

    def with_mine(**wanted):
        others = [e for e in entry_points(**wanted) if e.name != "predict"]
        return EntryPoints([*others, *EntryPoints([mine]).select(**wanted)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("brtheory.cli.main.entry_points", with_mine)
        yield


@pytest.fixture(scope="module")
def trained(registered, tmp_path_factory):
    """A model file and the document of its training."""
    model = tmp_path_factory.mktemp("model") / "model.npz"
    out = model.parent / "result" / "train.json"
    options = ("--share", 0.6, "--out", out, "--json")
    outcome = run_cli("predict", "train", "--model", model, *TRAINING, *options)
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert json.loads(out.read_text()) == document
    return model, document


def evaluated(*arguments):
    outcome = run_cli("predict", "evaluate", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_the_document_fits_its_schema_and_counts_add_up():
    document = evaluated("--workload", "azure-2023-conv", *SMALL)
    jsonschema.validate(document, PredictEvaluateDocument.model_json_schema(by_alias=True))
    assert document["schema"] == "brtheory.predict-evaluate/1"
    assert sum(b["count"] for b in document["calibration_curve"]) == document["predictions"]
    ended = sum(b["count"] * b["observed"] for b in document["calibration_curve"])
    assert ended == pytest.approx(document["positives"])
    assert document["run"]["synthetic"] is True
    assert (document["run"]["requests"], document["run"]["replicas"]) == (600, 2)
    assert document["refresh"] == 40


def test_the_published_figures_of_the_surrogates_are_met_by_survival():
    # AUC follows from the law of lengths: uniform hazard gives little, a token limit nearly all.
    document = evaluated("--workload", "proprietary-surrogate", "--requests", 2000)
    assert document["auc"] == pytest.approx(document["reported"][1]["auc"], abs=0.02)
    assert document["mae_steps"] == pytest.approx(document["reported"][1]["mae_steps"], abs=1.5)
    document = evaluated("--workload", "azure-2024-long-output", "--requests", 2000)
    assert document["auc"] == pytest.approx(document["reported"][0]["auc"], abs=0.01)


def test_the_same_seed_gives_the_same_document():
    first, again = (evaluated("--workload", "reasoning-r1", *SMALL, "--seed", 3) for _ in range(2))
    other = evaluated("--workload", "reasoning-r1", *SMALL, "--seed", 4)
    for document in (first, again, other):
        document.pop("query_us_mean")  # the one figure that is measured
    assert first == again
    assert first["auc"] != other["auc"]


def test_the_oracle_bounds_every_other_predictor():
    figures = {
        name: evaluated("--workload", "azure-2023-conv", *SMALL, "--predictor", name)
        for name in ("oracle", "survival", "exact-match", "learned")
    }
    assert figures["oracle"]["auc"] == 1.0
    assert figures["oracle"]["contribution_mae_steps"] == 0.0
    assert len({f["predictions"] for f in figures.values()}) == 1
    for name in ("survival", "exact-match", "learned"):
        assert 0.5 < figures[name]["auc"] < 1.0
        assert figures[name]["brier"] < figures[name]["brier_of_base_rate"]


def test_repeated_prompts_are_recognised_in_a_trace_with_prefixes(tmp_path):
    # Two kinds of prompt: one always answers in 5 tokens, the other in 200.
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, size=400)
    lines = [
        json.dumps(
            {
                "timestamp": 100 * i,
                "input_length": 50,
                "output_length": 200 if kind else 5,
                "hash_ids": [int(kind)],
            }
        )
        for i, kind in enumerate(kinds)
    ]
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(lines) + "\n")
    common = ("--trace", path, "--replicas", 2, "--slots", 8, "--horizon", 10)
    exact = evaluated(*common, "--predictor", "exact-match")
    survival = evaluated(*common, "--predictor", "survival")
    assert (exact["auc"], exact["mae_steps"]) == (1.0, 0.0)
    assert survival["auc"] < 1.0


def test_the_table_shows_reported_figures_beside_measured_ones():
    outcome = run_cli("predict", "evaluate", "--workload", "proprietary-surrogate", *SMALL)
    assert outcome.code == 0, outcome.err
    for expected in ("measured", "0.993", "20.1", "AUC", "calibration curve", "Comparable as far"):
        assert expected in outcome.out


def test_evaluate_gives_a_trained_model_the_scores_that_train_gave_it(trained):
    model, document = trained
    assert document["brier"] < document["brier_of_base_rate"]
    used = evaluated(*TRAINING, "--predictor", "learned", "--model", model, "--warmup", 0.6)
    assert {**used, "query_us_mean": None} == {**document, "query_us_mean": None}


def test_a_model_is_used_without_scikit_learn(trained, tmp_path, monkeypatch):
    model, _ = trained
    for module in ("sklearn", "sklearn.ensemble", "sklearn.linear_model"):
        monkeypatch.setitem(sys.modules, module, None)
    assert evaluated(*TRAINING, "--predictor", "learned", "--model", model)["auc"] > 0.6
    outcome = run_cli("predict", "train", "--model", tmp_path / "other.npz", *TRAINING)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "brtheory[learned]" in outcome.err
    assert not (tmp_path / "other.npz").exists()


def test_the_figure_is_written_in_both_formats(tmp_path):
    for name, start in (("curve.svg", b"<?xml"), ("curve.png", b"\x89PNG")):
        path = tmp_path / name
        evaluated("--workload", "azure-2023-conv", *SMALL, "--plot", path)
        assert path.read_bytes().startswith(start)
    assert "AUC" in (tmp_path / "curve.svg").read_text()


def test_bad_rows_of_a_trace_are_counted(tmp_path):
    path = tmp_path / "bad.csv"
    rows = [f"{i},100,{20 + i % 7}" for i in range(60)] + ["60,100,-3"]
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    document = evaluated("--trace", path, "--on-error", "skip", "--slots", 2, "--replicas", 2)
    assert sum(document["run"]["dropped"].values()) == 1
    outcome = run_cli("predict", "evaluate", "--trace", path, "--on-error", "skip")
    assert "rows dropped" in outcome.out
    outcome = run_cli("predict", "evaluate", "--trace", path)
    assert outcome.code == 2
    assert "bad.csv:62" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--predictor", "psychic"), "one of survival, exact-match, learned, oracle"),
        (("--model", "m.npz"), "m.npz: expected a model file, got no such file"),
        (("--horizon", 0), "horizon"),
        (("--warmup", 1.0), "share"),
        (("--plot", "curve.pdf"), ".svg or .png"),
        (("--arrivals", "sometimes"), "arrivals"),
        (("--trace", "also.csv"), "one of --trace FILE and --workload NAME"),
    ],
)
def test_each_mistake_is_one_line_and_exit_code_2(arguments, message):
    outcome = run_cli(
        "predict", "evaluate", "--workload", "azure-2023-conv", "--requests", 40, *arguments
    )
    assert (outcome.code, outcome.err.count("\n"), outcome.out) == (2, 1, "")
    assert message in outcome.err


def test_a_model_beside_another_predictor_or_horizon_is_a_mistake(trained):
    model, _ = trained
    common = (*TRAINING[:2], *SMALL, "--model", model)
    outcome = run_cli("predict", "evaluate", *common)
    assert outcome.code == 2
    assert "--predictor learned beside it, got survival" in outcome.err
    outcome = run_cli("predict", "evaluate", *common, "--predictor", "learned", "--horizon", 8)
    assert "horizon: expected 80, the model's, got 8" in outcome.err


def test_survival_meets_the_real_trace_with_prefixes(traces_dir):
    trace = traces_dir / "mooncake_synthetic.jsonl"
    assert read_trace(trace).trace.prefix_id is not None
    exact = evaluated("--trace", trace, "--predictor", "exact-match")
    survival = evaluated("--trace", trace, "--predictor", "survival")
    assert exact["auc"] > survival["auc"] + 0.03
    assert "two other traces" in exact["comparable"]


def test_the_help_teaches():
    outcome = run_cli("predict", "evaluate", "--help")
    assert outcome.code == 0
    for word in ("survival", "exact-match", "learned", "oracle", "warm-up", "H/2"):
        assert word in outcome.out
