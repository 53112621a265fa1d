"""Cells on disk: whole, checked against what they claim, one study at a time."""

import json

import pytest

from brtheory.errors import InputError
from brtheory.study.cells import CellStore, exclusive, make_job
from brtheory.study.supply import trace_digest
from brtheory.study.tasks import RunTask
from tests.unit.study.samples import run_config, small_trace

TRACE = small_trace(12)


def job(seed=0, trace=TRACE):
    return make_job(RunTask(run_config(seed=seed)), trace, digest=trace_digest(trace))


def test_a_cell_reads_back_what_was_written(tmp_path):
    store, task = CellStore(tmp_path / "cells"), job()
    assert store.read(task) is None
    written = store.write(task, {"x": 0.1, "n": 3, "none": None}, wall_s=0.5)
    assert store.read(task) == written
    assert store.read(job(seed=1)) is None


def test_keys_follow_configuration_and_trace():
    other = small_trace(12, seed=1)
    synthetic = small_trace(12, synthetic=True)
    keys = {job().key, job(seed=1).key, job(trace=other).key, job(trace=synthetic).key}
    assert len(keys) == 4
    assert job().key == job().key


@pytest.mark.parametrize("damage", ["truncated", "other run", "not JSON", "binary"])
def test_a_damaged_cell_counts_as_missing(tmp_path, damage):
    store, task = CellStore(tmp_path), job()
    store.write(task, {"x": 1}, wall_s=0.5)
    (path,) = tmp_path.glob("*.json")
    text = path.read_text()
    identity = {**task.task.identity(), "seed": 9}
    path.write_bytes(
        {
            "truncated": text[:-20].encode(),
            "other run": json.dumps({**json.loads(text), "identity": identity}).encode(),
            "not JSON": b"{",
            "binary": b"\xff\xfe\x00",
        }[damage]
    )
    assert store.read(task) is None


def test_one_study_at_a_time_writes_to_a_folder(tmp_path):
    with (
        exclusive(tmp_path),
        pytest.raises(InputError, match="no other study"),
        exclusive(tmp_path),
    ):
        pass
    with exclusive(tmp_path):
        pass


def test_what_a_killed_study_left_half_written_is_cleared_and_nothing_else(tmp_path):
    (tmp_path / "cells").mkdir()
    for name in (".results.json.x1.part", "cells/.abc.json.x2.part", "mine.part", "cells/a.json"):
        (tmp_path / name).write_text("half")
    with exclusive(tmp_path):
        left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {".lock", "mine.part", "cells/a.json"}
