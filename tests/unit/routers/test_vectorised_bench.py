"""Smoke runs of the benchmarks: they measure, compare with the reference, and report."""

import json

import numpy as np
import pytest

from benchmarks import ticks as tick_benchmark
from brtheory.core.horizon import HorizonState
from brtheory.errors import BrtheoryError, InputError
from brtheory.routers.backend import compiled_available
from brtheory.routers.fast import FastBalanceRoute
from brtheory.routers.fast_arrays import Decisions
from brtheory.simulation.benchmark.scene import Scene, TickCase, as_state
from brtheory.simulation.benchmark.suite import fast_engines
from brtheory.simulation.benchmark.ticks import QUICK, Effort, measure_tick
from tests.cli_runner import run_cli

ROW = {
    "router": str,
    "backend": str,
    "replicas": int,
    "horizon": int,
    "severity": str,
    "p50_us": float,
    "p99_us": float,
}


def test_bench_prints_one_object_with_the_fields_of_its_contract():
    run = run_cli("bench", "--quick", "--json")
    assert run.code == 0, run.err
    result = json.loads(run.out)
    assert set(result) >= {"machine", "tick", "simulate"}
    engines = {"reference", *fast_engines()}
    assert {row["backend"] for row in result["tick"]} == engines
    assert {row["severity"] for row in result["tick"]} == {"steady", "burst", "cold"}
    for row in result["tick"]:
        for name, kind in ROW.items():
            assert isinstance(row[name], kind), (name, row)
        assert 0 < row["p50_us"] <= row["p99_us"]
        assert {"stage1_p50_us", "stage2_p50_us", "reference_p50_us"} <= set(row)
    assert {(row["router"], row["backend"]) for row in result["simulate"]} == {
        (router, engine) for router in ("jsq", "br0", "window", "brh") for engine in engines
    }
    assert all(row["cpu_s"] > 0 and row["requests"] > 0 for row in result["simulate"])


def test_the_tick_benchmark_writes_a_table_and_a_figure(tmp_path):
    tick_benchmark.main(["--quick", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ticks.json",
        "ticks.md",
        "ticks.svg",
    ]
    rows = json.loads((tmp_path / "ticks.json").read_text(encoding="utf-8"))["tick"]
    table = (tmp_path / "ticks.md").read_text(encoding="utf-8")
    assert table.count("\n| br") == sum(row["router"].startswith("br") for row in rows)
    assert all(row["allocated_bytes"] > 0 for row in rows if row["backend"] != "reference")


@pytest.mark.parametrize("severity", ["steady", "burst", "cold"])
def test_a_scene_has_the_free_slots_and_the_pool_of_its_severity(severity):
    case = TickCase("brh", 20, 5, severity, pool=50)
    scene = Scene(case, "numpy", np.random.default_rng(3))
    # A full cluster of 20 * 32 slots loses 640 / 1185 requests a step, at least one.
    expected = {"steady": 1, "burst": 40, "cold": 640}[severity]
    for _ in range(3):
        scene.update(scene.prepare())
        arrays = scene.arrays()
        assert arrays.free_slots.sum() == expected
        assert len(arrays.prompt_tokens) == 50
        positions = list(range(min(expected, 50)))
        replicas = np.repeat(np.arange(20), arrays.free_slots).tolist()[: len(positions)]
        scene.settle(positions, replicas)


@pytest.mark.skipif(not compiled_available(), reason="numba is not installed")
def test_scenes_of_both_engines_show_the_same_states():
    case = TickCase("brh", 4, 12, "burst")
    scenes = [Scene(case, engine, np.random.default_rng(9)) for engine in ("numpy", "compiled")]
    for _ in range(5):
        states = []
        for scene in scenes:
            scene.update(scene.prepare())
            states.append(as_state(scene.arrays(), 12))
            scene.settle(range(8), _free(scene))
        assert states[0] == states[1]


def _free(scene):
    free = scene.arrays().free_slots
    return np.repeat(np.arange(len(free)), free).tolist()


def test_a_backend_that_decides_otherwise_is_found_out(monkeypatch):
    def first_come(self, arrays):
        replica = int(arrays.free_slots.argmax())
        return Decisions([0], [replica], [2], [0])

    monkeypatch.setattr(FastBalanceRoute, "decide", first_come)
    with pytest.raises(BrtheoryError, match="decided unlike the reference"):
        measure_tick(TickCase("br0", 4, 0, "steady"), "numpy", effort=QUICK)


def test_unknown_routers_and_sizes_are_refused():
    with pytest.raises(InputError, match="br0, brh, pool-fifo or window"):
        measure_tick(TickCase("jsq", 4, 0, "steady"), "numpy", effort=Effort(1, 1, 0.0))
    with pytest.raises(InputError, match="replicas: expected an integer >= 1, got 0"):
        TickCase("br0", 0, 0, "steady")


def test_the_projection_of_a_scene_holds_every_running_request():
    """Its present loads are the prompts plus ages of what runs; nothing is lost along the way."""
    scene = Scene(TickCase("brh", 3, 4, "steady"), "numpy", np.random.default_rng(1))
    scene.update(scene.prepare())
    arrays = scene.arrays()
    twin = HorizonState(replicas=3, horizon=4)
    assert arrays.rows(4).shape == twin.rows().shape
    # 96 slots less the one that ended, each with at least one token.
    assert arrays.rows(4)[:, 0].sum() >= 95
