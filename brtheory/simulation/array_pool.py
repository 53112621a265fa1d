"""The prompt pool as arrays, oldest first: what routers that decide on arrays are given.

Requests leave near the front, so the few before them are moved up; nothing is copied per tick,
however many are waiting.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.requests import Request

FIRST_CAPACITY = 64


class ArrayPool:
    """Waiting requests in FIFO order: by ready time, then id."""

    def __init__(self) -> None:
        self.total_tokens = 0
        self._waiting: dict[int, Request] = {}
        self._columns = np.empty((3, FIRST_CAPACITY), dtype=np.int64)
        self._ready_s = np.empty(FIRST_CAPACITY)
        self._head = 0
        self._tail = 0

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def prompt_tokens(self) -> IntArray:
        """Shape (P,): a view, valid until the next change."""
        return self._columns[0, self._head : self._tail]

    @property
    def reserved_tokens(self) -> IntArray:
        """Shape (P,): a view, valid until the next change."""
        return self._columns[1, self._head : self._tail]

    @property
    def ready_s(self) -> NDArray[np.float64]:
        """Shape (P,): a view, valid until the next change."""
        return self._ready_s[self._head : self._tail]

    def add(self, request: Request) -> None:
        """Insert a request at its place, nearly always the end."""
        if self._tail == self._columns.shape[1]:
            self._make_room()
        place = self._tail
        while place > self._head and self._younger(place - 1, request):
            self._move(place - 1, place)
            place -= 1
        self._columns[:, place] = request.prompt_tokens, request.reserved_tokens, request.id
        self._ready_s[place] = request.ready_s
        self._tail += 1
        self._waiting[request.id] = request
        self.total_tokens += request.prompt_tokens

    def take(self, positions: Sequence[int] | IntArray) -> list[Request]:
        """Take requests out by position, and return them in the order of ``positions``."""
        if isinstance(positions, np.ndarray):
            positions = positions.tolist()
        ids = self._columns[2, self._head : self._tail]
        requests = [self._waiting.pop(int(ids[position])) for position in positions]
        self.total_tokens -= sum(request.prompt_tokens for request in requests)
        self._close_gaps(sorted(positions))
        return requests

    def _close_gaps(self, gaps: Sequence[int]) -> None:
        """Move what lies before each gap up, from the last gap to the front."""
        for passed, gap in enumerate(reversed(gaps)):
            last = self._head + gap
            first = self._head + (gaps[-passed - 2] + 1 if passed + 1 < len(gaps) else 0)
            shift = passed + 1
            if last > first:
                moved = slice(first + shift, last + shift)
                self._columns[:, moved] = self._columns[:, first:last].copy()
                self._ready_s[moved] = self._ready_s[first:last].copy()
        self._head += len(gaps)

    def _younger(self, place: int, request: Request) -> bool:
        key = (float(self._ready_s[place]), int(self._columns[2, place]))
        return key > (request.ready_s, request.id)

    def _move(self, source: int, target: int) -> None:
        self._columns[:, target] = self._columns[:, source]
        self._ready_s[target] = self._ready_s[source]

    def _make_room(self) -> None:
        """Back to the front of arrays with room for as many again."""
        waiting = slice(self._head, self._tail)
        capacity = max(FIRST_CAPACITY, 2 * len(self))
        columns, ready_s = np.empty((3, capacity), dtype=np.int64), np.empty(capacity)
        columns[:, : len(self)] = self._columns[:, waiting]
        ready_s[: len(self)] = self._ready_s[waiting]
        self._columns, self._ready_s = columns, ready_s
        self._head, self._tail = 0, waiting.stop - waiting.start
