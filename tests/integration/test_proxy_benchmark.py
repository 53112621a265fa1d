"""Smoke run of the proxy's benchmark: it measures every row, and says what it could not run."""

import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks.proxy import __main__ as benchmark
from benchmarks.proxy.scenarios import SMOKE

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads CPU times from /proc"
)


@pytest.mark.slow
def test_the_benchmark_measures_this_proxy_beside_the_direct_way(tmp_path: Path) -> None:
    benchmark.main(["--smoke", "--out", str(tmp_path)])
    document = json.loads((tmp_path / "proxy.json").read_text())
    rows = document["rows"]
    assert {row["router"] for row in rows} == {"direct", "brtheory"}
    # A router that was not measured is named with the reason.
    assert set(document["not_run"]) == {"vllm-router", "xpyd-proxy"}
    for name in ("direct", "brtheory"):
        mine = [row for row in rows if row["router"] == name]
        kinds = [row["kind"] for row in mine]
        assert kinds == ["small", *["streams"] * len(SMOKE), "saturated"]
        for row in mine:
            assert all(math.isfinite(value) for value in row.values() if isinstance(value, float))
    streamed = next(r for r in rows if (r["router"], r["kind"]) == ("brtheory", "streams"))
    # No token comes before it was sent, and tokens keep the pace they were sent at.
    assert streamed["delay_p50_s"] > 0
    assert streamed["tpot_p50_s"] == pytest.approx(streamed["beat_s"], rel=1)
    table = (tmp_path / "proxy.md").read_text()
    assert "| brtheory | 8 |" in table
    assert "not run here: no --peer-python was given" in table
    assert (tmp_path / "proxy.svg").read_bytes().startswith(b"<?xml")


def test_a_peer_that_is_not_installed_is_said_to_be_so(tmp_path: Path) -> None:
    bench = benchmark.bench_for(smoke=True, most_streams=0)
    [vllm] = [c for c in benchmark.CONTESTANTS if c.name == "vllm-router"]
    with pytest.raises(benchmark.NotRunError, match="not installed"):
        benchmark.measure(vllm, bench, python=tmp_path / "python")


def test_the_pages_figures_are_those_of_the_result_file() -> None:
    """Written by ``--publish``."""
    page = (benchmark.DOCS / "performance-proxy.md").read_text(encoding="utf-8")
    result = (benchmark.DOCS / "results" / "proxy.json").read_text(encoding="utf-8")
    assert benchmark.with_table(page, json.loads(result)) == page
    assert "| brtheory | 2,000 |" in page


def test_a_published_result_keeps_what_was_published_before_it() -> None:
    result = (benchmark.DOCS / "results" / "proxy.json").read_text(encoding="utf-8")
    newest = json.loads(result)
    again = benchmark.with_earlier(dict(newest), newest)
    assert again["earlier"][:-1] == newest.get("earlier", [])
    streamed = [row for row in newest["rows"] if row.get("cpu_s_per_token") is not None]
    kept = {
        (r["router"], r.get("streams")): r.get("cpu_s_per_token")
        for r in again["earlier"][-1]["rows"]
    }
    for row in streamed:
        if row["kind"] == "streams":
            assert kept[row["router"], row["streams"]] == row["cpu_s_per_token"]
    table = benchmark.as_table(again)
    assert table.count("published before") == 1
