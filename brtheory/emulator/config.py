"""Everything that defines an emulator."""

import ipaddress
import math
from dataclasses import dataclass, field
from typing import Literal

from brtheory.emulator.connectors import find_connector
from brtheory.emulator.faults import FaultRule
from brtheory.errors import InputError
from brtheory.simulation.workload import ClusterShape, StepTime

DEFAULT_KV_CAPACITY = 1_000_000
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class PrefillSpeed:
    """A prefill takes ``overhead_s`` + tokens / ``tokens_per_s`` seconds, one after the other."""

    tokens_per_s: float = 20_000.0
    overhead_s: float = 0.005

    def __post_init__(self) -> None:
        if not (0 < self.tokens_per_s < math.inf and 0 <= self.overhead_s < math.inf):
            raise InputError("prefill speed", "tokens/s > 0 and overhead >= 0", self)

    def seconds(self, tokens: int) -> float:
        """Duration of a prefill of so many tokens."""
        return self.overhead_s + tokens / self.tokens_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class EmulatorConfig:
    """An emulated deployment.

    Parameters
    ----------
    shape
        G decode ranks, slots, KV capacity of a rank in tokens.
    ranks_per_endpoint
        1: a port for each rank; G: one endpoint; between: nodes that own some ranks each.
    counts_own_ranks
        Whether each of these nodes is asked for its ranks from 0, not for global ones.
    step_time
        b0 and a0 of the barrier.
    burst
        Most tokens a request emits in one step (speculative decoding).
    tokens_per_chunk
        Tokens that are gathered before a chunk is sent (stream interval).
    prefill
        Prefill servers.
    prefill_speed, prefill_kv_capacity
        Of each of them, and of a decode rank that must recompute a prompt.
    connector
        ``nixl``, ``mooncake-ascend``, ``mooncake`` or ``none``.
    lease_s
        Seconds for which prefilled KV is kept, None for the connector's.
    on_lost_kv
        What decode does without usable KV: prefill the prompt itself, silently, or fail.
    time_scale
        Wall seconds for a second of the model (steps and prefills; not leases, not timeouts).
    keepalive_s
        Seconds after which idle connections are closed.
    model, max_model_len
        What is served.
    mean_output
        Mean of the hidden output law, tokens.
    api_key
        Required as a bearer token where not None.
    seed
        Of lengths, words, bursts and faults.
    host, port_base
        Address; port 0 lets the system choose, otherwise ports count up from here.
    faults
        Rules in force from the start.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    shape: ClusterShape = field(default_factory=lambda: ClusterShape(4, 32, DEFAULT_KV_CAPACITY))
    ranks_per_endpoint: int = 1
    counts_own_ranks: bool = False
    step_time: StepTime = field(default_factory=StepTime)
    burst: int = 1
    tokens_per_chunk: int = 1
    prefill: int = 2
    prefill_speed: PrefillSpeed = field(default_factory=PrefillSpeed)
    prefill_kv_capacity: int | None = DEFAULT_KV_CAPACITY
    connector: str = "nixl"
    lease_s: float | None = None
    on_lost_kv: Literal["recompute", "fail"] = "recompute"
    time_scale: float = 1.0
    keepalive_s: float = 5.0
    model: str = "emulated"
    max_model_len: int = 131_072
    mean_output: float = 200.0
    api_key: str | None = None
    seed: int = 0
    host: str = "127.0.0.1"
    port_base: int = 0
    faults: tuple[FaultRule, ...] = ()

    def __post_init__(self) -> None:
        find_connector(self.connector)
        self._check_counts()
        self._check_durations()
        if self.shape.replicas % self.ranks_per_endpoint:
            raise InputError(
                "ranks_per_endpoint", f"a divisor of {self.shape.replicas}", self.ranks_per_endpoint
            )
        if self.on_lost_kv not in {"recompute", "fail"}:
            raise InputError("on_lost_kv", "recompute | fail", repr(self.on_lost_kv))
        if not 1 <= self.mean_output < math.inf:
            raise InputError("mean_output", "a finite number >= 1", self.mean_output)
        if self.prefill and self.connector == "none":
            raise InputError("prefill", "0 with connector none", self.prefill)

    @property
    def lease(self) -> float:
        """Seconds for which prefilled KV is kept."""
        connector = find_connector(self.connector)
        if self.lease_s is not None:
            return self.lease_s
        return connector.lease_s if connector is not None else 0.0

    @property
    def endpoints(self) -> int:
        """Decode endpoints."""
        return self.shape.replicas // self.ranks_per_endpoint

    @property
    def ports(self) -> int:
        """Ports in use: admin, decode, prefill, and a bootstrap for each prefill with mooncake."""
        bootstraps = self.prefill if self.connector == "mooncake" else 0
        return 1 + self.endpoints + self.prefill + bootstraps

    def port(self, offset: int) -> int:
        """The port at this place in the count, 0 to let the system choose."""
        return self.port_base + offset if self.port_base else 0

    def _check_counts(self) -> None:
        for name, least in (
            ("ranks_per_endpoint", 1),
            ("burst", 1),
            ("tokens_per_chunk", 1),
            ("prefill", 0),
            ("prefill_kv_capacity", 1),
            ("max_model_len", 2),
            ("seed", 0),
            ("port_base", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(name, f"an integer >= {least}", value)
        if self.port_base and self.port_base + self.ports - 1 > LAST_PORT:
            raise InputError("port_base", f"{self.ports} ports up to {LAST_PORT}", self.port_base)

    def _check_durations(self) -> None:
        for name in ("lease_s", "time_scale", "keepalive_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(name, "finite and > 0", value)


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
