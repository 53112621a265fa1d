"""Every setting of the proxy, with its default, its range and what it is for."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from brtheory.contracts import Contract
from brtheory.proxy.history import DEFAULT_MEMORY
from brtheory.proxy.sse import DEFAULT_EVENT_LIMIT

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_SLOTS, MOST_KV_TOKENS, MOST_RANKS = 1 << 20, 1 << 40, 1024
"""Bounds far beyond any machine: what is larger is a slip, and would not fit into 64 bits."""


def _node_url(url: str) -> str:
    if not (url.isascii() and url.isprintable()):
        raise ValueError("an address in printable ASCII")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("an address with a host and, if any, a port of 1 .. 65535")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("an address without user, query or fragment")
    return url


NodeUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$"), AfterValidator(_node_url)]
"""Scheme, host, port and perhaps a path of a node."""
NodeName = Annotated[str, Field(pattern=r"^\w[\w.:-]{0,63}$")]
"""Stands in a path of the admin API, so ``.`` and ``..`` are none."""


class ServerSettings(Contract):
    """Where clients connect, and what they may send."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    api_keys: list[SecretStr] = Field(default=[], description="Clients present one; empty: open.")
    api_keys_file: Path | None = Field(default=None, description="More keys, one a line.")
    tls_cert: Path | None = None
    tls_key: Path | None = None
    max_body_bytes: int = Field(default=32 << 20, ge=1)
    max_header_bytes: int = Field(default=16 << 10, ge=256)
    max_requests: int = Field(default=8192, ge=1, description="Served at once; more get 503.")
    max_connections: int | None = Field(
        default=None,
        ge=1,
        description="Open at once; beyond it the oldest idle one is closed. "
        "None: 2 in 5 of the open files allowed.",
    )
    client_stall_s: float = Field(
        default=60.0, gt=0, description="Longest a client may read nothing."
    )
    body_s: float = Field(default=60.0, gt=0, description="Longest a body may take to arrive.")
    drain_grace_s: float = Field(
        default=0.0,
        ge=0,
        description="After SIGTERM, still accept so long.",
    )
    drain_s: float = Field(default=600.0, ge=0, description="Then let streams end for so long.")
    allow_many: bool = Field(default=False, description="Let n > 1 and batches of prompts pass.")


class AdminSettings(Contract):
    """Where operators connect."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = Field(default=8001, ge=0, le=65535)
    key: SecretStr | None = Field(default=None, description="Required where host is not loopback.")
    key_file: Path | None = None


class RouterSettings(Contract):
    """Who decides."""

    name: str = Field(default="br0", description="Any router of the registry.")
    params: dict[str, Any] = Field(default={}, description="Its parameters.")
    predictor: Literal["survival", "exact-match"] = "survival"
    seed: int = Field(default=0, ge=0)
    backend: Literal["numpy", "compiled", "auto"] = Field(
        default="numpy",
        description="Tick implementation; compiled takes a minute at the first start.",
    )
    tick_interval_s: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Shortest time between two ticks "
        "while requests wait; 0 ticks whenever something changes.",
    )
    history_file: Path | None = Field(default=None, description="Keeps lengths over restarts.")
    history_save_s: float = Field(default=30.0, gt=0, description="Between two savings of it.")
    history: int = Field(default=DEFAULT_MEMORY, ge=1)
    default_output: int = Field(
        default=1024,
        ge=1,
        description="Tokens reserved for requests without a "
        "limit of their own, where KV capacity is configured.",
    )


class ConnectorSettings(Contract):
    """How KV moves from prefill to decode."""

    name: str = "nixl"
    lease_s: float | None = Field(default=None, gt=0, description="None: the connector's own.")
    on_missing: Literal["fail", "continue"] = Field(
        default="fail", description="What to do when prefill returns no KV parameters."
    )
    on_expired: Literal["prefill", "fail"] = "prefill"


class PoolSettings(Contract):
    """Bounds of what waits."""

    requests: int = Field(default=256, ge=1)
    tokens: int = Field(default=4_000_000, ge=1)
    body_bytes: int = Field(default=256 << 20, ge=1)
    queue: int = Field(default=1024, ge=0, description="In line before prefill; more get 429.")
    queue_s: float = Field(default=60.0, gt=0, description="Longest in line; then 503.")


class UpstreamSettings(Contract):
    """How nodes are talked to."""

    api_key: SecretStr | None = Field(default=None, description="Sent instead of the client's.")
    api_key_file: Path | None = None
    tls_ca: Path | None = Field(
        default=None, description="Authorities trusted for https nodes, instead of the system's."
    )
    tls_cert: Path | None = Field(default=None, description="Shown to nodes that ask for one.")
    tls_key: Path | None = None
    connect_s: float = Field(default=5.0, gt=0)
    prefill_s: float = Field(default=600.0, gt=0)
    idle_s: float = Field(default=300.0, gt=0, description="Longest silence of a stream.")
    keepalive_s: float = Field(default=3.0, gt=0, lt=5, description="Below the engines' own 5 s.")
    max_event_bytes: int = Field(default=DEFAULT_EVENT_LIMIT, ge=1024)
    health_path: str = "/health"
    health_interval_s: float = Field(default=2.0, gt=0)
    health_timeout_s: float = Field(default=2.0, gt=0)
    fall_after: int = Field(default=3, ge=1)
    rise_after: int = Field(default=2, ge=1)
    check_ranks: bool = Field(
        default=True, description="Ask for one token of each rank before using it."
    )
    poll_metrics: bool = Field(
        default=True, description="Read the engines' own metrics for drift and KV usage."
    )
    metrics_interval_s: float = Field(default=5.0, gt=0)
    usage: bool = Field(default=True, description="Ask for usage in every chunk to count tokens.")
    token_ids: bool = Field(default=False, description="Ask for token ids in every chunk too.")


class LogSettings(Contract):
    """What is written to standard error."""

    format: Literal["human", "json"] = "human"
    level: Literal["debug", "info", "warning", "error"] = "info"
    requests: bool = Field(default=True, description="One line for each request.")


class TracingSettings(Contract):
    """Where OpenTelemetry spans go; needs the extra ``otel``."""

    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s]+$",
        description="OTLP over HTTP, e.g. http://collector:4318/v1/traces; none: no tracing.",
    )
    service_name: str = "brtheory"
    sample_ratio: float = Field(
        default=1.0, ge=0, le=1, description="Share of the requests without a sampled parent."
    )
    timeout_s: float = Field(default=5.0, gt=0, description="Longest wait for the collector.")


class PrefillNode(Contract):
    """A prefill node."""

    name: NodeName
    url: NodeUrl
    kv_tokens: int | None = Field(default=None, ge=1, le=MOST_KV_TOKENS)
    bootstrap_url: NodeUrl | None = None


class DecodeNode(Contract):
    """A decode node and the ranks it owns."""

    name: NodeName
    url: NodeUrl
    ranks: list[Annotated[int, Field(le=1 << 31)]] | None = Field(
        default=None,
        max_length=MOST_RANKS,
        description="Global data-parallel ranks served at this "
        "address; none where the address is one rank's own.",
    )
    first_rank: int = Field(
        default=0,
        ge=0,
        le=1 << 31,
        description="The rank that the node calls 0 in X-data-parallel-rank: vLLM counts "
        "a node's own ranks from 0 with hybrid load balancing.",
    )
    slots: int = Field(default=256, ge=1, le=MOST_SLOTS, description="max_num_seqs of one rank.")
    kv_tokens: int | None = Field(
        default=None, ge=1, le=MOST_KV_TOKENS, description="KV tokens of one rank."
    )


class Settings(Contract):
    """The whole configuration."""

    server: ServerSettings = Field(default_factory=ServerSettings)
    admin: AdminSettings = Field(default_factory=AdminSettings)
    router: RouterSettings = Field(default_factory=RouterSettings)
    connector: ConnectorSettings = Field(default_factory=ConnectorSettings)
    pool: PoolSettings = Field(default_factory=PoolSettings)
    upstream: UpstreamSettings = Field(default_factory=UpstreamSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)
    prefill: list[PrefillNode] = Field(default_factory=list)
    decode: list[DecodeNode] = Field(default_factory=list)
