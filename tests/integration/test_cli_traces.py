"""The commands ``trace`` and ``workloads`` as a user runs them."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from brtheory.cli.main import main

KEYS = {"min", "p1", "p5", "p25", "p50", "p75", "p90", "p95", "p99", "max", "mean"}
ROWS = "arrival_s,prompt_tokens,output_tokens\n0,10,1\n1,20,2\n1,30,9\n4,40,5\n"


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Answer]


@pytest.fixture
def brtheory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, run inside this process."""

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["brtheory", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Answer(int(caught.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(ROWS)
    return path


def test_describe_prints_the_documented_json(brtheory: Command, small: Path) -> None:
    answer = brtheory("trace", "describe", small, "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    document = json.loads(answer.stdout)
    assert document["format"] == "canonical"
    assert (document["rows"], document["dropped"], document["synthetic"]) == (4, {}, False)
    # gaps 1, 0, 3: mean 4/3, variance 14/9, CV = sqrt(14)/4
    assert document["time_span_s"] == 4
    assert document["rate_per_s"] == pytest.approx(0.75)
    assert document["interarrival_cv"] == pytest.approx(14**0.5 / 4)
    assert set(document["prompt_tokens"]) == set(document["output_tokens"]) == KEYS
    assert document["prompt_tokens"]["p50"] == 25
    # sums over deviations from the means 25 and 4.25: products 95, squares 500 and 38.75
    assert document["correlation"] == pytest.approx(95 / (500 * 38.75) ** 0.5)


def test_describe_of_the_real_trace_meets_the_published_figures(
    brtheory: Command, traces_dir: Path
) -> None:
    path = traces_dir / "AzureLLMInferenceTrace_conv.csv"
    document = json.loads(brtheory("trace", "describe", path, "--json").stdout)
    assert document["rows"] == 19_366
    assert document["time_span_s"] == pytest.approx(3501.7, abs=0.05)
    assert document["rate_per_s"] == pytest.approx(5.53, abs=0.005)
    assert document["interarrival_cv"] == pytest.approx(1.094, abs=5e-4)
    assert document["correlation"] == pytest.approx(-0.112, abs=5e-4)
    assert document["prompt_tokens"]["mean"] == pytest.approx(1154.7, abs=0.05)
    assert document["output_tokens"]["mean"] == pytest.approx(211.1, abs=0.05)
    prompts = {"p1": 29, "p5": 181, "p25": 396, "p50": 1020, "p75": 1189, "p95": 4083, "p99": 4142}
    outputs = {"p1": 16, "p5": 41, "p25": 85, "p50": 129, "p75": 395, "p90": 424, "p99": 601}
    assert {key: document["prompt_tokens"][key] for key in prompts} == prompts
    assert {key: document["output_tokens"][key] for key in outputs} == outputs
    # 2734 in the published table is this interpolated value, cut to whole tokens.
    assert document["prompt_tokens"]["p90"] == 2734.5
    assert (document["prompt_tokens"]["max"], document["output_tokens"]["max"]) == (14050, 1000)


def test_describe_for_people_shows_drops_and_oddities(brtheory: Command, small: Path) -> None:
    small.write_text(ROWS + "3,1,1\nx,1,1\n")
    answer = brtheory("trace", "describe", small, "--on-error", "skip")
    assert answer.returncode == 0
    for piece in ("canonical", "time goes back", "unreadable time", "2 rows were dropped", "█"):
        assert piece in answer.stdout


def test_options_reach_the_reader(brtheory: Command, small: Path) -> None:
    options = ("--start", 1, "--end", 4, "--limit", 1, "--rate", 2, "--json")
    document = json.loads(brtheory("trace", "describe", small, *options).stdout)
    assert (document["rows"], document["prompt_tokens"]["mean"]) == (1, 20)
    assert (document["rate_per_s"], document["interarrival_cv"]) == (None, None)


def test_a_file_without_arrivals_has_no_time_span(brtheory: Command, small: Path) -> None:
    small.write_text("IN,OUT\n4,5\n6,7\n")
    options = ("--columns", "prompt_tokens=in,output_tokens=out", "--json")
    document = json.loads(brtheory("trace", "describe", small, *options).stdout)
    assert document["time_span_s"] is None
    assert "no arrival column" in document["unusual"][0]


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_plot_is_a_picture_and_the_same_every_time(
    brtheory: Command, small: Path, tmp_path: Path, suffix: str, magic: bytes
) -> None:
    pictures = [tmp_path / f"{number}.{suffix}" for number in (1, 2)]
    for picture in pictures:
        assert brtheory("trace", "describe", small, "--json", "--plot", picture).returncode == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first.startswith(magic)
    assert first == second


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_convert_round_trips(brtheory: Command, small: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out.{suffix}"
    summary = json.loads(brtheory("trace", "convert", small, out, "--json").stdout)
    assert (summary["rows"], summary["format"]) == (4, "canonical")
    before = json.loads(brtheory("trace", "describe", small, "--json").stdout)
    after = json.loads(brtheory("trace", "describe", out, "--json").stdout)
    for key in ("rows", "time_span_s", "interarrival_cv", "prompt_tokens", "correlation"):
        assert before[key] == after[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trace", "describe", "missing.csv"), "missing.csv: expected a readable file"),
        (("trace", "describe", "SMALL", "--columns", "x"), "--columns: expected role=NAME"),
        (("trace", "describe", "SMALL", "--columns", "x=y"), "columns: expected names among"),
        (("trace", "describe", "SMALL", "--plot", "x.pdf"), "expected a picture ending in"),
        (("trace", "convert", "SMALL", "x.json"), "expected an output file ending in .csv"),
        (("trace", "describe", "BROKEN"), "broken.csv:3: expected prompt tokens"),
        (("workloads", "describe", "nope"), "workload: expected one of"),
        (("workloads", "generate", "nope", "--out", "x.csv"), "workload: expected one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    brtheory: Command, small: Path, arguments: tuple[str, ...], message: str
) -> None:
    broken = small.with_name("broken.csv")
    broken.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n1,0,1\n")
    names = {"SMALL": str(small), "BROKEN": str(broken)}
    answer = brtheory(*(names.get(argument, argument) for argument in arguments))
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_failed_conversion_leaves_nothing_behind(
    brtheory: Command, small: Path, tmp_path: Path
) -> None:
    small.write_text(ROWS + "bad\n")
    assert brtheory("trace", "convert", small, tmp_path / "out.csv").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["small.csv"]


def test_workloads_are_listed_described_and_generated(brtheory: Command, tmp_path: Path) -> None:
    listed = json.loads(brtheory("workloads", "list", "--json").stdout)
    assert all(row["synthetic"] for row in listed)
    described = json.loads(brtheory("workloads", "describe", listed[0]["name"], "--json").stdout)
    assert described["published"]["prompt_tokens.p50"] == described["prompt_tokens"]["p50"]
    out = tmp_path / "w.parquet"
    options = ("--requests", 50, "--seed", 7, "--out", out)
    assert brtheory("workloads", "generate", listed[0]["name"], *options).returncode == 0
    assert pl.read_parquet(out).height == 50
    document = json.loads(brtheory("trace", "describe", out, "--json").stdout)
    assert document["synthetic"] is True
    assert document["name"] == listed[0]["name"]
