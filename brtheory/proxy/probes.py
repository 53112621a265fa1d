"""Probes: health, engine metrics and bootstrap servers, apart from the load.

Going down only stops new requests. A poll's numbers never decide where a request goes; they close
a prefill node whose KV is full, show how far the mirror drifts from the engine, and tell of KV that
was fetched too late.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import cache

from brtheory.errors import BrtheoryError, InputError
from brtheory.proxy.connectors import read_bootstrap
from brtheory.proxy.fleet import Worker
from brtheory.proxy.ranks import rank_fault
from brtheory.proxy.wire import BrokenError, ExhaustedError, UnreachableError
from brtheory.proxy.work import Services

log = logging.getLogger(__name__)

RUNNING = "vllm:num_requests_running"
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
FETCHED_LATE = "vllm:nixl_num_notifications_after_expiry_total"
"""KV read by decode after prefill had given it up: answered like any other."""
_ENGINE = re.compile(r'engine="(\d+)"')
LARGEST_METRICS = 8 << 20


class Probes:
    """Background tasks that look at the workers.

    Parameters
    ----------
    services
        Shared.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        upstream = services.settings.upstream
        self._rank_checks: dict[str, asyncio.Task[None]] = {}
        self._fetched_late: dict[str, int] = {}
        self._tasks = [
            asyncio.create_task(_forever(self.check_health, upstream.health_interval_s)),
            asyncio.create_task(_forever(self.check_suspects, 0.0)),
        ]
        if upstream.poll_metrics:
            self._tasks.append(
                asyncio.create_task(_forever(self.read_metrics, upstream.metrics_interval_s))
            )

    async def close(self) -> None:
        """Stop."""
        tasks = [*self._tasks, *self._rank_checks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check_health(self) -> None:
        """Ask every address once; all workers behind it share the answer."""
        await asyncio.gather(*(self._check(group) for group in self._by_address()))
        # Leases of stranded KV end by the clock alone.
        self._services.desk.pump()

    async def check_suspects(self) -> None:
        """Wait until a worker has become suspect, and ask at once whether it is well."""
        await self._services.look.wait()
        self._services.look.clear()
        suspects = [group for group in self._by_address() if any(w.suspect for w in group)]
        await asyncio.gather(*(self._check(group) for group in suspects))

    async def read_metrics(self) -> None:
        """Read every node's own metrics once; nodes without any are left alone."""
        await asyncio.gather(*(self._read(group) for group in self._by_address()))

    def _by_address(self) -> list[list[Worker]]:
        groups: dict[str, list[Worker]] = {}
        for worker in self._services.desk.fleet.workers.values():
            groups.setdefault(worker.url, []).append(worker)
        return list(groups.values())

    async def _check(self, workers: list[Worker]) -> None:
        upstream = self._services.settings.upstream
        try:
            fault = await self.fault_of(workers[0])
        except ExhaustedError as error:
            log.error("%s cannot be probed: %s", workers[0].url, error)
            return
        for worker in workers:
            if fault is None and worker.rank is not None and not worker.checked:
                self._start_rank_check(worker)
            if fault is None and worker.suspect:
                worker.suspect = False
                self._services.desk.on_change()
            changed = worker.health.succeeded() if fault is None else worker.health.failed(fault)
            if changed:
                state = "up" if worker.health.up else f"down: {fault}"
                log.warning("%s %s is %s", worker.role, worker.name, state)
                if not worker.health.up and worker.rank is not None and upstream.check_ranks:
                    # What comes back may be started with other ranks.
                    worker.checked = False
                self._services.desk.on_change()

    def _start_rank_check(self, worker: Worker) -> None:
        # Beside the round of probes: an engine that is slow to answer its first request must not
        # keep the proxy from noticing that another node has died.
        name = worker.name
        if name not in self._rank_checks:
            task = asyncio.create_task(self._check_rank(worker))
            self._rank_checks[name] = task
            task.add_done_callback(lambda _: self._rank_checks.pop(name, None))

    async def _check_rank(self, worker: Worker) -> None:
        fault = await rank_fault(self._services.upstream, worker, headers=self._authorization())
        worker.checked = fault is None
        if fault is not None:
            log.error("decode %s gets no requests: %s", worker.name, fault)
        else:
            self._services.desk.on_change()

    async def fault_of(self, worker: Worker) -> str | None:
        """Why a worker is not well, None where it is.

        Raises
        ------
        ExhaustedError
            If it could not be asked, which says nothing of it.
        """
        upstream = self._services.settings.upstream
        try:
            reply = await self._services.upstream.get(
                worker.url + upstream.health_path,
                timeout_s=upstream.health_timeout_s,
                headers=self._authorization(),
            )
        except ExhaustedError:
            raise
        except (UnreachableError, BrokenError) as error:
            return str(error)
        if reply.status != 200:
            return f"{upstream.health_path} answered {reply.status}"
        if worker.role == "prefill" and self._services.desk.connector.needs_bootstrap:
            return await self._learn_engines(worker)
        return None

    async def _learn_engines(self, worker: Worker) -> str | None:
        upstream = self._services.settings.upstream
        try:
            reply = await self._services.upstream.get(
                f"{(worker.bootstrap_url or '').rstrip('/')}/query",
                timeout_s=upstream.health_timeout_s,
                headers={},
            )
            worker.engines = read_bootstrap(reply.body)
            if not worker.checked:
                worker.checked = True
                self._services.desk.on_change()
        except BrtheoryError as error:
            return str(error)
        return None

    async def _read(self, workers: list[Worker]) -> None:
        upstream = self._services.settings.upstream
        try:
            reply = await self._services.upstream.get(
                f"{workers[0].url}/metrics",
                timeout_s=upstream.health_timeout_s,
                headers=self._authorization(),
            )
        except (UnreachableError, BrokenError):
            return
        if reply.status != 200 or len(reply.body) > LARGEST_METRICS:
            return
        text = reply.body.decode("utf-8", "replace")
        self._compare(workers, text)
        self._note_fetched_late(workers[0], text)

    def _compare(self, workers: list[Worker], text: str) -> None:
        running, usage = engine_running(text), kv_usage(text)
        desk, drift = self._services.desk, self._services.telemetry.drift
        for worker in workers:
            # Workers may have been removed while they were asked.
            if worker.name in desk.prefills.nodes:
                desk.prefills.nodes[worker.name].usage = usage
            elif worker.name in desk.mirror.replicas:
                engine = next(iter(running), 0) if worker.rank is None else worker.rank
                if engine in running:
                    drift[worker.name] = desk.mirror.replicas[worker.name].bound - running[engine]

    def _note_fetched_late(self, worker: Worker, text: str) -> None:
        """Tell what no answer tells: that it may rest on KV which was overwritten."""
        late = int(sum(value for _, value in _samples(text, FETCHED_LATE)))
        known = self._fetched_late.get(worker.url, late)
        self._fetched_late[worker.url] = late
        grown = late - known if late >= known else late  # a node that is new counts from zero
        if grown:
            self._services.telemetry.fetched_late.labels(worker.name).inc(grown)
            log.error(
                "%s: KV of %d requests was fetched after its lease, and may have been overwritten "
                "by then: set connector.lease_s lower",
                worker.name,
                grown,
            )

    def _authorization(self) -> dict[str, str]:
        key = self._services.settings.upstream.api_key
        return {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}


def engine_running(text: str) -> dict[int, int]:
    """Requests each engine says it runs, by engine number (0 where it has no label)."""
    running: dict[int, int] = {}
    for labels, value in _samples(text, RUNNING):
        match = _ENGINE.search(labels)
        engine = int(match.group(1)) if match else 0
        running[engine] = running.get(engine, 0) + int(value)
    return running


def kv_usage(text: str) -> float | None:
    """Largest share of KV blocks in use over a node's engines, None where it says nothing."""
    values = [value for name in KV_USAGE for _, value in _samples(text, name)]
    return max(values, default=None)


def _samples(text: str, name: str) -> Iterator[tuple[str, float]]:
    for match in _sample(name).finditer("\n" + text):
        try:
            value = float(match.group(2))
        except ValueError as error:
            raise InputError(name, "a number", match.group(2)) from error
        if math.isfinite(value):
            yield match.group(1) or "", value


@cache
def _sample(name: str) -> re.Pattern[str]:
    """Of a metric; it begins with fixed text, which is found without trying every line."""
    return re.compile(rf"\n{re.escape(name)}(?:\{{([^}}]*)\}})?[ \t]+(\S+)")


async def _forever(probe: Callable[[], Awaitable[None]], interval_s: float) -> None:
    while True:
        try:
            await probe()
        except Exception:
            # One bad answer must not end all probing.
            log.exception("probe failed")
        await asyncio.sleep(interval_s)
