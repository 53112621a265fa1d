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

    def take(self, ids: Iterable[int]) -> list[Request]:
        """Take admitted or cancelled requests out, and return them in the order of ``ids``.

        Raises
        ------
        InputError
            If an id is not in the pool or given twice; the pool is then unchanged.
        """
        wanted = list(ids)
        among = set(wanted)
        leaving = {request.id: request for request in self._requests if request.id in among}
        if len(leaving) < len(wanted):
            raise InputError("pool", "ids of pooled requests, each once", wanted)
        self._ids -= leaving.keys()
        self._requests = [request for request in self._requests if request.id not in leaving]
        return [leaving[request_id] for request_id in wanted]

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
