"""The workers: prefill nodes and decode replicas, which of them are live, added and drained.

A decode replica is a rank of a node: its own address, or a shared one plus the data-parallel rank
sent in a header, as its node counts. A draining worker keeps its streams and gets no new request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from brtheory.errors import InputError
from brtheory.proxy.health import HealthRecord

Role = Literal["prefill", "decode"]


@dataclass
class Worker:
    """One prefill node or decode replica.

    Parameters
    ----------
    name
        Unique in the fleet.
    role
        What it does.
    url
        Base address, without a trailing slash.
    rank
        Global data-parallel rank, None where the address is the rank's own.
    first_rank
        The rank its node calls 0.
    slots
        Requests a decode replica decodes at once; None for prefill nodes.
    kv_tokens
        KV capacity, None where it is not known.
    bootstrap_url
        Bootstrap server of a prefill node (Mooncake).
    engines
        Engine ids by rank, as the bootstrap server told.
    suspect
        Whether a connection to it was lost, and no probe has found it well since.
    checked
        Whether what must be known of it is known (that it owns its rank, its engine ids); until
        then it gets no request.
    """

    name: str
    role: Role
    url: str
    rank: int | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    bootstrap_url: str | None = None
    health: HealthRecord = field(default_factory=HealthRecord)
    draining: bool = False
    engines: dict[int, str] = field(default_factory=dict)
    turns: int = 0
    checked: bool = True
    first_rank: int = 0
    suspect: bool = False

    @property
    def header_rank(self) -> int | None:
        """The rank as its node counts: what the header says."""
        return None if self.rank is None else self.rank - self.first_rank

    @property
    def live(self) -> bool:
        """Whether it gets new requests."""
        return self.health.up and self.checked and not self.draining and not self.suspect

    def next_engine(self) -> tuple[int, str] | None:
        """The next (rank, engine id) in turn, None where none is known."""
        if not self.engines:
            return None
        ranks = sorted(self.engines)
        rank = ranks[self.turns % len(ranks)]
        self.turns += 1
        return rank, self.engines[rank]


class Fleet:
    """All workers, in the order they were added."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}

    def add(self, worker: Worker) -> None:
        """Take a worker in.

        Raises
        ------
        InputError
            If the name is in use, or the replica's address and rank are.
        """
        if worker.name in self.workers:
            raise InputError("worker", "names used once", repr(worker.name))
        for other in self.workers.values():
            if (other.role, other.url, other.rank) == (worker.role, worker.url, worker.rank):
                raise InputError(worker.name, "an address and rank of its own", other.name)
        self.workers[worker.name] = worker

    def find(self, name: str) -> Worker:
        """The worker of a name.

        Raises
        ------
        InputError
            If there is none.
        """
        if name not in self.workers:
            raise InputError("worker", "one of " + ", ".join(self.workers), repr(name))
        return self.workers[name]

    def behind_address_of(self, name: str) -> frozenset[str]:
        """Names of the workers that share a worker's address, its own among them."""
        url = self.workers[name].url if name in self.workers else None
        return frozenset({name, *(w.name for w in self.workers.values() if w.url == url)})

    def suspect(self, worker: Worker) -> None:
        """Give the workers of an address no request until a probe has found them well."""
        for name in self.behind_address_of(worker.name) & self.workers.keys():
            self.workers[name].suspect = True

    def remove(self, name: str) -> Worker:
        """Forget a worker."""
        worker = self.find(name)
        del self.workers[name]
        return worker

    def of(self, role: Role) -> list[Worker]:
        """All workers of a role."""
        return [worker for worker in self.workers.values() if worker.role == role]

    def live(self, role: Role) -> list[str]:
        """Names of the workers of a role that get new requests."""
        return [w.name for w in self.workers.values() if w.role == role and w.live]


def decode_replicas(
    name: str,
    url: str,
    *,
    ranks: Sequence[int] | None,
    slots: int,
    kv_tokens: int | None = None,
    first_rank: int = 0,
) -> list[Worker]:
    """Replicas of a decode node: one for each global rank it owns, or one for its address.

    Raises
    ------
    InputError
        If a rank is below ``first_rank`` or given twice, or only ``first_rank`` is given.
    """
    if not ranks and first_rank:
        raise InputError(f"{name}.first_rank", "0 where no ranks are given", first_rank)
    if not ranks:
        return [Worker(name, "decode", url, slots=slots, kv_tokens=kv_tokens)]
    if min(ranks) < first_rank or len(set(ranks)) < len(ranks):
        expected = f"distinct global ranks >= {first_rank}"
        raise InputError(f"{name}.ranks", expected, list(ranks))
    return [
        Worker(
            f"{name}/{rank}",
            "decode",
            url,
            rank=rank,
            first_rank=first_rank,
            slots=slots,
            kv_tokens=kv_tokens,
        )
        for rank in ranks
    ]
