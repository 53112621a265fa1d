"""What is measured, and how one contestant is taken through it.

The contestant has a core of its own; clients and upstream share another, and the share of it they
use is reported: beyond about 0.9 the figures would be theirs.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.proxy.contestants import Contestant, Place, free_port
from benchmarks.proxy.processes import Pinned

DECODE_PROCESSES, REPLICAS_EACH = 2, 4
DRIFT_S = 0.3


@dataclass(frozen=True)
class Streams:
    """Streams at once.

    Parameters
    ----------
    streams, tokens
        How many, and how long each.
    beat_s
        Seconds between two tokens of a stream.
    ramp_s
        Within which they start.
    """

    streams: int
    tokens: int
    beat_s: float
    ramp_s: float


FULL = (
    Streams(1, 300, 0.01, 0.0),
    Streams(64, 400, 0.01, 0.2),
    Streams(512, 200, 0.05, 2.0),
    Streams(2000, 100, 0.2, 8.0),
)
"""About 10,000 tokens a second where there are enough streams."""
SATURATED = Streams(256, 600, 0.002, 0.5)
"""128,000 tokens a second asked for: more than a core passes on."""
SMOKE = (Streams(8, 5, 0.01, 0.02),)
SMOKE_SATURATED = Streams(8, 40, 0.001, 0.01)
REQUESTS, SMOKE_REQUESTS = 1000, 10


@dataclass(frozen=True)
class Bench:
    """How much is measured, and where.

    Parameters
    ----------
    scenarios, saturated
        Streams at a pace, and at more than can be passed on.
    requests
        Small requests in turn.
    core, load_core
        Of the contestant; of clients and upstream.
    """

    scenarios: Sequence[Streams]
    saturated: Streams
    requests: int
    core: int
    load_core: int


@contextmanager
def upstream(beat_s: float, *, core: int) -> Iterator[tuple[list[int], list[int], list[Pinned]]]:
    """Prefill port, decode ports, processes."""
    command = [sys.executable, "-m", "benchmarks.proxy.upstream"]
    with ExitStack() as stack:
        processes, ports = [], []
        for replicas in (1, *[REPLICAS_EACH] * DECODE_PROCESSES):
            process = Pinned([*command, str(replicas), str(beat_s)], core=core, piped=True)
            stack.callback(process.stop)
            processes.append(process)
            assert process.process.stdout is not None
            ports.append(json.loads(process.process.stdout.readline()))
        yield ports[0], [port for part in ports[1:] for port in part], processes


def measure(
    contestant: Contestant | None, bench: Bench, *, python: Path
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Rows of one contestant, or of the direct way where it is None, and what failed, with why.

    Raises
    ------
    NotRunError
        If it cannot be started.
    """
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "small requests": lambda: _small(contestant, bench, python=python)
    }
    for scenario in bench.scenarios:
        name = f"{scenario.streams:,} streams"
        jobs[name] = partial(_streamed, contestant, bench, scenario, python=python)
    jobs["saturated"] = lambda: {
        **_streamed(contestant, bench, bench.saturated, python=python),
        "kind": "saturated",
    }
    rows, failed = [], {}
    for name, job in jobs.items():
        try:
            rows.append(job())
        except RuntimeError as error:
            failed[name] = str(error)
    return rows, failed


def _small(contestant: Contestant | None, bench: Bench, *, python: Path) -> dict[str, Any]:
    with _stage(contestant, bench, 0.0, python=python) as (ports, prefill, decode, running, _):
        asked = ports if running is not None else [prefill[0], decode[0]]
        _load({"ports": asked, "requests": min(50, bench.requests)}, core=bench.load_core)
        before_s = _cpu(running)
        took = _load({"ports": asked, "requests": bench.requests}, core=bench.load_core)
        used_s = _cpu(running) - before_s
    return {
        "kind": "small",
        "requests": bench.requests,
        **took,
        "cpu_s_per_request": None if running is None else used_s / bench.requests,
    }


def _streamed(
    contestant: Contestant | None, bench: Bench, scenario: Streams, *, python: Path
) -> dict[str, Any]:
    stage = _stage(contestant, bench, scenario.beat_s, python=python)
    with stage as (ports, _, _, running, upstreams):
        plan = {
            "ports": ports,
            "streams": scenario.streams,
            "tokens": scenario.tokens,
            "ramp_s": scenario.ramp_s,
        }
        _load({**plan, "streams": 1, "tokens": 3}, core=bench.load_core)
        before_s, upstream_s = _cpu(running), sum(u.cpu_s() for u in upstreams)
        idle_bytes = 0 if running is None else running.rss_bytes()
        figures, peak_bytes = _watched(plan, running, core=bench.load_core)
        used_s = _cpu(running) - before_s
        load_s = figures["cpu_s"] + sum(u.cpu_s() for u in upstreams) - upstream_s
    tokens, wall_s = figures["tokens"], figures["wall_s"]
    return {
        "kind": "streams",
        **asdict(scenario),
        "tokens_per_s": tokens / wall_s,
        **{name: value for name, value in figures.items() if "_p5" in name},
        "cpu_s_per_token": None if running is None else used_s / tokens,
        "core_share": None if running is None else used_s / wall_s,
        "load_core_share": load_s / wall_s,
        "bytes_per_stream": None
        if running is None
        else max(0, peak_bytes - idle_bytes) / scenario.streams,
    }


@contextmanager
def _stage(
    contestant: Contestant | None, bench: Bench, beat_s: float, *, python: Path
) -> Iterator[tuple[list[int], list[int], list[int], Pinned | None, list[Pinned]]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        upstream(beat_s, core=bench.load_core) as (prefill, decode, processes),
    ):
        if contestant is None:
            yield decode, prefill, decode, None, processes
            return
        place = Place(free_port(), prefill, decode, Path(folder), python)
        running = contestant.start(place, core=bench.core)
        try:
            time.sleep(DRIFT_S)
            yield [place.port], prefill, decode, running, processes
        finally:
            running.stop()


def _load(plan: dict[str, Any], *, core: int) -> dict[str, Any]:
    return _watched(plan, None, core=core)[0]


def _watched(
    plan: dict[str, Any], running: Pinned | None, *, core: int
) -> tuple[dict[str, Any], int]:
    """Figures of a plan, and the largest memory of the contestant meanwhile."""
    load = Pinned([sys.executable, "-m", "benchmarks.proxy.load"], core=core, piped=True)
    pipes = load.process
    assert pipes.stdin is not None
    assert pipes.stdout is not None
    peak = 0
    try:
        pipes.stdin.write(json.dumps(plan).encode())
        pipes.stdin.close()
        while running is not None and load.alive():
            peak = max(peak, running.rss_bytes())
            time.sleep(0.2)
        raw = pipes.stdout.read()
        if not raw:
            raise RuntimeError("requests failed, or did not end in time")
        figures: dict[str, Any] = json.loads(raw)
        return figures, peak
    finally:
        load.stop()


def _cpu(running: Pinned | None) -> float:
    return 0.0 if running is None else running.cpu_s()
