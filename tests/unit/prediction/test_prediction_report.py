"""The table of docs/prediction.md: from the result file, reported figures where they belong."""

from benchmarks import prediction, prediction_report
from benchmarks.window_report import filled


def test_the_document_has_the_table_of_the_result_file():
    text = prediction_report.DOCUMENT.read_text(encoding="utf-8")
    tables = prediction_report.blocks(prediction_report.read(prediction_report.RESULTS))
    assert "<!-- predictors:begin -->" in text
    assert filled(text, tables) == text


def test_every_workload_and_predictor_is_measured_and_reported_figures_stand_on_their_own_rows():
    documents = prediction_report.read(prediction_report.RESULTS)
    rows = prediction_report.blocks(documents)["predictors"].splitlines()[2:]
    cells = {tuple(row.split(" | ")[:2]): row.split(" | ") for row in rows}
    for workload in prediction.WORKLOADS:
        for predictor in prediction.PREDICTORS:
            assert (f"| `{workload}`", predictor) in cells
    # The paper's 0.993/5.4 and 0.700/20.1; it reports nothing for the learned one.
    assert cells["| `azure-2024-long-output`", "survival"][3:6:2] == ["0.993", "5.4"]
    assert cells["| `proprietary-surrogate`", "survival"][3:6:2] == ["0.700", "20.1"]
    assert cells["| `proprietary-surrogate`", "learned"][3:6:2] == ["–", "–"]
    assert cells["| `azure-2023-conv`", "survival"][3:6:2] == ["–", "–"]


def test_predictions_are_asked_of_the_command_and_carry_no_time(tmp_path):
    trace = tmp_path / "requests.csv"
    rows = [f"{i},{10 + i % 7},{3 + i % 5}" for i in range(60)]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")
    document = prediction.evaluated(("--trace", str(trace)), "survival", requests=60)
    assert document["run"]["trace"] == "requests.csv"
    assert document["run"]["requests"] == 60
    assert document["query_us_mean"] is None
