"""The proxy as a whole: books built from settings, services started and stopped."""

import asyncio
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from brtheory.errors import InputError, MissingExtraError
from brtheory.proxy.connectors import make_connector
from brtheory.proxy.desk import Desk
from brtheory.proxy.dispatcher import Dispatcher
from brtheory.proxy.fleet import Fleet, Worker, decode_replicas
from brtheory.proxy.gate import Gate
from brtheory.proxy.health import HealthRecord
from brtheory.proxy.history import OutputHistory
from brtheory.proxy.mirror import LoadMirror
from brtheory.proxy.pool import PoolLimits, Room, WaitingPool
from brtheory.proxy.prefill import PrefillNodes
from brtheory.proxy.probes import Probes
from brtheory.proxy.settings import DecodeNode, PrefillNode, Settings, TracingSettings
from brtheory.proxy.telemetry import Telemetry
from brtheory.proxy.ticker import RouterChoice, Ticker
from brtheory.proxy.upstream import Upstream
from brtheory.proxy.work import Services

if TYPE_CHECKING:
    from brtheory.proxy.tracing import Tracing

log = logging.getLogger(__name__)

TRACING_NEEDS = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")


def build_desk(settings: Settings, clock: Callable[[], float]) -> Desk:
    """The books of a configuration, all workers in them.

    Raises
    ------
    InputError
        If workers clash.
    """
    router, pool = settings.router, settings.pool
    mirror, waiting, history = LoadMirror(), WaitingPool(), OutputHistory(router.history)
    if router.history_file is not None:
        history.load(router.history_file)
    choice = RouterChoice(router.name, router.params, router.predictor, router.seed, router.backend)
    desk = Desk(
        fleet=Fleet(),
        connector=make_connector(settings.connector.name, lease_s=settings.connector.lease_s),
        gate=Gate(longest=pool.queue),
        room=Room(PoolLimits(pool.requests, pool.tokens, pool.body_bytes)),
        prefills=PrefillNodes(),
        pool=waiting,
        mirror=mirror,
        ticker=Ticker(mirror, waiting, choice=choice, clock=clock, history=history),
        clock=clock,
        prefill_again=settings.connector.on_expired == "prefill",
        longest_wait_s=pool.queue_s,
        default_output=router.default_output,
    )
    for node in settings.prefill:
        add_prefill(desk, node, settings)
    for node_ in settings.decode:
        add_decode(desk, node_, settings)
    return desk


def add_prefill(desk: Desk, node: PrefillNode, settings: Settings) -> list[Worker]:
    """Take a prefill node in.

    Raises
    ------
    InputError
        If its name or address is in use, or the connector has no use for it.
    """
    if not desk.has_prefill:
        raise InputError(
            node.name, f"no prefill node with connector {desk.connector.name}", node.url
        )
    if desk.connector.needs_bootstrap and node.bootstrap_url is None:
        raise InputError(node.name, "a bootstrap_url with this connector", "none")
    worker = Worker(
        node.name,
        "prefill",
        node.url.rstrip("/"),
        kv_tokens=node.kv_tokens,
        bootstrap_url=node.bootstrap_url,
        health=_health(settings),
        checked=not desk.connector.needs_bootstrap,
    )
    desk.fleet.add(worker)
    desk.prefills.add(node.name, kv_tokens=node.kv_tokens)
    desk.on_change()
    return [worker]


def add_decode(desk: Desk, node: DecodeNode, settings: Settings) -> list[Worker]:
    """Take the replicas of a decode node in, all or none.

    Raises
    ------
    InputError
        If a name, or an address and rank, is in use.
    """
    workers = decode_replicas(
        node.name,
        node.url.rstrip("/"),
        ranks=node.ranks,
        slots=node.slots,
        kv_tokens=node.kv_tokens,
        first_rank=node.first_rank,
    )
    added: list[Worker] = []
    try:
        for worker in workers:
            worker.health = _health(settings)
            worker.checked = worker.rank is None or not settings.upstream.check_ranks
            desk.fleet.add(worker)
            added.append(worker)
            desk.mirror.add_replica(worker.name, slots=node.slots, kv_tokens=node.kv_tokens)
    except InputError:
        for worker in added:
            desk.fleet.remove(worker.name)
            desk.mirror.replicas.pop(worker.name, None)
        raise
    desk.ticker.replicas_changed()
    desk.on_change()
    return workers


def drain_worker(desk: Desk, name: str) -> Worker:
    """Give a worker no new requests; its streams go on.

    Raises
    ------
    InputError
        If there is no such worker.
    """
    worker = desk.fleet.find(name)
    worker.draining = True
    desk.on_change()
    return worker


def remove_worker(desk: Desk, name: str) -> Worker:
    """Forget a worker that nothing runs on.

    Raises
    ------
    InputError
        If there is no such worker, or it still has requests.
    """
    worker = desk.fleet.find(name)
    if worker.role == "decode":
        desk.mirror.remove_replica(name)
        desk.ticker.replicas_changed()
    else:
        books = desk.prefills.nodes[name]
        if books.legs or books.pinned:
            raise InputError(name, "no prefill and no pinned KV", f"{books.legs} legs")
        desk.prefills.remove(name)
    desk.fleet.remove(name)
    desk.on_change()
    return worker


class Proxy:
    """A running proxy; create it inside the event loop.

    Parameters
    ----------
    settings
        Checked settings.
    """

    def __init__(self, settings: Settings) -> None:
        loop = asyncio.get_running_loop()
        self.settings = settings
        self.desk = build_desk(settings, loop.time)
        self.desk.ticker.choice.warm_up()
        self.tracing = make_tracing(settings.tracing)
        self.upstream = Upstream(settings.upstream)
        self.telemetry = Telemetry(self.desk)
        self.services = Services(settings, self.desk, self.upstream, self.telemetry, self.tracing)
        self.draining = False
        self.draining_soon = False
        self._dispatcher = Dispatcher(
            self.desk,
            interval_s=settings.router.tick_interval_s,
            on_tick=self.telemetry.tick_s.observe,
        )
        self.probes = Probes(self.services)
        self._saver = asyncio.create_task(self._save_now_and_then())

    @property
    def ready(self) -> bool:
        """Whether new requests can be served."""
        fleet = self.desk.fleet
        served = bool(fleet.live("decode"))
        if self.desk.has_prefill:
            served = served and bool(fleet.live("prefill"))
        return served and not (self.draining or self.draining_soon)

    async def close(self) -> None:
        """Stop probing, save what was learned and close all connections."""
        self._dispatcher.stop()
        self._saver.cancel()
        await self.probes.close()
        self._save()
        await self.upstream.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self.settings.router.history_save_s)
            self._save()

    def _save(self) -> None:
        """Save what was learned; a full disk costs that, and nothing else."""
        path = self.settings.router.history_file
        if path is None or not self.desk.ticker.history.unsaved:
            return
        try:
            self.desk.ticker.history.save(path)
        except OSError as error:
            log.error("could not save the history of output lengths: %s", error)


def make_tracing(settings: TracingSettings) -> "Tracing | None":
    """Tracing where it is configured.

    Raises
    ------
    MissingExtraError
        If its packages are not installed.
    """
    if settings.endpoint is None:
        return None
    if not all(find_spec(name) for name in TRACING_NEEDS):
        raise MissingExtraError("tracing.endpoint", "otel")
    from brtheory.proxy.tracing import Tracing  # noqa: PLC0415  # the extra is there

    return Tracing(settings)


def _health(settings: Settings) -> HealthRecord:
    upstream = settings.upstream
    return HealthRecord(fall_after=upstream.fall_after, rise_after=upstream.rise_after)
