"""KV transfer: what passes between binding a request to a replica and its first decode step.

A bound request takes its slot (and its KV reservation) at once. It decodes, weighs on the barrier
and grows from the first step that starts at or after the end of its transfer; until then the
router counts its prompt as load of the replica, because nobody knows better than the router what
it has just bound. Without overlap the transfer starts at binding; with overlap it starts when the
request is ready, towards memory near every replica, so that only what is left of it delays the
request. Wait ends at binding; time per output token starts with the first decode step.
"""

import heapq
from dataclasses import dataclass

from brtheory.core.requests import Request
from brtheory.errors import InputError

LONGEST_TRANSFER_S = 1e9


@dataclass(frozen=True, slots=True)
class TransferDelay:
    """Seconds a request's KV cache takes to its replica.

    Parameters
    ----------
    seconds, seconds_per_token
        Fixed, and per prompt token; each 0 .. 1e9.
    overlap
        Whether the transfer runs while the request waits for a slot.
    """

    seconds: float = 0.0
    seconds_per_token: float = 0.0
    overlap: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds", "seconds_per_token"):
            value = getattr(self, name)
            if not 0 <= value <= LONGEST_TRANSFER_S:
                expected = f"0 to {LONGEST_TRANSFER_S:g} seconds"
                raise InputError(f"transfer {name.replace('_', ' ')}", expected, value)

    def end_s(self, *, prompt_tokens: int, ready_s: float, bound_s: float) -> float:
        """Time at which the KV cache of a request bound at ``bound_s`` is there, >= that."""
        start_s = ready_s if self.overlap else bound_s
        return max(bound_s, start_s + (self.seconds + self.seconds_per_token * prompt_tokens))


class Transfers:
    """Transfers under way, soonest end first."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []
        self._moving: dict[int, tuple[Request, int]] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, request: Request, replica: int, *, end_s: float) -> None:
        """Note that the request's KV cache is on its way to the replica."""
        heapq.heappush(self._ends, (end_s, request.id))
        self._moving[request.id] = request, replica

    def next_time_s(self) -> float | None:
        """End of the transfer that ends next, None if there is none."""
        return self._ends[0][0] if self._ends else None

    def ended(self, clock_s: float) -> list[tuple[Request, int]]:
        """Requests and replicas of the transfers that have ended, by (end, id)."""
        ended = []
        while self._ends and self._ends[0][0] <= clock_s:
            ended.append(self._moving.pop(heapq.heappop(self._ends)[1]))
        return ended
