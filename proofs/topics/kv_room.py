"""N14, R20: what a tick does with KV room: it is never exceeded, and it can be left unused."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState
from brtheory.routers.backend import compiled_available
from brtheory.routers.fast import FastBalanceRoute, FastEngine
from brtheory.routers.reference import BalanceRoute
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import Real, iff, named
from proofs.layers.search import drawn, exhaustive, replayed, smallest_counterexample
from proofs.product import as_decisions, product_tick, router, tick_state
from proofs.specification import Room, Rule, specified_tick
from proofs.statement import Statement, Verdict

OWN = "this project; T27 and T28 where KV capacity binds"
MOST = 4
"""Requests of a set: R_max."""
RULES = (
    Rule(greedy=0),
    Rule(greedy=2),
    Rule(greedy=9),
    Rule(greedy=9, window=2),
    Rule(greedy=2, margin_first=True),
    Rule(greedy=0, longest=True),
)
RANDOM_TICKS = 3_000


def _ledger_programs() -> Iterator[Program]:
    """A set admitted to one of two replicas: what may follow on either."""
    for members in range(1, MOST + 1):
        reserved, free, following = named("r", members), named("K", 2), Real("t")

        def run(reserved: Any = reserved, free: Any = free, following: Any = following) -> Any:
            pool = [Request(i, 1, reserved_tokens=tokens) for i, tokens in enumerate(reserved)]
            ledger = TickLedger(TickState([[0], [0]], [9, 9], pool, free_tokens=list(free)))
            yield "fits", iff(ledger.fits(pool, 0), sum(reserved) <= free[0])
            ledger.admit(pool, 0)
            probe = [Request(MOST, 1, reserved_tokens=following)]
            left = free[0] - sum(reserved)
            yield "what is left of its room", iff(ledger.fits(probe, 0), following <= left)
            yield "another's room", iff(ledger.fits(probe, 1), following <= free[1])

        limits = [value >= 0 for value in (*reserved, *free)]
        yield Program(run, limits, f"{members} requests")


def _tick_programs(requests: int) -> Iterator[Program]:
    """Every set is within the margin, so that KV room alone decides what is admitted."""
    sizes = tuple(2**i for i in range(requests))
    for slots, rule in product(((requests, 0), (2, 2)), RULES):
        loads, room = (0, 2 * sum(sizes)), Room(named("r", requests), named("K", 2))

        def run(
            loads: Any = loads, slots: Any = slots, room: Room = room, rule: Rule = rule
        ) -> Obligations:
            got = as_decisions(product_tick(loads, slots, sizes, rule=rule, room=room))
            want = specified_tick(loads, slots, sizes, rule=rule, room=room)
            yield "as specified", got == want
            for g, tokens in enumerate(room.free):
                own = [room.reserved[d[0]] for d in got if d[1] == g]
                yield "KV room is kept", sum(own, Real({})) <= tokens

        limits = [value >= 0 for value in (*room.reserved, *room.free)]
        yield Program(run, limits, f"slots {slots}, {rule}")


def _kept(found: Sequence[Any], room: Room) -> bool:
    """Whether no replica was given more than it had free."""
    given = [0] * len(room.free)
    for a in found:
        given[a.replica] += room.reserved[a.id]
    return all(tokens <= free for tokens, free in zip(given, room.free, strict=True))


def _small_cases() -> Iterator[tuple[Any, ...]]:
    for loads, slots in product(((0, 0), (0, 9), (4, 1)), ((1, 2), (3, 0), (3, 3))):
        for sizes in ((1, 2, 3), (3, 1, 1)):
            for reserved in product((1, 2, 4), repeat=3):
                for free in ((4, 4), (3, 0)):
                    for rule in RULES:
                        yield loads, slots, sizes, Room(reserved, free), rule


def _small_holds(
    loads: Sequence[int], slots: Sequence[int], sizes: Sequence[int], room: Room, rule: Rule
) -> bool:
    found = product_tick(loads, slots, sizes, rule=rule, room=room)
    want = specified_tick(loads, slots, sizes, rule=rule, room=room)
    return as_decisions(found) == want and _kept(found, room)


def _random_case(rng: np.random.Generator) -> tuple[Any, ...]:
    replicas, requests = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    largest = int(rng.choice([3, 50, 2**20]))
    sizes = rng.integers(1, largest + 1, size=requests).tolist()
    reserved = [size + int(rng.integers(largest + 1)) for size in sizes]
    free = rng.integers(0, 4 * largest, size=replicas).tolist()
    loads = rng.integers(0, 3 * largest, size=replicas).tolist()
    slots = rng.integers(0, 5, size=replicas).tolist()
    rule = RULES[rng.integers(len(RULES))]
    return loads, slots, sizes, Room(reserved, free), rule


def _random_holds(engine: FastEngine) -> Callable[..., bool]:
    """A fast tick keeps the room, and decides as specified."""

    def holds(loads: Any, slots: Any, sizes: Any, room: Room, rule: Rule) -> bool:
        state = tick_state(loads, slots, sizes, room=room)
        found = FastBalanceRoute(router(rule), engine).tick(state)
        want = specified_tick(loads, slots, sizes, rule=rule, room=room)
        return as_decisions(found) == want and _kept(found, room)

    return holds


N14 = Statement(
    id="N14",
    title="No tick of BR-0 exceeds KV room",
    claim="What the requests admitted to a replica in one tick reserve, in a set or one set after "
    "another, sums up to at most the KV tokens it had free; and the tick is the specified one: the "
    "best option among those with room, a replica without any closed.",
    latex=r"\sum_{i \text{ admitted to } g} \mathrm{reserved}_i \le \mathrm{free}_g",
    hypotheses=("what a request holds never exceeds what it reserves",),
    source=OWN,
    about=(BalanceRoute, TickLedger, FastBalanceRoute),
    expected=Verdict.CHECKED,
    layers=(
        execution("a set of up to 4 requests, all real reservations and room", _ledger_programs),
        execution(
            "the product's tick, G = 2, 3 requests, all real reservations and room",
            lambda: _tick_programs(3),
        ),
        execution(
            "the product's tick, G = 2, 4 requests, all real reservations and room",
            lambda: _tick_programs(4),
            quick=False,
        ),
        exhaustive("the product's tick, G = 2, 3 requests", _small_cases, _small_holds),
        drawn(
            f"numpy, {RANDOM_TICKS} random ticks, G = 1..4, up to 8 requests",
            _random_case,
            _random_holds("numpy"),
            cases=RANDOM_TICKS,
            seed=14,
        ),
        drawn(
            f"compiled, {3 * RANDOM_TICKS} random ticks, G = 1..4, up to 8 requests",
            _random_case,
            _random_holds("compiled"),
            cases=3 * RANDOM_TICKS,
            seed=14,
            quick=False,
            available=compiled_available,
        ),
    ),
)


def _nothing_left(
    slots: Sequence[int], reserved: Sequence[Any], free: Sequence[Any], rule: Rule
) -> bool:
    """Whether none of the first R_max requests left has a slot and room somewhere."""
    loads, sizes = [0] * len(slots), [1] * len(reserved)
    found = product_tick(loads, slots, sizes, rule=rule, room=Room(reserved, free))
    slot, room = list(slots), list(free)
    for a in found:
        slot[a.replica] -= 1
        room[a.replica] -= reserved[a.id]
    waiting = [i for i in range(len(reserved)) if i not in {a.id for a in found}]
    return not any(
        slot[g] > 0 and reserved[i] <= room[g]
        for i in waiting[: rule.window]
        for g in range(len(slots))
    )


def _left_programs() -> Iterator[Program]:
    reserved, free = named("r", 2), named("K", 2)

    def run() -> Obligations:
        yield "nothing left", _nothing_left((1, 1), reserved, free, Rule(greedy=9, window=1))

    yield Program(run, [value >= 0 for value in (*reserved, *free)], "R_max = 1")


def _left_cases() -> Iterator[tuple[Any, ...]]:
    for requests in (1, 2):
        for reserved in product((1, 2), repeat=requests):
            for free in product((0, 1, 2), repeat=2):
                yield (1, 1), reserved, free, Rule(greedy=9, window=1)


R20 = Statement(
    id="R20",
    title="A tick leaves no request that has a slot and room",
    claim="False: where KV capacity binds, each of the oldest R_max requests that a tick leaves "
    "waiting has no slot or no room on any replica. (A replica closed for want of room is not "
    "asked again when others move up; the next tick does.)",
    latex=r"\text{left} \Rightarrow \forall g: \mathrm{cap}_g = 0 \lor "
    r"\mathrm{reserved}_i > \mathrm{free}_g",
    source="this project; T27's min(pool, slots) where KV capacity binds",
    about=(BalanceRoute,),
    expected=Verdict.REFUTED,
    layers=(
        # Replica 0 has room for 1 and is closed when it is asked for the 2, which replica 1 then
        # takes; the 1 that moves up is not offered to replica 0 before the next tick.
        smallest_counterexample(
            "G = 2, R_max = 1: up to two requests of 1 or 2 tokens",
            _left_cases,
            _nothing_left,
            expected=((1, 1), (2, 1), (1, 2), Rule(greedy=9, window=1)),
        ),
        replayed(
            "R_max = 4, as shipped: four of 2 tokens before one of 1",
            _nothing_left,
            case=((4, 4), (2, 2, 2, 2, 1), (1, 8), Rule(greedy=9)),
        ),
        execution("G = 2, R_max = 1, two requests of any size, any room", _left_programs),
    ),
)

STATEMENTS = (N14, R20)
