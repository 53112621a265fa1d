"""The prompt pool: prefilled requests waiting to be bound, oldest first."""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from brtheory.core.requests import Request
from brtheory.errors import InputError


def _age_key(request: Request) -> tuple[float, int]:
    return (request.ready_s, request.id)


class PromptPool(Sequence[Request]):
    """Requests in FIFO order: by ready time, then id.

    Invariants: no id twice; iteration order is the order of candidates in a tick.
    """

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        self._requests: list[Request] = []
        self._ids: set[int] = set()
        for request in requests:
            self.add(request)

    def add(self, request: Request) -> None:
        """Insert a request at its place.

        Raises
        ------
        InputError
            If a request with this id is already in the pool.
        """
        if request.id in self._ids:
            raise InputError("pool", "ids used once", f"id {request.id} twice")
        self._ids.add(request.id)
        insort(self._requests, request, key=_age_key)

    def remove(self, ids: Iterable[int]) -> None:
        """Take admitted or cancelled requests out.

        Raises
        ------
        InputError
            If an id is not in the pool; the pool is then unchanged.
        """
        leaving = set(ids)
        unknown = leaving - self._ids
        if unknown:
            raise InputError("pool", "ids of pooled requests", sorted(unknown))
        self._ids -= leaving
        self._requests = [request for request in self._requests if request.id not in leaving]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> list[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | list[Request]:
        return self._requests[index]
