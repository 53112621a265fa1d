"""Choosing a backend: fallbacks with a warning, a cache that may be anywhere, equal results."""

import os
import subprocess
import sys

import numpy as np
import pytest

from brtheory.routers import backend
from brtheory.routers.fast import FastBalanceRoute
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.registry import build_router, find_router, router_specs
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.workloads import generate_workload

needs_numba = pytest.mark.skipif(not backend.compiled_available(), reason="numba is not installed")


@pytest.fixture
def without_numba(monkeypatch):
    """A machine on which numba is not installed."""
    monkeypatch.setattr(backend, "compiled_available", lambda: False)


def test_without_numba_a_wish_for_compiled_code_becomes_numpy_with_a_warning(without_numba):
    spec = find_router("br0")
    with pytest.warns(RuntimeWarning, match=r"pip install 'brtheory\[fast\]'"):
        router = build_router(spec, spec.params(), np.random.default_rng(0), backend="compiled")
    assert isinstance(router, FastBalanceRoute)
    assert router.engine == "numpy"


def test_without_numba_auto_is_numpy_and_says_nothing(without_numba):
    assert backend.choose_backend("auto") == "numpy"


def test_without_numba_a_kernel_stays_the_function_it_was(without_numba):
    def function(n: int) -> int:
        return n + 1

    assert backend.kernel(function) is function
    assert backend.entry_kernel(function) is function


def test_the_reference_is_built_as_it_reads():
    spec = find_router("br0")
    router = build_router(spec, spec.params(), np.random.default_rng(0), backend="reference")
    assert type(router) is BalanceRoute


def test_routers_without_a_fast_form_are_built_for_every_backend():
    for spec in router_specs().values():
        if spec.speed_up is None:
            router = build_router(spec, spec.params(), np.random.default_rng(0))
            assert type(router) is type(spec.build(spec.params(), np.random.default_rng(0)))


@pytest.mark.parametrize("name", ["jsq", "br0", "brh", "window", "random"])
def test_every_backend_gives_the_same_run(name):
    trace = generate_workload("azure-2023-conv", requests=150)
    backends = ["reference", "numpy", "auto"]
    backends += ["compiled"] if backend.compiled_available() else []
    runs = [
        simulate(trace, RunConfig(name, ClusterShape(3, 8), seed=5, backend=chosen))
        for chosen in backends
    ]
    for run in runs[1:]:
        assert run.finished_s.tolist() == runs[0].finished_s.tolist()
        assert run.replica.tolist() == runs[0].replica.tolist()
        assert run.totals.sum_spread == runs[0].totals.sum_spread


@needs_numba
def test_progress_of_a_compiled_run_adds_up_to_all_requests():
    parts = []
    config = RunConfig("jsq", ClusterShape(2, 4), backend="compiled")
    simulate(generate_workload("azure-2023-conv", requests=257), config, on_progress=parts.append)
    assert sum(parts) == 257
    assert len(parts) > 10


COUNT_UP = """
import numpy as np
from brtheory.routers.backend import cache_directory
from brtheory.routers.fast_pool_kernels import count_below
print(count_below(np.array([1, 2, 2, 5]), 3), cache_directory())
"""


@needs_numba
@pytest.mark.slow
def test_kernels_are_cached_where_asked_and_run_where_nothing_can_be_written(tmp_path):
    """A read-only installation and a home that cannot be written still compile."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory", encoding="utf-8")
    for directory in (tmp_path / "cache", blocked):
        environment = {**os.environ, backend.CACHE_VARIABLE: str(directory)}
        run = subprocess.run(
            [sys.executable, "-c", COUNT_UP],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.split()[0] == "3", run.stderr
        assert run.stdout.split()[1].startswith(str(directory))
    assert list((tmp_path / "cache").rglob("*.nbi"))
