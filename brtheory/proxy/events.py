"""What happens to a request, as frozen events: the only input of its lifecycle.

Each event is a fact the shell has learned; it holds what logs and metrics need to know of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefillSent:
    """The prefill leg has been sent to a node."""

    node: str


@dataclass(frozen=True, slots=True)
class PrefillFailed:
    """A prefill attempt failed in a way that may be tried elsewhere (connection, 502, 503, 504)."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """The prompt is computed; its KV blocks are pinned on the node."""

    node: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class PrefillSkipped:
    """There is no prefill leg: the prompt is computed where it is decoded."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The prefill node may have freed the blocks before a replica was found."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A replica has been chosen, for life; its load entry is held from now on."""

    replica: str
    wait_s: float
    forced: bool = False
    """Bound because the lease was running out, not because a slot was free."""


@dataclass(frozen=True, slots=True)
class ConnectFailed:
    """The connection to the replica failed before the request was sent: the KV is untouched."""

    replica: str


@dataclass(frozen=True, slots=True)
class KvSpent:
    """Decode failed after it may have used the KV parameters, and nothing had been forwarded."""

    replica: str
    reason: str


@dataclass(frozen=True, slots=True)
class DecodeOpened:
    """Decode answered with success; its stream begins."""

    replica: str


@dataclass(frozen=True, slots=True)
class FirstByte:
    """The first byte of the answer goes to the client: from here on nothing can be retried."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The engine preempted the request and wants it prefilled again with the text so far."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer has ended as it should."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ends with an error, the client's, the proxy's or upstream's."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """The client has closed its connection, or is closed on."""


Event = (
    PrefillSent
    | PrefillFailed
    | PrefillDone
    | PrefillSkipped
    | LeaseExpired
    | Bound
    | ConnectFailed
    | KvSpent
    | DecodeOpened
    | FirstByte
    | Recomputed
    | Completed
    | Failed
    | ClientLeft
)
