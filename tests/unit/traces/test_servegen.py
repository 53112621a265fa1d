"""ServeGen clients are sampled from their literals, reproducibly and never by evaluation."""

import json
from pathlib import Path

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.traces.read import read_trace, stream_trace


def client(
    directory: Path, windows: list[str], tables: dict[str, dict[str, str]], number: int = 0
) -> Path:
    path = directory / f"chunk-{number}-trace.csv"
    path.write_text("\n".join(windows))
    (directory / f"chunk-{number}-dataset.json").write_text(json.dumps(tables))
    return path


TABLES = {"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{3: 0.25, 5: 0.75}"}}
WINDOWS = ["0,4.0,1.0,Gamma,1.0,0.25", "600,0,0,,0,0", "1200,2.0,2.0,Weibull,0.6,0.3"]


def test_windows_set_the_rates_and_tables_the_lengths(tmp_path: Path) -> None:
    result = read_trace(client(tmp_path, WINDOWS, TABLES))
    trace = result.trace
    assert result.format == "servegen"
    assert trace.synthetic
    # 4/s and 2/s for 600 s each, nothing in between; time zero is the first request, within 10 s.
    assert len(trace) == 2400 + 1200
    counts, _ = np.histogram(trace.arrival_s, [0, 600, 1180, 1800])
    assert counts.tolist() == [2400, 0, 1200]
    # Shares 0.5 and 0.75 of 3600 draws: five standard errors are 0.042 and 0.036.
    assert (trace.prompt_tokens == 10).mean() == pytest.approx(0.5, abs=0.042)
    assert (trace.output_tokens == 5).mean() == pytest.approx(0.75, abs=0.036)
    # Independent fields: the correlation's standard error is 1/sqrt(3600).
    assert np.corrcoef(trace.prompt_tokens, trace.output_tokens)[0, 1] == pytest.approx(
        0, abs=0.084
    )


def test_the_seed_decides_the_sample(tmp_path: Path) -> None:
    path = client(tmp_path, WINDOWS, TABLES)
    first, again, other = (read_trace(path, seed=seed).trace for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.arrival_s, again.arrival_s)
    np.testing.assert_array_equal(first.prompt_tokens, again.prompt_tokens)
    assert not np.array_equal(first.arrival_s, other.arrival_s)


def test_a_directory_merges_its_clients_in_time_order(tmp_path: Path) -> None:
    client(tmp_path, WINDOWS, TABLES, number=0)
    lone = {"0": {"input_tokens": "{7: 1.0}", "output_tokens": "{1: 1.0}"}}
    client(tmp_path, ["0,1.0,1.0,Gamma,1.0,1.0", "600,0,0,,0,0", "1200,0,0,,0,0"], lone, number=1)
    trace = read_trace(tmp_path).trace
    assert len(trace) == 3600 + 600
    assert int((trace.prompt_tokens == 7).sum()) == 600


def test_rows_of_zero_output_tokens_are_counted_as_failures(tmp_path: Path) -> None:
    tables = {"0": {"input_tokens": "{9: 1.0}", "output_tokens": "{0: 0.5, 5: 0.5}"}}
    result = read_trace(client(tmp_path, WINDOWS[:1], tables))
    assert len(result.trace) + sum(result.dropped.values()) == 2400
    assert result.dropped["failed request (0 output tokens)"] == pytest.approx(1200, abs=125)


def test_windows_stream_one_by_one(tmp_path: Path) -> None:
    assert [len(batch) for batch in stream_trace(client(tmp_path, WINDOWS, TABLES))] == [2400, 1200]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("__import__('os').getpid()", "dictionary token count -> probability"),
        ("{10: 0.5", "dictionary token count -> probability"),
        ("[10]", "dictionary token count -> probability"),
        ("{1.5: 1.0}", "whole token counts"),
        ("{-1: 1.0}", "whole token counts"),
        ("{10: -1.0, 11: 2.0}", "probabilities from 0 to 1"),
        ("{10: 0.5}", "probabilities that sum to 1"),
    ],
)
def test_tables_that_are_no_law_are_refused(tmp_path: Path, table: str, message: str) -> None:
    tables = {"0": {"input_tokens": table, "output_tokens": "{3: 1.0}"}}
    with pytest.raises(InputError, match=message):
        read_trace(client(tmp_path, WINDOWS, tables))


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (["0,1,1,Gamma,1,1", "oops"], ":2: expected window,rate,cv,pattern,shape,scale"),
        (["600,1,1,Gamma,1,1", "0,1,1,Gamma,1,1"], ":2: expected a window after 600"),
        (["0,1,1,Gamma,0,1"], ":1: expected a shape > 0"),
        (["0,-1,1,Gamma,1,1"], ":1: expected window start and rate >= 0"),
    ],
)
def test_bad_windows_are_named(tmp_path: Path, windows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_trace(client(tmp_path, windows, TABLES))


def test_a_client_without_its_tables_is_refused(tmp_path: Path) -> None:
    path = client(tmp_path, WINDOWS, TABLES)
    (tmp_path / "chunk-0-dataset.json").unlink()
    with pytest.raises(InputError, match=r"chunk-0-dataset\.json"):
        read_trace(path)
