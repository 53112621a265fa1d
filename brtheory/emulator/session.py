"""One request on an engine: what the HTTP side sees of it, whatever the kind of engine.

A session yields pieces of its answers until all have ended; what it holds (slots, KV) is released
exactly once when its generator is closed, in whatever phase that happens.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Protocol

from brtheory.emulator.call import ApiError
from brtheory.emulator.piece import Json, Piece, Usage
from brtheory.emulator.plan import SequencePlan


class Session(Protocol):
    """One request on an engine."""

    @property
    def usage(self) -> Usage:
        """Token counts; filled while pieces are sent."""

    @property
    def kv_transfer_params(self) -> Json | None:
        """Parameters for decode, known once all pieces have come."""

    def pieces(self) -> AsyncGenerator[Piece]:
        """Run the request."""


class RequestIds:
    """Request ids in use on one engine; a second request with the same id is refused."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def __len__(self) -> int:
        return len(self._held)

    @contextmanager
    def hold(self, request_id: str) -> Iterator[None]:
        """Hold an id.

        Raises
        ------
        ApiError
            If it is held already.
        """
        if request_id in self._held:
            raise ApiError(400, f"Request id {request_id} already running.")
        self._held.add(request_id)
        try:
            yield
        finally:
            self._held.discard(request_id)


def last_piece(plan: SequencePlan, start: int) -> Piece:
    """What is left of an answer, with the reason of its end."""
    return Piece(plan, start, plan.output_tokens, plan.finish_reason, plan.stop_reason)
