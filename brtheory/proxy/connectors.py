"""KV connectors: what each leg must carry so that decode finds the prefilled blocks.

Late binding needs a connector whose prefill leg can finish before a decode rank is chosen. Modes
that send both legs at once are refused with the reason. A lease says how long the prefill node
keeps the blocks of a request that nobody fetches.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from brtheory.errors import InputError

Params = dict[str, Any]

NIXL_LEASE_S = 30.0
MOONCAKE_LEASE_S = 480.0

REFUSED = {
    "sglang": "both legs carry a bootstrap room and are sent together, so nothing can bind late",
    "moriio-write": "prefill writes into blocks of a decode rank chosen before it starts",
    "lmcache-push": "prefill pushes to a decode rank chosen before it starts",
    "p2p-nccl": "the request id names the decode rank before prefill starts",
    "ascend-layerwise": "layers are sent to a decode rank chosen before prefill starts",
}


@dataclass(frozen=True)
class Source:
    """Where a request was prefilled, as far as a connector must know.

    Parameters
    ----------
    transfer_id
        Unique per prefill attempt.
    bootstrap_url
        The prefill node's bootstrap server, None where the connector has none.
    engine_id
        The engine of the rank that prefilled, None where the connector needs none.
    """

    transfer_id: str
    bootstrap_url: str | None = None
    engine_id: str | None = None


class MissingKvError(Exception):
    """The prefill answer lacks the parameters decode needs: decode would recompute the prompt."""


class Connector(Protocol):
    """One way of moving KV blocks from prefill to decode."""

    @property
    def name(self) -> str:
        """As written in the configuration."""

    @property
    def lease_s(self) -> float | None:
        """Seconds for which unfetched blocks are kept, None where there is no prefill leg."""

    @property
    def min_tokens(self) -> bool:
        """Whether the prefill leg must carry ``min_tokens: 1``."""

    @property
    def needs_bootstrap(self) -> bool:
        """Whether engine ids must be asked from a bootstrap server first."""

    def prefill_params(self, source: Source) -> Params | None:
        """``kv_transfer_params`` of the prefill leg."""

    def decode_params(self, answer: Any, source: Source) -> Params | None:
        """``kv_transfer_params`` of the decode leg, from those of the prefill answer.

        Raises
        ------
        MissingKvError
            If the answer has none and the connector needs them.
        """


@dataclass(frozen=True)
class PullConnector:
    """NIXL pull and Ascend's Mooncake: the prefill answer's parameters go to decode verbatim."""

    name: str = "nixl"
    lease_s: float | None = NIXL_LEASE_S
    min_tokens: bool = False
    needs_bootstrap: bool = field(default=False, init=False)

    def prefill_params(self, source: Source) -> Params:
        """Ask the prefill node to keep the blocks for a remote decode."""
        del source
        return {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        }

    def decode_params(self, answer: Any, source: Source) -> Params:
        """Pass the answer's parameters on, opaque."""
        del source
        if not isinstance(answer, dict) or not answer:
            raise MissingKvError
        return answer


@dataclass(frozen=True)
class MooncakeConnector:
    """Upstream Mooncake: both legs name a transfer; decode finds prefill by its bootstrap server.

    The prefill answer's parameters are null by design.
    """

    name: str = "mooncake"
    lease_s: float | None = MOONCAKE_LEASE_S
    min_tokens: bool = field(default=False, init=False)
    needs_bootstrap: bool = field(default=True, init=False)

    def prefill_params(self, source: Source) -> Params:
        """Announce the transfer."""
        return {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "transfer_id": source.transfer_id,
        }

    def decode_params(self, answer: Any, source: Source) -> Params:
        """Name the transfer, the bootstrap server and the engine that prefilled."""
        del answer
        if source.bootstrap_url is None or source.engine_id is None:
            raise MissingKvError
        return {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": source.transfer_id,
            "remote_bootstrap_addr": source.bootstrap_url,
            "remote_engine_id": source.engine_id,
        }


@dataclass(frozen=True)
class NoConnector:
    """Aggregated replicas: no prefill leg, prompts are computed where they are decoded."""

    name: str = "none"
    lease_s: float | None = field(default=None, init=False)
    min_tokens: bool = field(default=False, init=False)
    needs_bootstrap: bool = field(default=False, init=False)

    def prefill_params(self, source: Source) -> None:
        """No prefill leg."""
        del source

    def decode_params(self, answer: Any, source: Source) -> None:
        """Nothing to carry."""
        del answer, source


def make_connector(name: str, *, lease_s: float | None = None) -> Connector:
    """Build a connector by name.

    Parameters
    ----------
    name
        ``nixl``, ``mooncake-ascend``, ``mooncake`` or ``none``.
    lease_s
        Overrides the connector's lease, > 0 seconds.

    Raises
    ------
    InputError
        If the name is unknown, or names a mode without late binding (with the reason).
    """
    if name in REFUSED:
        raise InputError("connector.name", "a connector that can bind late", _refusal(name))
    if name == "nixl":
        return PullConnector(lease_s=lease_s or NIXL_LEASE_S)
    if name == "mooncake-ascend":
        lease = lease_s or MOONCAKE_LEASE_S
        return PullConnector(name="mooncake-ascend", lease_s=lease, min_tokens=True)
    if name == "mooncake":
        return MooncakeConnector(lease_s=lease_s or MOONCAKE_LEASE_S)
    if name == "none":
        return NoConnector()
    raise InputError("connector.name", "nixl, mooncake-ascend, mooncake or none", repr(name))


def read_bootstrap(raw: bytes) -> dict[int, str]:
    """Engine ids by data-parallel rank, from a bootstrap server's answer to ``/query``.

    Raises
    ------
    InputError
        If the answer is not ``{"<rank>": {"engine_id": "..."}}`` with at least one rank.
    """
    expected = '{"<dp rank>": {"engine_id": ...}, ...}'
    try:
        ranks = {int(rank): str(entry["engine_id"]) for rank, entry in json.loads(raw).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError("bootstrap /query", expected, repr(raw[:80])) from error
    if not ranks:
        raise InputError("bootstrap /query", expected, "no rank")
    return ranks


def _refusal(name: str) -> str:
    return f"{name!r}: {REFUSED[name]}"
