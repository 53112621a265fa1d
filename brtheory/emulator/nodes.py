"""The servers of a deployment as their HTTP side sees them: a decode endpoint, a prefill server."""

from contextlib import AbstractContextManager
from typing import Protocol

from brtheory.emulator.call import ApiError, Call
from brtheory.emulator.decode import DecodeEngine
from brtheory.emulator.metrics import EngineGauges
from brtheory.emulator.prefill import PrefillEngine
from brtheory.emulator.session import Session


class Node(Protocol):
    """One server."""

    @property
    def name(self) -> str:
        """Unique in the deployment."""

    @property
    def role(self) -> str:
        """``decode`` or ``prefill``."""

    def pick_rank(self, header: str | None) -> int | None:
        """The global rank that serves a request with this ``X-data-parallel-rank``."""

    def hold(self, request_id: str) -> AbstractContextManager[None]:
        """Hold a request id while it is served."""

    def open(self, call: Call, *, request_id: str, rank: int | None) -> Session:
        """Plan a request."""

    def gauges(self) -> list[EngineGauges]:
        """State of the engines behind it."""

    def die(self) -> None:
        """Forget what does not survive a crash."""


class DecodeNode:
    """An endpoint that owns some decode ranks.

    Parameters
    ----------
    name
        Such as ``decode-1``.
    engine
        All ranks.
    ranks
        Global ranks that it owns.
    counts_own
        Whether requests name its ranks from 0, as with vLLM's hybrid load balancing.
    """

    role = "decode"

    def __init__(
        self, name: str, engine: DecodeEngine, *, ranks: range, counts_own: bool = False
    ) -> None:
        self.name = name
        self.ranks = ranks
        self._engine = engine
        self._first = ranks.start if counts_own else 0

    def pick_rank(self, header: str | None) -> int | None:
        """The rank asked for, or the least busy one.

        Raises
        ------
        ApiError
            400 if it is no number or another endpoint's.
        """
        if header is None:
            return self._engine.least_busy(self.ranks)
        # Checked as text first: int() also reads signs, spaces and underscores.
        if header.isascii() and header.isdigit() and len(header) < 10:
            rank = self._first + int(header)
            if rank in self.ranks:
                return rank
        owned = f"[{self.ranks.start - self._first}, {self.ranks.stop - self._first})"
        raise ApiError(400, f"data_parallel_rank {header} is out of range {owned}.")

    def hold(self, request_id: str) -> AbstractContextManager[None]:
        """As ``DecodeEngine.hold``."""
        return self._engine.hold(request_id)

    def open(self, call: Call, *, request_id: str, rank: int | None) -> Session:
        """As ``DecodeEngine.open``."""
        if rank is None:
            rank = self._engine.least_busy(self.ranks)
        return self._engine.open(call, request_id=request_id, rank=rank)

    def gauges(self) -> list[EngineGauges]:
        """One entry for each rank it owns."""
        return [self._engine.gauges(rank) for rank in self.ranks]

    def die(self) -> None:
        """Nothing: its requests leave with their connections."""


class PrefillNode:
    """A prefill server.

    Parameters
    ----------
    name
        Such as ``prefill-0``.
    engine
        What it runs.
    """

    role = "prefill"

    def __init__(self, name: str, engine: PrefillEngine) -> None:
        self.name = name
        self._engine = engine

    def pick_rank(self, header: str | None) -> int | None:
        """None: it has one rank, 0.

        Raises
        ------
        ApiError
            400 if another one is asked for.
        """
        if header not in {None, "0"}:
            raise ApiError(400, f"data_parallel_rank {header} is out of range [0, 1).")
        return None

    def hold(self, request_id: str) -> AbstractContextManager[None]:
        """As ``PrefillEngine.hold``."""
        return self._engine.hold(request_id)

    def open(self, call: Call, *, request_id: str, rank: int | None) -> Session:
        """As ``PrefillEngine.open``."""
        del rank
        return self._engine.open(call, request_id=request_id)

    def gauges(self) -> list[EngineGauges]:
        """One entry."""
        return [self._engine.gauges()]

    def die(self) -> None:
        """Lose all pinned KV."""
        self._engine.die()
