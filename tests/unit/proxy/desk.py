"""A desk of books with a clock that tests move by hand."""

import json
from collections.abc import Callable
from typing import Any

from brtheory.proxy.connectors import make_connector
from brtheory.proxy.desk import Desk
from brtheory.proxy.fleet import Fleet, Worker, decode_replicas
from brtheory.proxy.gate import Gate
from brtheory.proxy.mirror import LoadMirror
from brtheory.proxy.openai import ClientRequest, Endpoint, read_request
from brtheory.proxy.passage import Passage
from brtheory.proxy.pool import PoolLimits, Room, WaitingPool
from brtheory.proxy.prefill import PrefillNodes
from brtheory.proxy.ticker import RouterChoice, Ticker


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds


def client_request(prompt: str = "x" * 40, **fields: Any) -> ClientRequest:
    """A completion request; four bytes of body are about one token."""
    return read_request(json.dumps({"prompt": prompt, **fields}).encode(), Endpoint.COMPLETIONS)


def make_desk(
    *,
    replicas: int = 2,
    slots: int = 2,
    prefills: int = 2,
    prefill_kv: int | None = None,
    decode_kv: int | None = None,
    connector: str = "nixl",
    limits: PoolLimits | None = None,
    longest: int = 1000,
    choice: RouterChoice | None = None,
) -> tuple[Desk, Clock]:
    """A desk of so many workers, all up."""
    clock, fleet, mirror, books = Clock(), Fleet(), LoadMirror(), PrefillNodes()
    for number in range(prefills):
        fleet.add(Worker(f"p{number}", "prefill", f"http://p{number}"))
        books.add(f"p{number}", kv_tokens=prefill_kv)
    ranks = range(replicas)
    for worker in decode_replicas("d", "http://d", ranks=list(ranks), slots=slots):
        fleet.add(worker)
        mirror.add_replica(worker.name, slots=slots, kv_tokens=decode_kv)
    pool = WaitingPool()
    ticker = Ticker(mirror, pool, choice=choice or RouterChoice(), clock=clock)
    desk = Desk(
        fleet=fleet,
        connector=make_connector(connector),
        gate=Gate(longest=longest),
        room=Room(limits or PoolLimits()),
        prefills=books,
        pool=pool,
        mirror=mirror,
        ticker=ticker,
        clock=clock,
    )
    return desk, clock


def enter(desk: Desk, wake: Callable[[], None] = lambda: None, **fields: Any) -> Passage:
    """A request that stands in line, or is through at once."""
    passage = Passage(desk, client_request(**fields), wake=wake)
    passage.queue()
    return passage


def books_are_empty(desk: Desk) -> bool:
    """Whether nothing is held anywhere (stranded KV ends by itself)."""
    return (
        (len(desk.gate), len(desk.pool), len(desk.waiting), desk.pool.tokens) == (0, 0, 0, 0)
        and (desk.room.requests, desk.room.tokens, desk.room.body_bytes) == (0, 0, 0)
        and not desk.mirror.holds()
        and not desk.ticker.prefixes
        and all((b.bound, b.tokens, b.reserved) == (0, 0, 0) for b in desk.mirror.replicas.values())
        and all((b.computing, b.legs, b.pinned) == (0, 0, 0) for b in desk.prefills.nodes.values())
    )
