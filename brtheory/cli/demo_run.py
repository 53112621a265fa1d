"""The demo as a whole: emulator, proxy and load in one process, started and stopped together."""

import asyncio
import contextlib
import itertools
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from brtheory.cli.demo_load import LoadGenerator
from brtheory.cli.demo_phases import PhaseLog
from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.emulator import Emulator
from brtheory.proxy.proxy import Proxy
from brtheory.proxy.serving import Running, start
from brtheory.proxy.settings import (
    AdminSettings,
    ConnectorSettings,
    DecodeNode,
    LogSettings,
    PrefillNode,
    RouterSettings,
    ServerSettings,
    Settings,
    UpstreamSettings,
)
from brtheory.proxy.ticker import RouterChoice
from brtheory.traces.schema import Trace

LOOPBACK = "127.0.0.1"
SECOND_S = 1.0
DRAIN_S = 5.0


@dataclass(frozen=True)
class DemoPlan:
    """What is played.

    Parameters
    ----------
    emulator
        The engines; on loopback.
    trace
        Requests.
    router
        The one to begin with.
    clients
        Requests on their way at once.
    seconds
        How long, None until it is told to stop.
    switch_every_s
        Time between two switches, None for none.
    turns
        Routers that take turns then.
    """

    emulator: EmulatorConfig
    trace: Trace
    router: str
    clients: int
    seconds: float | None
    switch_every_s: float | None
    turns: Sequence[str]


async def play(
    plan: DemoPlan, *, on_ready: Callable[[str, str], None], on_second: Callable[[int], None]
) -> dict[str, Any]:
    """Play until the time is over, or SIGINT or SIGTERM comes.

    Parameters
    ----------
    plan
        What is played.
    on_ready
        Called with the dashboard's address, key and all, and with the API's.
    on_second
        Called with 1 after each second.

    Returns
    -------
    dict
        The summary, as JSON.

    Raises
    ------
    InputError
        If a router is unknown or a port cannot be had.
    """
    for name in plan.turns:
        RouterChoice(name).warm_up()
    key = secrets.token_urlsafe(16)
    stop = asyncio.Event()
    async with Emulator(plan.emulator) as emulator, _served(emulator, plan, key) as running:
        _stop_on_signals(stop)
        url = f"http://{LOOPBACK}:{running.port}"
        on_ready(f"http://{LOOPBACK}:{running.admin_port}/dashboard#key={key}", url)
        load = LoadGenerator(plan.trace, url=url, model=plan.emulator.model, clients=plan.clients)
        ticker, clock = running.proxy.desk.ticker, asyncio.get_running_loop().time
        log = PhaseLog(emulator.deployment, choice=lambda: ticker.choice, clock=clock)
        started_s = clock()
        async with _background(load.run(), log.run(), _take_turns(running.proxy, plan)):
            await _wait(stop, plan.seconds, on_second)
            log.note()
            summary = _summary(log, load, seconds=clock() - started_s, emulator=emulator)
    return summary


def _summary(
    log: PhaseLog, load: LoadGenerator, *, seconds: float, emulator: Emulator
) -> dict[str, Any]:
    # A switch at the very end begins a phase in which nothing happens any more.
    phases = [phase.document() for phase in log.phases if len(phase.seen) > 1]
    return {
        "schema": "brtheory.demo/1",
        "seconds": round(seconds, 3),
        "decoded_tokens": sum(phase["decoded_tokens"] for phase in phases),
        "requests": {"completed": load.counts.completed, "failed": load.counts.failed},
        "emulator_lost_s": round(emulator.deployment.decode.driver.lost_s, 3),
        "phases": phases,
    }


@contextlib.asynccontextmanager
async def _served(emulator: Emulator, plan: DemoPlan, key: str) -> AsyncIterator[Running]:
    """The proxy before the emulator, all its workers live."""
    running = await start(_settings(emulator, plan, key))
    try:
        fleet = running.proxy.desk.fleet
        while len(fleet.live("decode")) < plan.emulator.shape.replicas:
            await asyncio.sleep(0.02)
        yield running
    finally:
        await running.stop(drain_s=DRAIN_S)


def _settings(emulator: Emulator, plan: DemoPlan, key: str) -> Settings:
    where, shape = emulator.addresses(), plan.emulator.shape
    return Settings(
        server=ServerSettings(port=0),
        admin=AdminSettings(port=0, key=SecretStr(key)),
        router=RouterSettings(name=plan.router),
        connector=ConnectorSettings(name=plan.emulator.connector),
        upstream=UpstreamSettings(health_interval_s=0.5),
        log=LogSettings(requests=False),
        prefill=[PrefillNode(name=node["name"], url=node["url"]) for node in where["prefill"]],
        decode=[
            DecodeNode(name=node["name"], url=node["url"], slots=shape.slots)
            for node in where["decode"]
        ],
    )


@contextlib.asynccontextmanager
async def _background(*jobs: Any) -> AsyncIterator[None]:
    """Run jobs beside the block, and cancel them at its end; a job that fails ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        yield
        for task in tasks:
            task.cancel()


async def _take_turns(proxy: Proxy, plan: DemoPlan) -> None:
    if plan.switch_every_s is None:
        return
    names = itertools.cycle(plan.turns)
    if plan.turns[0] == plan.router:
        next(names)
    for name in names:
        await asyncio.sleep(plan.switch_every_s)
        proxy.desk.ticker.use(RouterChoice(name))
        proxy.desk.on_change()


async def _wait(
    stop: asyncio.Event, seconds: float | None, on_second: Callable[[int], None]
) -> None:
    """Wait for the end, second by second."""
    loop = asyncio.get_running_loop()
    end_s = float("inf") if seconds is None else loop.time() + seconds
    while not stop.is_set() and (left_s := end_s - loop.time()) > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(SECOND_S, left_s))
        on_second(1)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
