"""Tables of docs/window.md: computed from the result files, and the file as it stands has them."""

from pathlib import Path

from benchmarks import window, window_report
from benchmarks.window_report import CLOSED, Results


def cell(imbalance, wait):
    return {
        "imbalance_mean_tokens": imbalance,
        "wait_p50_s": wait,
        "wait_p99_s": [3 * w for w in wait],
        "wait_max_s": [8 * w for w in wait],
    }


def sample():
    cells = {}
    for ground in window_report.SCENARIOS:
        cells[ground, CLOSED, "window"] = cell([10.0, 11.0], [1.0, 1.0])
        cells[ground, CLOSED, "window:hold_s=0"] = cell([20.0, 22.0], [1.0, 1.0])
        cells[ground, CLOSED, "brh:H=80"] = cell([40.0, 44.0], [1.0, 1.0])
        cells[ground, CLOSED, "pool-fifo"] = cell([80.0, 80.0], [2.0, 2.0])
    return Results(cells)


def test_ratios_are_of_the_means_over_the_seeds_and_missing_cells_show_a_dash():
    tables = window_report.blocks(sample(), Results({}), [])
    # 10/40 in each seed, so the interval is a point; waits 1 and 3 beside FIFO's 2; 8 of 30,
    # the floor, as 16 medians are less.
    assert "| s1 | 0.25 (0.25..0.25) | 0.50 (0.50..0.50) | 1.50 (1.50..1.50) |" in tables["goals"]
    assert "| 0.27 |\n" in tables["goals"]
    assert "| mean | 0.25 |" in tables["goals"]
    # Without holding I doubles; P99 3 beside FIFO's median 2.
    assert "| hold_s=0 | 2.00 (2.00..2.00); 1.50 |" in tables["parts"]
    empty = window_report.blocks(Results({}), Results({}), [])
    assert "| s1 | – | – | – | – | – |" in empty["goals"]


def kv_cell(label, imbalance, wait):
    return {
        "ground": "s2",
        "capacity": 0.6,
        "arrivals": CLOSED,
        "label": label,
        "throughput_tokens_per_s": [100.0, 100.0],
        "throughput_of_whole_run_tokens_per_s": [50.0, 50.0],
        **cell(imbalance, wait),
    }


def test_ratios_where_kv_binds_are_to_the_router_as_it_is_under_the_same_conditions():
    cells = [kv_cell("window", [10.0, 11.0], [1.0, 3.0]), kv_cell("br0", [5.0, 5.5], [2.0, 4.0])]
    tables = window_report.blocks(Results({}), Results({}), cells)
    # I halves in both seeds, throughputs are the same; only s2 was measured.
    same = "1.00 (1.00..1.00)"
    ratios = f"0.50 (0.50..0.50); {same}; {same}"
    missing = "–; –; –"
    assert tables["kv"].splitlines()[2:] == [
        f"| 0.6 | closed:1.5 | br0 | {missing} | {ratios} | {missing} | {missing} |"
    ]
    # Means of the waits, 3 and 8 times as long at P99 and at most.
    assert "| br0 | –; –; – | 3.00; 9.00; 24.00 |" in tables["kv-waits"]


def test_only_what_stands_between_markers_is_replaced():
    text = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n"
    assert window_report.filled(text, {"x": "new\n"}) == text.replace("old", "new")


def test_the_document_has_the_tables_of_the_result_files():
    text = window_report.DOCUMENT.read_text(encoding="utf-8")
    results = window_report.read(window_report.RESULTS)
    ideas, kv = window_report.read(window_report.IDEAS), window_report.read_kv()
    tables = window_report.blocks(results, ideas, kv)
    assert window_report.filled(text, tables) == text
    for name in tables:
        assert f"<!-- {name}:begin -->" in text


def test_no_cell_is_planned_twice_and_each_part_differs_from_the_default():
    grounds = window.scenarios(requests=300)
    planned = [(g.name, e.label, at) for _, g, e, at in window.plan(grounds, [])]
    assert len(set(planned)) == len(planned)
    assert all(part.params != window.WindowParams() for part in window.parts())


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch):
    out, seen = tmp_path / "window.json", []

    def measure(ground, entrant, arrivals, *, seeds):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append((ground.name, entrant.label, arrivals))
        return {"ground": ground.name, "arrivals": arrivals, "label": entrant.label}

    monkeypatch.setattr(window, "measure", measure)
    arguments = ["--requests", "300", "--out", str(out)]
    for _ in range(2):
        try:
            window.main(arguments)
        except KeyboardInterrupt:
            seen.append(None)
    assert len(seen) == len(set(seen)) > 100
