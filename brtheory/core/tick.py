"""The state a pooled router decides on, and the copy it may change while deciding.

A tick is one router decision; a step is one decode iteration. They are never mixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from brtheory.core.requests import Request
from brtheory.core.unequal import Paces, time_loads
from brtheory.errors import InputError


@dataclass(frozen=True, slots=True)
class TickState:
    """What a pooled router sees in one tick.

    Parameters
    ----------
    loads
        G rows of H + 1 projected KV loads, Lhat_g(0) .. Lhat_g(H); entry 0 is the present load.
    free_slots
        cap[g] >= 0, one per replica.
    pool
        Waiting requests, oldest first (ready time, then id).
    now_s
        The clock; a request's wait is ``now_s - ready_s``.
    free_tokens
        KV tokens not yet reserved on each replica, None where capacity is unlimited.
    paces
        A_g and B_g where replicas differ in speed, None where they do not.
    """

    loads: Sequence[Sequence[int]]
    free_slots: Sequence[int]
    pool: Sequence[Request]
    now_s: float = 0.0
    free_tokens: Sequence[int] | None = None
    paces: Paces | None = None


class TickLedger:
    """A tick's own copy of loads, slots and KV room, refreshed after every admission.

    Admitting Delta adds it to the replica's whole projected row and raises the envelope
    M_h = max_g Lhat_g(h) where exceeded, so margins are never stale. Where replicas differ in
    speed, rows, envelope and margins are in units of time, T_g(h) = B_g + A_g*Lhat_g(h).
    """

    def __init__(self, state: TickState) -> None:
        self._paces = state.paces
        self.rows = _rows(state)
        self.cap = list(state.free_slots)
        self.envelope: list[int] = [max(column) for column in zip(*self.rows, strict=True)]
        self._free_tokens = None if state.free_tokens is None else list(state.free_tokens)

    @property
    def replicas(self) -> int:
        """G."""
        return len(self.rows)

    @property
    def total_free_slots(self) -> int:
        """S_tot = sum_g cap[g]."""
        return sum(self.cap)

    def margin(self, replica: int) -> int:
        """m_g at h = 0."""
        return self.envelope[0] - self.rows[replica][0]

    def margins(self, replica: int) -> list[int]:
        """m_{g,h} = M_h - Lhat_g(h) for h = 0 .. H."""
        return [top - load for top, load in zip(self.envelope, self.rows[replica], strict=True)]

    def per_token(self, replica: int) -> int:
        """A_g: what one prompt token adds to the replica's row, 1 where replicas do not differ."""
        return 1 if self._paces is None else self._paces.per_token[replica]

    def fits(self, requests: Sequence[Request], replica: int) -> bool:
        """Whether the replica has KV room for the whole set (slots are not looked at)."""
        if self._free_tokens is None:
            return True
        return sum(r.reserved_tokens for r in requests) <= self._free_tokens[replica]

    def admit(self, requests: Sequence[Request], replica: int) -> None:
        """Add the set to the replica and refresh slots, projected row and envelope."""
        delta = self.per_token(replica) * sum(request.prompt_tokens for request in requests)
        self.cap[replica] -= len(requests)
        if self._free_tokens is not None:
            self._free_tokens[replica] -= sum(r.reserved_tokens for r in requests)
        self.rows[replica] = [load + delta for load in self.rows[replica]]
        self.envelope = [
            max(top, load) for top, load in zip(self.envelope, self.rows[replica], strict=True)
        ]

    def close(self, replica: int) -> None:
        """Take a replica out of this tick: nothing it could be offered has KV room there."""
        self.cap[replica] = 0


def check_state(state: TickState, *, horizon: int) -> None:
    """Refuse a state whose parts do not fit together.

    Raises
    ------
    InputError
        If there is no replica, a row has not H + 1 entries, a count is negative, a prompt is
        empty, the list lengths differ, or an id appears twice.
    """
    replicas = len(state.loads)
    if replicas < 1:
        raise InputError("replicas", "at least one replica", 0)
    if len(state.free_slots) != replicas:
        raise InputError("free_slots", f"{replicas} entries", len(state.free_slots))
    if state.free_tokens is not None and len(state.free_tokens) != replicas:
        raise InputError("free_tokens", f"{replicas} entries", len(state.free_tokens))
    if state.paces is not None and len(state.paces.per_step) != replicas:
        raise InputError("paces", f"{replicas} entries", len(state.paces.per_step))
    for replica, row in enumerate(state.loads):
        where = f"replicas[{replica}]"
        if len(row) != horizon + 1:
            raise InputError(f"{where}.loads", f"horizon + 1 = {horizon + 1} entries", len(row))
        if min(row) < 0:
            raise InputError(f"{where}.loads", "loads >= 0", min(row))
        if state.free_slots[replica] < 0:
            raise InputError(f"{where}.free_slots", "an integer >= 0", state.free_slots[replica])
    seen: set[int] = set()
    for position, request in enumerate(state.pool):
        if request.prompt_tokens < 1:
            raise InputError(f"pool[{position}]", "prompt_tokens >= 1", request.prompt_tokens)
        if request.id in seen:
            raise InputError(f"pool[{position}]", "ids used once", f"id {request.id} twice")
        seen.add(request.id)


def _rows(state: TickState) -> list[list[int]]:
    if state.paces is None:
        return [list(row) for row in state.loads]
    steps, tokens = state.paces.per_step, state.paces.per_token
    columns = zip(*state.loads, strict=True)
    timed = [time_loads(column, per_step=steps, per_token=tokens) for column in columns]
    return [list(row) for row in zip(*timed, strict=True)]
