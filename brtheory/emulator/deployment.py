"""What all servers of an emulator share: configuration, time, engines, faults, requests seen."""

from collections import deque
from dataclasses import dataclass, field

from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.decode import DecodeEngine
from brtheory.emulator.driver import WallClock
from brtheory.emulator.faults import FaultBook
from brtheory.emulator.kv import KvLedger
from brtheory.emulator.noise import mix
from brtheory.emulator.prefill import PrefillEngine

REMEMBERED_REQUESTS = 256
ENGINE_STREAM, REQUEST_STREAM = range(2)
"""What ids are drawn for."""


@dataclass(frozen=True, slots=True)
class Received:
    """One completion request as it arrived.

    Parameters
    ----------
    endpoint, path
        Where.
    headers
        As sent, names in lower case.
    body
        Its text.
    """

    endpoint: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass(slots=True)
class Deployment:
    """Shared state of one emulator.

    Parameters
    ----------
    config, clock
        What is emulated, and injected time.
    ledger, decode, prefill
        KV leases and engines; prefill servers by name.
    faults
        Rules in force.
    received
        The last completion requests, for tests that ask what a proxy sent.
    """

    config: EmulatorConfig
    clock: WallClock
    ledger: KvLedger
    decode: DecodeEngine
    faults: FaultBook
    prefill: dict[str, PrefillEngine] = field(default_factory=dict)
    received: deque[Received] = field(default_factory=lambda: deque(maxlen=REMEMBERED_REQUESTS))
    requests: int = 0

    def new_request_id(self) -> str:
        """An id for a request that brings none."""
        self.requests += 1
        return f"{mix(self.config.seed, REQUEST_STREAM, self.requests):016x}"


def make_deployment(config: EmulatorConfig, clock: WallClock) -> Deployment:
    """Build the shared state, without prefill servers: those need addresses."""
    ledger = KvLedger(config.lease)
    faults = FaultBook(config.seed)
    for rule in config.faults:
        faults.add(rule)
    return Deployment(config, clock, ledger, DecodeEngine(config, clock, ledger=ledger), faults)
