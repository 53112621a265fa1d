"""An emulator in a process of its own, until it is told to stop."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import uvloop

from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.emulator import Emulator


def serve_until_stopped(
    config: EmulatorConfig, *, on_ready: Callable[[dict[str, Any]], None]
) -> None:
    """Run until SIGINT or SIGTERM, then close everything.

    Parameters
    ----------
    config
        What to emulate.
    on_ready
        Called with the addresses when all servers listen.

    Raises
    ------
    InputError
        If an address cannot be had.
    """
    uvloop.run(_serve(config, on_ready))


async def _serve(config: EmulatorConfig, on_ready: Callable[[dict[str, Any]], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Emulator(config) as emulator:
        on_ready(emulator.addresses())
        await stop.wait()
