"""The choice of engine: compiling must pay, and never changes a result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.routers.backend import compiled_available, kernels_cached
from brtheory.study.engines import COMPILE_S, choose_engine
from brtheory.study.tasks import LoadsTask, RunTask
from tests.unit.study.samples import run_config, small_trace


@given(st.floats(0, 1e6), st.integers(1, 64), st.booleans())
def test_without_numba_nothing_is_compiled(seconds, workers, cached):
    engine = choose_engine(seconds, workers=workers, cached=cached, available=False)
    assert engine == "numpy"


@given(st.floats(0, 1e6), st.integers(1, 64))
def test_compiling_is_paid_for_by_longer_runs(seconds, workers):
    engine = choose_engine(seconds, workers=workers, cached=False, available=True)
    assert (engine == "compiled") == (seconds / workers > COMPILE_S)
    assert choose_engine(seconds, workers=workers, cached=True, available=True) == "compiled"


def test_an_empty_cache_holds_no_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("BRTHEORY_CACHE_DIR", str(tmp_path))
    assert not kernels_cached()


@pytest.mark.parametrize("router", ["jsq", "br0", "brh", "random"])
def test_the_engine_is_no_part_of_a_task(router):
    trace, task = small_trace(), RunTask(run_config(router))
    numpy_engine, reference = task.on_engine("numpy"), task.on_engine("reference")
    assert numpy_engine.identity() == reference.identity() == task.identity()
    assert numpy_engine.run(trace) == reference.run(trace)
    assert LoadsTask(task.config, 9).on_engine("compiled") == LoadsTask(task.config, 9)


@pytest.mark.skipif(
    not (compiled_available() and kernels_cached()), reason="compiling takes a minute"
)
def test_cached_kernels_give_the_same_numbers():
    trace, task = small_trace(), RunTask(run_config("br0"))
    assert task.on_engine("compiled").run(trace) == task.on_engine("numpy").run(trace)


def test_longer_tasks_cost_more():
    costs = [RunTask(run_config(router)).cost_s(100) for router in ("jsq", "br0", "brh")]
    assert costs == sorted(costs)
    assert np.all(np.diff(costs) > 0)
