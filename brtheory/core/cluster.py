"""The replicas' state: a read-only view for routers and one mutable owner.

Model (per replica g): L_g KV tokens, n_g active requests, each weighing its prompt plus its age;
one decode step adds n_g to L_g. Requests placed at arrival wait in the replica's own FIFO.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brtheory.core.requests import Request
from brtheory.core.unequal import Paces
from brtheory.errors import InputError

IntArray = NDArray[np.int64]


class ClusterView(Protocol):
    """What a router may read; every array has one entry per replica, shape (G,), int64."""

    @property
    def loads(self) -> IntArray:
        """L_g: KV tokens of the active requests."""

    @property
    def active(self) -> IntArray:
        """n_g: requests decoding."""

    @property
    def queued(self) -> IntArray:
        """Requests in the replica's own FIFO (immediate routers only)."""

    @property
    def queued_tokens(self) -> IntArray:
        """Prompt tokens in the replica's own FIFO."""

    @property
    def paces(self) -> Paces | None:
        """Units of time a step and a token take where replicas differ in speed, else None."""


class Cluster:
    """The one mutable owner of G replicas.

    Parameters
    ----------
    replicas
        G >= 1.
    slots
        Requests a replica can decode at once, >= 1; one number for all, or one each.
    kv_capacity
        KV tokens a replica can reserve, None for unlimited.
    paces
        Where replicas differ in speed; for routers to read.

    Raises
    ------
    InputError
        If a size is below 1.
    """

    def __init__(
        self,
        *,
        replicas: int,
        slots: int | Sequence[int],
        kv_capacity: int | None = None,
        paces: Paces | None = None,
    ) -> None:
        own = (slots,) * replicas if isinstance(slots, int) else tuple(slots)
        least = min(own, default=0)
        for name, value in (("replicas", replicas), ("slots", least), ("kv_capacity", kv_capacity)):
            if value is not None and value < 1:
                raise InputError(name, "an integer >= 1", value)
        if len(own) != replicas:
            raise InputError("slots", f"{replicas} entries", len(own))
        self.replicas = replicas
        self.slots = max(own)
        self.kv_capacity = kv_capacity
        self.paces = paces
        self._limits: IntArray = np.array(own, dtype=np.int64)
        self._own_slots = own
        self.loads: IntArray = np.zeros(replicas, dtype=np.int64)
        self.active: IntArray = np.zeros(replicas, dtype=np.int64)
        self.held: IntArray = np.zeros(replicas, dtype=np.int64)
        self._holding = 0
        self.reserved: IntArray = np.zeros(replicas, dtype=np.int64)
        self.queued: IntArray = np.zeros(replicas, dtype=np.int64)
        self.queued_tokens: IntArray = np.zeros(replicas, dtype=np.int64)
        self._queues: tuple[deque[Request], ...] = tuple(deque() for _ in range(replicas))

    @property
    def free_slots(self) -> IntArray:
        """Places left on each replica, shape (G,)."""
        free = self._limits - self.active
        return free - self.held if self._holding else free

    @property
    def free_tokens(self) -> IntArray | None:
        """KV tokens not yet reserved on each replica, None where capacity is unlimited."""
        return None if self.kv_capacity is None else self.kv_capacity - self.reserved

    def fits(self, request: Request, replica: int) -> bool:
        """Whether a slot and, where limited, enough KV capacity is free for the request."""
        held = self.held[replica] if self._holding else 0
        if self.active[replica] + held >= self._own_slots[replica]:
            return False
        if self.kv_capacity is None:
            return True
        return bool(self.reserved[replica] + request.reserved_tokens <= self.kv_capacity)

    def admit(self, request: Request, replica: int) -> None:
        """Bind a request to a replica for life.

        Raises
        ------
        InputError
            If the replica has no slot or not enough KV capacity left.
        """
        self._check_fits(request, replica)
        self.loads[replica] += request.prompt_tokens
        self.active[replica] += 1
        self.reserved[replica] += request.reserved_tokens

    def hold(self, request: Request, replica: int) -> None:
        """Bind a request whose KV cache has still to come: it takes its place, and loads nothing.

        Raises
        ------
        InputError
            As ``admit``.
        """
        self._check_fits(request, replica)
        self._holding += 1
        self.held[replica] += 1
        self.reserved[replica] += request.reserved_tokens

    def begin(self, request: Request, replica: int) -> None:
        """Let a held request decode: from now on it weighs its prompt and grows."""
        self._holding -= 1
        self.held[replica] -= 1
        self.active[replica] += 1
        self.loads[replica] += request.prompt_tokens

    def retire(self, request: Request, replica: int, *, tokens: int) -> None:
        """Release a request that weighs ``tokens`` now (its prompt plus its age)."""
        self.loads[replica] -= tokens
        self.active[replica] -= 1
        self.reserved[replica] -= request.reserved_tokens

    def advance(self, steps: int) -> None:
        """Let every active request grow by one token a step."""
        self.loads += steps * self.active

    def enqueue(self, request: Request, replica: int) -> None:
        """Put a request at the end of the replica's own FIFO."""
        self._queues[replica].append(request)
        self.queued[replica] += 1
        self.queued_tokens[replica] += request.prompt_tokens

    def head(self, replica: int) -> Request | None:
        """The oldest request of the replica's own FIFO, None if it is empty."""
        queue = self._queues[replica]
        return queue[0] if queue else None

    def dequeue(self, replica: int) -> Request:
        """Take the oldest request out of the replica's own FIFO."""
        request = self._queues[replica].popleft()
        self.queued[replica] -= 1
        self.queued_tokens[replica] -= request.prompt_tokens
        return request

    def _check_fits(self, request: Request, replica: int) -> None:
        if not self.fits(request, replica):
            raise InputError(
                f"replica {replica}", "a free slot and KV capacity", f"request {request.id}"
            )


def as_int_array(values: Sequence[int]) -> IntArray:
    """Copy integers into an int64 array, shape (len(values),)."""
    return np.array(values, dtype=np.int64)
