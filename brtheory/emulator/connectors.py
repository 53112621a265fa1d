"""How KV is named on the wire, one object per connector.

``nixl`` and ``mooncake-ascend``: the prefill reply carries opaque parameters that decode must get
verbatim. ``mooncake``: the caller makes a transfer id, the reply carries nothing, and decode is
told the bootstrap address and engine id from ``GET /query``. ``none``: no prefill leg.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from brtheory.emulator.kv import Handle
from brtheory.emulator.noise import digest, mix
from brtheory.errors import InputError

BLOCK_TOKENS = 16
Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Producer:
    """The prefill engine as parameters describe it.

    Parameters
    ----------
    engine_id
        Its name among engines.
    host, port
        Where decode would fetch KV from.
    bootstrap_url
        Base address that answers ``/query``, None where the connector has none.
    """

    engine_id: str
    host: str
    port: int
    bootstrap_url: str | None = None


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A finished prefill: request id on the engine, prompt tokens, and why it ended."""

    request_id: str
    prompt_tokens: int
    finish_reason: str


class Connector(Protocol):
    """One way of naming KV."""

    @property
    def lease_s(self) -> float:
        """Seconds for which unclaimed KV is kept."""

    def handle_to_pin(self, asked: Parameters, done: Prefilled, *, by: Producer) -> Handle | None:
        """Name under which KV is pinned, None if the engine keeps none for this request."""

    def reply(self, handle: Handle, done: Prefilled, *, by: Producer) -> dict[str, Any] | None:
        """``kv_transfer_params`` of the prefill reply."""

    def handle_to_claim(self, given: Parameters) -> Handle | None:
        """Name of the KV that decode is told to fetch, None if the parameters name none."""

    def proof(self, given: Parameters) -> object:
        """What of the parameters must equal the pin's."""


@dataclass(frozen=True, slots=True)
class PullConnector:
    """NIXL pull, and vllm-ascend's Mooncake with ``ascend``.

    Ascend returns parameters only for requests that ended by their length.
    """

    lease_s: float
    ascend: bool = False

    def handle_to_pin(self, asked: Parameters, done: Prefilled, *, by: Producer) -> Handle | None:
        """Pin if remote decode was asked for."""
        if not asked.get("do_remote_decode") or (self.ascend and done.finish_reason != "length"):
            return None
        return Handle(by.engine_id, done.request_id)

    def reply(self, handle: Handle, done: Prefilled, *, by: Producer) -> dict[str, Any] | None:
        """Parameters for the decode leg."""
        blocks = -(-done.prompt_tokens // BLOCK_TOKENS)
        first = mix(digest(handle.name.encode())) % 100_000
        reply: dict[str, Any] = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(first, first + blocks))],
            "remote_engine_id": handle.engine_id,
            "remote_request_id": handle.name,
            "remote_host": by.host,
            "remote_port": by.port,
            "tp_size": 1,
            "remote_num_tokens": done.prompt_tokens,
            "transfer_mode": "pull",
        }
        if self.ascend:
            reply |= {"remote_pcp_size": 1, "remote_dcp_size": 1, "num_prompt_blocks": blocks}
        return reply

    def handle_to_claim(self, given: Parameters) -> Handle | None:
        """From the engine and request named."""
        return _handle(given, "remote_engine_id", "remote_request_id")

    def proof(self, given: Parameters) -> object:
        """All of it: the parameters are opaque."""
        return dict(given)


@dataclass(frozen=True, slots=True)
class BootstrapConnector:
    """Upstream Mooncake, prefill before decode."""

    lease_s: float

    def handle_to_pin(self, asked: Parameters, done: Prefilled, *, by: Producer) -> Handle | None:
        """Pin under the caller's transfer id."""
        del done
        transfer_id = asked.get("transfer_id")
        if not asked.get("do_remote_decode") or not isinstance(transfer_id, str):
            return None
        return Handle(by.engine_id, transfer_id)

    def reply(self, handle: Handle, done: Prefilled, *, by: Producer) -> None:
        """Null by design."""
        del handle, done, by

    def handle_to_claim(self, given: Parameters) -> Handle | None:
        """From the engine and transfer named."""
        return _handle(given, "remote_engine_id", "transfer_id")

    def proof(self, given: Parameters) -> object:
        """The bootstrap address, without a slash at its end."""
        return str(given.get("remote_bootstrap_addr", "")).rstrip("/")


CONNECTORS: Mapping[str, Connector | None] = {
    "nixl": PullConnector(lease_s=30.0),
    "mooncake-ascend": PullConnector(lease_s=480.0, ascend=True),
    "mooncake": BootstrapConnector(lease_s=480.0),
    "none": None,
}


def find_connector(name: str) -> Connector | None:
    """Connector by name, None for aggregated replicas.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    if name not in CONNECTORS:
        raise InputError("connector", " | ".join(CONNECTORS), repr(name))
    return CONNECTORS[name]


def pin_proof(connector: Connector, reply: Parameters | None, *, by: Producer) -> object:
    """What a claim must bring to get the KV behind this reply."""
    if reply is not None:
        return connector.proof(reply)
    return connector.proof({"remote_bootstrap_addr": by.bootstrap_url or ""})


def _handle(given: Parameters, engine_key: str, name_key: str) -> Handle | None:
    engine_id, name = given.get(engine_key), given.get(name_key)
    if not isinstance(engine_id, str) or not isinstance(name, str):
        return None
    return Handle(engine_id, name)
