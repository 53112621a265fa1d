"""Prometheus metrics: counters and histograms kept here, gauges read off the books when scraped.

Labels are bounded: endpoints, statuses, workers of the fleet and enumerations, never anything a
client sends. docs/operate.md says of each what to do about it.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from brtheory.core.imbalance import imbalance
from brtheory.proxy.desk import Desk
from brtheory.proxy.mirror import barrier_idle
from brtheory.proxy.recent import RecentValues

PREFIX = "brtheory"
SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TICK_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1)

Metric = GaugeMetricFamily | CounterMetricFamily


class Telemetry:
    """All metrics of one proxy.

    Parameters
    ----------
    desk
        The books.
    """

    def __init__(self, desk: Desk) -> None:
        self.registry = CollectorRegistry()
        self._desk = desk
        self.drift: dict[str, int] = {}
        """The mirror's requests minus the engine's own running ones, by replica."""
        self.registry.register(_Books(desk, self.drift))
        self.requests = self._counter("requests", "Requests answered", "endpoint", "status")
        self.cancelled = self._counter("cancelled", "Requests whose client left", "phase")
        self.retries = self._counter("retries", "Legs sent again", "leg", "reason")
        self.upstream_errors = self._counter("upstream_errors", "Failures of nodes", "role", "kind")
        self.connections = Gauge(
            f"{PREFIX}_connections", "Client connections open", registry=self.registry
        )
        self.connections_cut = self._counter("connections_cut", "Client connections cut")
        self.truncated = self._counter("truncated", "Streams that ended early")
        self.missing_kv = self._counter("missing_kv", "Prefill answers without KV parameters")
        self.fetched_late = self._counter(
            "kv_fetched_late", "KV that decode fetched after its lease", "worker"
        )
        self.recomputed = self._counter("recomputed", "Requests preempted and prefilled again")
        self.sources = self._counter("token_source", "Streams by token count source", "source")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of requests")
        self.corrections = self._counter("count_corrections", "Tokens corrected by final usage")
        self.request_s = self._histogram("request", "Whole request", LONG_S, "endpoint")
        self.ttft_s = self._histogram("ttft", "Time to the first byte", LONG_S, "endpoint")
        self.tpot_s = self._histogram("tpot", "Time per output token", SHORT_S, "endpoint")
        self.queue_s = self._histogram("queue_wait", "Wait before prefill", LONG_S)
        self.prefill_s = self._histogram("prefill", "Prefill leg", LONG_S)
        self.pool_s = self._histogram("pool_wait", "Wait in the pool", LONG_S)
        self.recent_pool_s = RecentValues(desk.clock)
        self.recent_ttft_s = RecentValues(desk.clock)
        self.recent_tpot_s = RecentValues(desk.clock)
        self.tick_s = self._histogram("tick", "One tick of the router", TICK_S)

    def exposition(self) -> bytes:
        """The metrics as text."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(
            f"{PREFIX}_{name}_seconds", text, labels, buckets=buckets, registry=self.registry
        )


class _Books(Collector):
    """Reads gauges off the books."""

    def __init__(self, desk: Desk, drift: dict[str, int]) -> None:
        self._desk = desk
        self._drift = drift

    def collect(self) -> Iterable[Metric]:
        """All gauges, and counters that the books keep themselves."""
        yield from self._barrier()
        yield from self._replicas()
        yield from self._waiting()
        yield from self._workers()

    def _barrier(self) -> Iterable[Metric]:
        loads = self._desk.mirror.loads(self._desk.fleet.live("decode"))
        imbalance_tokens = float(imbalance(loads)) if loads else 0.0
        yield _gauge(
            "imbalance_tokens", "G*max - sum of the live replicas' loads", imbalance_tokens
        )
        idle = barrier_idle(loads)
        if idle is not None:
            yield _gauge("barrier_idle_ratio", "Share of the step waited at the barrier", idle)
        if self._desk.step_s is not None:
            yield _gauge("step_seconds", "Time between two tokens of a stream", self._desk.step_s)

    def _replicas(self) -> Iterable[Metric]:
        tokens = GaugeMetricFamily(f"{PREFIX}_replica_tokens", "KV tokens", labels=["replica"])
        bound = GaugeMetricFamily(
            f"{PREFIX}_replica_requests", "Requests bound", labels=["replica"]
        )
        free = GaugeMetricFamily(f"{PREFIX}_replica_free_slots", "Free slots", labels=["replica"])
        decoded = CounterMetricFamily(
            f"{PREFIX}_decode_tokens", "Tokens decoded", labels=["replica"]
        )
        drift = GaugeMetricFamily(
            f"{PREFIX}_engine_drift_requests",
            "Requests bound minus requests the engine says it runs",
            labels=["replica"],
        )
        for name, books in self._desk.mirror.replicas.items():
            tokens.add_metric([name], books.tokens)
            bound.add_metric([name], books.bound)
            free.add_metric([name], books.free_slots)
            decoded.add_metric([name], books.decoded)
            if name in self._drift:
                drift.add_metric([name], self._drift[name])
        yield from (tokens, bound, free, decoded, drift)

    def _waiting(self) -> Iterable[Metric]:
        desk = self._desk
        yield _gauge("queue_requests", "Requests before prefill", len(desk.gate))
        yield _gauge("pool_requests", "Prefilled requests waiting", len(desk.pool))
        yield _gauge("pool_tokens", "Their prompt tokens", desk.pool.tokens)
        yield _gauge("prefill_window_requests", "May be prefilled at once", desk.within_lease())
        yield _gauge("pool_room_requests", "Prefilling and pooled requests", desk.room.requests)
        yield _gauge("history_requests", "Outcomes predictors learn from", len(desk.ticker.history))
        yield _total("kv_expired", "Leases that ended in the pool", desk.pool.expired)
        yield _total("kv_expired_lost", "Of those, answered 503", desk.lost)
        yield _total("kv_stranded", "Prefills nobody fetched", desk.prefills.stranded_requests)
        yield _total("kv_stranded_tokens", "Their tokens", desk.prefills.stranded_tokens)
        yield _total("forced_bindings", "Bound because the lease ran out", desk.forced)
        yield _total("ticks", "Ticks", desk.ticker.ticks)
        yield _total("tick_fallbacks", "Ticks in which the router failed", desk.ticker.fallbacks)

    def _workers(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(f"{PREFIX}_worker_up", "Gets requests", labels=["role", "worker"])
        changes = CounterMetricFamily(
            f"{PREFIX}_worker_changes", "Turns between up and down", labels=["role", "worker"]
        )
        pinned = GaugeMetricFamily(f"{PREFIX}_prefill_tokens", "KV held", labels=["worker"])
        for worker in self._desk.fleet.workers.values():
            up.add_metric([worker.role, worker.name], float(worker.live))
            changes.add_metric([worker.role, worker.name], worker.health.changes)
        for name, books in self._desk.prefills.nodes.items():
            pinned.add_metric([name], books.held(self._desk.clock()))
        yield from (up, changes, pinned)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _total(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)
