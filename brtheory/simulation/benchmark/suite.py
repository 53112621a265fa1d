"""The benchmark a user runs: ticks and runs on this machine, as one plain object."""

import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any

from brtheory.routers.backend import Engine, compiled_available
from brtheory.routers.fast import FastEngine
from brtheory.simulation.benchmark.runs import RunFigures, measure_run
from brtheory.simulation.benchmark.scene import Severity, TickCase
from brtheory.simulation.benchmark.ticks import QUICK, Effort, TickFigures, measure_tick

HORIZON = 80
SIZES = (16, 1024)
QUICK_SIZES = (8,)
SEVERITIES: tuple[Severity, ...] = ("steady", "burst", "cold")
TICK_ROUTERS = ("br0", "brh", "window")
RUN_ROUTERS = ("jsq", "br0", "window", "brh")
RUN_REQUESTS: dict[Engine, int] = {"reference": 5_000, "numpy": 20_000, "compiled": 1_000_000}
QUICK_REQUESTS: dict[Engine, int] = {"reference": 200, "numpy": 500, "compiled": 2_000}
PAPER = {"tick_p50_us": 1200.0, "tick_p99_us": 2770.0, "stage1_us": 1.2, "stage2_us": 924.0}
"""As reported for the authors' router; their machine and pool are not known."""


def fast_engines() -> tuple[FastEngine, ...]:
    """Backends that can run here."""
    return ("numpy", "compiled") if compiled_available() else ("numpy",)


def run_suite(*, quick: bool, on_progress: Callable[[int], None]) -> dict[str, Any]:
    """Measure everything.

    Parameters
    ----------
    quick
        Small sizes and few repetitions: shows that it works, not how fast it is.
    on_progress
        Called with 1 after each of ``suite_length`` parts.
    """
    return {
        "schema": "brtheory.bench/1",
        "quick": quick,
        "machine": machine(),
        "paper_reported": PAPER,
        "tick": [entry for figures in _ticks(quick, on_progress) for entry in figures],
        "simulate": list(_runs(quick, on_progress)),
    }


def suite_length(*, quick: bool) -> int:
    """Parts of the suite, for a progress bar."""
    ticks = len(_cases(quick)) * len(fast_engines())
    return ticks + len(RUN_ROUTERS) * (1 + len(fast_engines()))


def machine() -> dict[str, str | int | None]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("brtheory", "numpy", "numba")},
    }


def tick_entry(figures: TickFigures) -> dict[str, Any]:
    """One row of the contract."""
    return {
        "router": figures.case.router,
        "backend": figures.backend,
        "replicas": figures.case.replicas,
        "horizon": figures.case.horizon,
        "severity": figures.case.severity,
        "pool": figures.case.waiting,
        "admissions": figures.admissions,
        "ticks": figures.ticks,
        "p50_us": figures.p50_us,
        "p99_us": figures.p99_us,
        "stage1_p50_us": figures.stage1_p50_us,
        "stage2_p50_us": figures.stage2_p50_us,
        "reference_p50_us": figures.reference_p50_us,
        "allocated_bytes": figures.allocated_bytes,
    }


def _run_entry(figures: RunFigures) -> dict[str, Any]:
    return {
        "router": figures.router,
        "backend": figures.backend,
        "requests": figures.requests,
        "cpu_s": figures.cpu_s,
        "startup_s": figures.startup_s,
    }


def _cases(quick: bool) -> list[TickCase]:  # noqa: FBT001  # named at both calls
    sizes = QUICK_SIZES if quick else SIZES
    return [
        TickCase(router, replicas, HORIZON if router == "brh" else 0, severity)
        for router, replicas, severity in product(TICK_ROUTERS, sizes, SEVERITIES)
    ]


def _ticks(
    quick: bool,  # noqa: FBT001  # named at the call
    on_progress: Callable[[int], None],
) -> Iterator[list[dict[str, Any]]]:
    for case in _cases(quick):
        reference = None
        for engine in fast_engines():
            own, seen = measure_tick(case, engine, effort=QUICK if quick else Effort())
            reference = reference or seen
            on_progress(1)
            yield [tick_entry(own)]
        if reference is not None:
            yield [tick_entry(reference)]


def _runs(
    quick: bool,  # noqa: FBT001  # named at the call
    on_progress: Callable[[int], None],
) -> Iterator[dict[str, Any]]:
    requests = QUICK_REQUESTS if quick else RUN_REQUESTS
    engines: tuple[Engine, ...] = ("reference", *fast_engines())
    for router, engine in product(RUN_ROUTERS, engines):
        yield _run_entry(measure_run(router, engine, requests=requests[engine]))
        on_progress(1)


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
