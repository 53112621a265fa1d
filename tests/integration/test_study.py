"""``brtheory study`` end to end: files, resumption, interruption, bad input, the real trace."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from tests.cli_runner import run_cli
from tests.conftest import ROOT
from tests.unit.study.page import Page

ROUTERS = "jsq,pool-fifo,br0,brh:horizon=80,brh:horizon=auto"
TINY = ("study", "--replicas", 2, "--slots", 4, "--requests", 200, "--seeds", 2)
PROGRAM = """
import signal
from brtheory.cli.main import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner may ignore it
    main()
"""


def study(out, *more, scaling="none", jobs=1, routers=ROUTERS):
    return run_cli(
        *TINY, "--routers", routers, "--scaling", scaling, "--jobs", jobs, "--out", out, *more
    )


def results(out):
    return json.loads((out / "results.json").read_text())


def without_provenance(out):
    return {key: value for key, value in results(out).items() if key != "provenance"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study with a growth with G, run on two processes."""
    out = tmp_path_factory.mktemp("study") / "out"
    outcome = study(out, scaling="2", jobs=2)
    assert (outcome.code, outcome.err) == (0, "")
    return out, outcome


def test_terminal_shows_every_router_the_scope_and_the_page(finished):
    out, outcome = finished
    for title in ("JSQ", "Pooled FIFO", "BR-0", "BR-H (oracle, H = 80)"):
        assert title in outcome.out
    assert "averages over the loaded window" in outcome.out
    assert "synthetic" in outcome.out
    assert outcome.out.splitlines()[-1] == str(out / "report" / "index.html")


def test_results_fit_the_published_schema_and_the_parquet(finished):
    out, _ = finished
    document = results(out)
    schema = json.loads((ROOT / "docs" / "schemas" / "study.schema.json").read_text())
    jsonschema.validate(document, schema)
    table = pl.read_parquet(out / "results.parquet")
    # 5 routers x 2 seeds, and JSQ and BR-0 x 2 seeds in the growth with G; 2 scopes each.
    assert table.height == len(document["rows"]) == 2 * (5 * 2 + 2 * 2)
    mean = document["summaries"][0]["metrics"]["imbalance_mean_tokens"]["mean"]
    first = table.filter(
        (pl.col("section") == "routers")
        & (pl.col("label") == "jsq")
        & (pl.col("scope") == "loaded_window")
    )
    assert first["imbalance_mean_tokens"].mean() == pytest.approx(mean)


def test_page_is_well_formed_and_offline(finished):
    out, _ = finished
    page = Page((out / "report" / "index.html").read_text(encoding="utf-8"))
    assert page.open == page.mismatched == page.loads == []
    assert len(page.svgs) == 7
    assert all(svg["aria-label"] for svg in page.svgs)
    assert "replicas, G" in page.svg_text


def test_rerun_resumes_where_half_the_cells_are_gone(finished, tmp_path):
    whole, _ = finished
    out = tmp_path / "resumed"
    assert study(out, scaling="2").code == 0
    before = without_provenance(out)
    # One process or two: the same numbers.
    assert before == without_provenance(whole)
    cells = sorted((out / "cells").glob("*.json"))
    gone = cells[::2]
    for path in gone:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in cells[1::2]}
    assert study(out, scaling="2").code == 0
    provenance = results(out)["provenance"]
    assert provenance["cells_computed"] == len(gone)
    assert provenance["cells_reused"] == len(kept)
    assert without_provenance(out) == before
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert sorted((out / "cells").glob("*.json")) == cells


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_stopped_study_leaves_whole_files_and_goes_on(tmp_path, how, code):
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    arguments = [*map(str, TINY), "--requests", "3000", "--scaling", "none", "--jobs", "2"]
    arguments += ["--routers", "jsq,br0", "--seeds", "4", "--out", str(out)]
    process = subprocess.Popen(  # this interpreter, our own program
        [sys.executable, str(program), *arguments],
        cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: len(list(out.glob("cells/*.json"))) >= 2)
    group = members(process.pid)
    if how == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, how)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, b"Traceback" in errors) == (code, False)
    wait_until(lambda: not any(alive(pid) for pid in group))
    cells = list(out.glob("cells/*.json"))
    assert len(cells) >= 2
    assert all(json.loads(path.read_text())["result"] for path in cells)
    assert not (out / "results.json").exists()
    assert run_cli(*arguments[:-2], "--jobs", 1, "--out", out).code == 0
    assert results(out)["provenance"]["cells_reused"] == len(cells)
    assert not list(out.rglob(".*.part"))


def test_json_is_the_document(tmp_path):
    outcome = study(tmp_path, "--json", routers="br0")
    assert json.loads(outcome.out) == results(tmp_path)


def test_all_at_once_has_no_loaded_window_and_says_so(tmp_path):
    outcome = study(tmp_path, "--arrivals", "all", routers="br0")
    assert "averages over all executed steps" in outcome.out
    assert "loaded window is empty" in " ".join(outcome.out.split())


def test_a_trace_shorter_than_asked_for_is_repeated_and_says_so(tmp_path):
    trace = tmp_path / "t.csv"
    rows = "".join(f"{i},{50 + i % 7},{3 + i % 5}\n" for i in range(80))
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows + "80,-3,4\n")
    options = ("--trace", trace, "--on-error", "skip")
    outcome = study(tmp_path / "out", *options, routers="br0")
    assert outcome.code == 0
    notes = results(tmp_path / "out")["trace"]["notes"]
    assert any("1 rows dropped" in note for note in notes)
    assert "80 requests played 2.5 times" in notes
    assert not results(tmp_path / "out")["trace"]["synthetic"]


def test_unusual_columns_and_a_slice_of_the_trace_are_studied(tmp_path):
    """Seconds 10 .. 89 of a file whose names no list of synonyms knows."""
    trace = tmp_path / "t.csv"
    rows = "".join(f"{i},{50 + i},{3 + i % 5}\n" for i in range(120))
    trace.write_text("WHEN,IN,OUT\n" + rows)
    options = ("--columns", "arrival_s=WHEN,prompt_tokens=IN,output_tokens=OUT")
    out = tmp_path / "out"
    arguments = ("study", "--trace", trace, *options, "--start", 10, "--end", 90, "--replicas", 2)
    more = ("--slots", 2, "--routers", "br0", "--seeds", 1, "--scaling", "none", "--out", out)
    assert run_cli(*arguments, *more).code == 0
    assert results(out)["trace"]["requests"] == 80
    # Prompts 60 .. 139.
    assert results(out)["trace"]["prompt_tokens_mean"] == pytest.approx(99.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--routers", "jsq,jsqq"), "router: expected one of random"),
        (("--scaling", "2,x"), "--scaling: expected numbers of replicas"),
        (("--scaling", "0"), "scaling: expected numbers of replicas >= 1"),
        (("--workload", "nope"), "workload: expected one of azure-2023-conv"),
        (("--arrivals", "closed:-1"), "arrivals: expected closed:X"),
        (("--kv-capacity", "10"), "kv_capacity is 10"),
        (("--seeds", "0"), "--seeds"),
        (("--trace", "missing.csv"), "missing.csv"),
        (("--columns", "prompt_tokens=IN"), "--columns: expected a --trace FILE to read"),
        (("--trace", "t.csv", "--workload", "azure-2023-conv"), "got both"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    outcome = run_cli("study", "--out", tmp_path / "out", *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert not (tmp_path / "out" / "results.json").exists()


def test_help_teaches():
    text = " ".join(run_cli("study", "--help").out.split())
    for word in ("barrier", "loaded window", "horizon=auto", "closed:X", "Examples"):
        assert word in text


@pytest.mark.slow
def test_azure_conversation_study_finds_what_is_known(traces_dir, tmp_path):
    """BR-0 at or below 0.35 of JSQ; BR-H loses to it at H = 80 and wins at H = 7: and says so."""
    trace = traces_dir / "AzureLLMInferenceTrace_conv.csv"
    outcome = run_cli(
        "study", "--trace", trace, "--replicas", 8, "--slots", 32, "--arrivals", "closed:1.5",
        "--routers", "br0,brh:horizon=80,brh:horizon=auto", "--requests", 9000,
        "--scaling", "none", "--seeds", 1, "--out", tmp_path,
    )  # fmt: skip
    assert outcome.code == 0
    ratio = {
        summary["label"]: summary["metrics"]["imbalance_mean_tokens"]["ratio_to_jsq"]
        for summary in results(tmp_path)["summaries"]
        if summary["scope"] == "loaded_window"
    }
    assert ratio["br0"] <= 0.35
    assert ratio["brh:horizon=7"] < ratio["br0"] < ratio["brh:horizon=80"]
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "BR-H (oracle, H = 80) is worse than BR-0 here" in page
    assert "BR-H (oracle, H = 7) is better than BR-0" in page


def wait_until(condition, *, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def members(group):
    """Processes of a session, by process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(int(entry.parent.name))
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
