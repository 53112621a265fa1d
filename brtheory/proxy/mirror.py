"""The load mirror: what each decode replica holds, kept up from the streams the proxy forwards.

A bound request weighs its prompt tokens plus the tokens its stream has shown. It is counted from
the moment it is bound until its stream has ended, by a ``Hold`` that is released exactly once.
Requests bound beyond a replica's slots wait in the engine's own queue and are shown as queued.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.core.cluster import IntArray, as_int_array
from brtheory.core.requests import Request
from brtheory.core.unequal import Paces
from brtheory.errors import BrtheoryError, InputError


@dataclass(slots=True)
class ReplicaLoad:
    """Books of one replica.

    Parameters
    ----------
    slots
        Requests it decodes at once.
    kv_tokens
        KV tokens it can reserve, None where that is not limited or not known.
    bound
        Requests bound to it now.
    tokens
        What they weigh.
    reserved
        KV tokens reserved by them.
    decoded
        Tokens decoded since it was added.
    """

    slots: int
    kv_tokens: int | None = None
    bound: int = 0
    tokens: int = 0
    reserved: int = 0
    decoded: int = 0

    @property
    def free_slots(self) -> int:
        """Places left."""
        return max(0, self.slots - self.bound)


class Hold:
    """A load entry: one bound request on one replica.

    Attributes
    ----------
    request
        As it was bound.
    replica
        Name of the replica.
    age
        Output tokens seen.
    tokens
        What it weighs: prompt plus age.
    released
        Whether it has been given back.
    """

    __slots__ = ("_books", "age", "released", "replica", "request", "tokens")

    def __init__(self, request: Request, replica: str, books: ReplicaLoad) -> None:
        self.request = request
        self.replica = replica
        self.age = 0
        self.tokens = request.prompt_tokens
        self.released = False
        self._books = books
        books.bound += 1
        books.tokens += self.tokens
        books.reserved += request.reserved_tokens

    def grow(self, tokens: int) -> None:
        """Count output tokens; an estimate put right may be negative."""
        self.age += tokens
        self.tokens += tokens
        self._books.tokens += tokens
        self._books.decoded += tokens

    def correct_prompt(self, prompt_tokens: int) -> None:
        """Replace an estimated prompt size by the one the engine reports."""
        change = prompt_tokens + self.age - self.tokens
        self.tokens += change
        self._books.tokens += change

    def release(self) -> None:
        """Give the entry back.

        Raises
        ------
        BrtheoryError
            If that has been done before: it must happen exactly once.
        """
        if self.released:
            raise BrtheoryError(f"load entry of request {self.request.id} released twice")
        self.released = True
        self._books.bound -= 1
        self._books.tokens -= self.tokens
        self._books.reserved -= self.request.reserved_tokens


@dataclass(frozen=True)
class MirrorView:
    """What an immediate router reads: one entry per live replica, shape (G,), int64."""

    loads: IntArray
    active: IntArray
    queued: IntArray
    queued_tokens: IntArray
    paces: Paces | None = None


class LoadMirror:
    """Books of all replicas. One process, one writer."""

    def __init__(self) -> None:
        self.replicas: dict[str, ReplicaLoad] = {}
        self._holds: dict[int, Hold] = {}

    def add_replica(self, name: str, *, slots: int, kv_tokens: int | None = None) -> None:
        """Start books for a replica.

        Raises
        ------
        InputError
            If the name is in use or a size is below 1.
        """
        if name in self.replicas:
            raise InputError("replica", "names used once", repr(name))
        for field, value in (("slots", slots), ("kv_tokens", kv_tokens)):
            if value is not None and value < 1:
                raise InputError(f"{name}.{field}", "an integer >= 1", value)
        self.replicas[name] = ReplicaLoad(slots, kv_tokens)

    def remove_replica(self, name: str) -> None:
        """Close the books of a replica.

        Raises
        ------
        InputError
            If requests are still bound to it.
        """
        if self.replicas[name].bound:
            raise InputError(name, "no bound request", self.replicas[name].bound)
        del self.replicas[name]

    def bind(self, request: Request, replica: str) -> Hold:
        """Count a request on a replica from now on.

        Raises
        ------
        InputError
            If a request with this id is held already.
        """
        if request.id in self._holds:
            raise InputError("load mirror", "ids used once", f"id {request.id} twice")
        hold = Hold(request, replica, self.replicas[replica])
        self._holds[request.id] = hold
        return hold

    def release(self, hold: Hold) -> None:
        """Give a load entry back, exactly once."""
        hold.release()
        del self._holds[hold.request.id]

    def holds(self) -> Sequence[Hold]:
        """All load entries, in the order of binding."""
        return tuple(self._holds.values())

    def loads(self, names: Sequence[str]) -> list[int]:
        """KV tokens on each of the named replicas."""
        return [self.replicas[name].tokens for name in names]

    def free_slots(self, names: Sequence[str]) -> list[int]:
        """Places left on each of the named replicas."""
        return [self.replicas[name].free_slots for name in names]

    def emptiest(self, names: Sequence[str]) -> str:
        """The named replica of least load, one with a free slot where there is one."""
        books = self.replicas
        return min(names, key=lambda name: (books[name].free_slots == 0, books[name].tokens))

    def spare(self, replica: str, names: Sequence[str], *, avoid: Collection[str]) -> str:
        """The replica, or the emptiest other one of ``names`` where it is to be avoided."""
        if replica not in avoid:
            return replica
        others = [name for name in names if name not in avoid]
        return self.emptiest(others) if others else replica

    def free_tokens(self, names: Sequence[str]) -> list[int] | None:
        """KV tokens not reserved, None unless every named replica's capacity is known."""
        room = []
        for name in names:
            books = self.replicas[name]
            if books.kv_tokens is None:
                return None
            room.append(max(0, books.kv_tokens - books.reserved))
        return room

    def largest_capacity(self) -> int | None:
        """KV tokens of the largest replica, None unless every replica's capacity is known."""
        known = [b.kv_tokens for b in self.replicas.values() if b.kv_tokens is not None]
        return max(known) if known and len(known) == len(self.replicas) else None

    def view(self, names: Sequence[str]) -> MirrorView:
        """What an immediate router sees of the named replicas."""
        books = [self.replicas[name] for name in names]
        queued = [max(0, b.bound - b.slots) for b in books]
        waiting = self._waiting_tokens(names, queued) if any(queued) else [0] * len(books)
        return MirrorView(
            loads=as_int_array([b.tokens - w for b, w in zip(books, waiting, strict=True)]),
            active=as_int_array([min(b.bound, b.slots) for b in books]),
            queued=as_int_array(queued),
            queued_tokens=as_int_array(waiting),
        )

    def _waiting_tokens(self, names: Sequence[str], queued: Sequence[int]) -> list[int]:
        """Tokens of the youngest ``queued`` entries of each replica that have shown no token."""
        left, tokens = dict(zip(names, queued, strict=True)), dict.fromkeys(names, 0)
        for hold in reversed(self._holds.values()):
            if hold.age == 0 and left.get(hold.replica, 0) > 0:
                left[hold.replica] -= 1
                tokens[hold.replica] += hold.tokens
        return [tokens[name] for name in names]


def barrier_idle(loads: Sequence[int]) -> float | None:
    """Share of the group's step that waits at the barrier, I / (G*M); None where nothing runs."""
    top = max(loads, default=0)
    if top <= 0:
        return None
    return float(1 - np.sum(loads) / (len(loads) * top))
