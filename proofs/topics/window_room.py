"""N16, N17, R21: what the window router guarantees where KV capacity binds, and what not."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import z3

from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import WindowParams
from brtheory.routers.window import Window, least_room
from proofs.formulas import reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import either, named
from proofs.layers.search import exhaustive, replayed, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.product import tick_state
from proofs.specification import Room
from proofs.statement import Statement, Verdict

OWN = "this project; N6 where KV capacity binds"
NOW_S = 100.0
MEDIAN_S = 1.0
AGE_LIMIT = 2.0
WAITS = (5.0, 4.0, 0.0)
"""Of three requests, oldest first: two are past the limit."""
OLD_AND_YOUNG = (5.0, 0.0)
PROMPTS = (2, 4, 1)
LOADS = (0, 3)
SLOTS = ((1, 1), (2, 1), (3, 0))
RESERVED = ((5, 3, 9), (9, 5, 3), (3, 9, 5), (4, 4, 4))
SHARES = (0.0, 0.5, 1.0)


def _tick(
    slots: Sequence[int], room: Room, *, share: float = 0.0, waits: Sequence[float] = WAITS
) -> list[Admission]:
    """One tick of a router that has learned a median wait of one second and holds nobody."""
    params = WindowParams(age_limit=AGE_LIMIT, age_floor_s=0.0, hold_s=0.0, room_share=share)
    router = Window(params)
    router.statistics.add(2, MEDIAN_S)
    state = tick_state(LOADS[: len(slots)], slots, PROMPTS[: len(waits)], room=room)
    pool = [
        replace(request, ready_s=NOW_S - wait)
        for request, wait in zip(state.pool, waits, strict=True)
    ]
    return router.tick(replace(state, pool=pool, now_s=NOW_S))


def _cases() -> Iterator[tuple[Any, ...]]:
    for slots, reserved, free in product(SLOTS, RESERVED, product(range(13), repeat=2)):
        yield slots, Room(reserved, free)


def _n16_goals() -> Iterator[Goal]:
    count, total, largest, share = reals("K S r p")
    yield Goal(
        share * total <= count * largest,
        [count >= 1, largest >= 0, total <= count * largest, share >= 0, share <= 1, total >= 0],
        "what is asked for is at most the largest reservation: so much room is enough",
    )
    asked, free, reserved = reals("q f t")
    yield Goal(
        reserved <= free,
        [reserved <= asked, asked <= free],
        "who reserves no more than is asked for has room wherever a replica is served",
    )
    mean, floor = z3.Real("mu"), z3.Int("n")
    yield Goal(
        floor <= largest,
        [share * mean <= largest, floor <= share * mean, floor >= 0],
        "rounded down too",
    )


def _asked(reserved: Sequence[int], share: float) -> int:
    """The floor of the share of the mean reservation, in exact numbers."""
    return math.floor(Fraction(share) * Fraction(sum(reserved), len(reserved)))


def _n16_obligations(slots: Sequence[int], room: Room, share: float) -> Obligations:
    asked, free = _asked(room.reserved, share), list(room.free)
    admitted = _tick(slots, room, share=share)
    for a in admitted:
        yield "a replica that is served has the room asked for", free[a.replica] >= asked
        free[a.replica] = free[a.replica] - room.reserved[a.id]
        yield "KV room is kept", free[a.replica] >= 0
    if not admitted:
        for g, slot in enumerate(slots):
            yield "room for the largest is enough", slot == 0 or room.free[g] < max(room.reserved)


def _n16_programs() -> Iterator[Program]:
    for slots, reserved, share in product(SLOTS, RESERVED, SHARES):
        room = Room(reserved, named("K", 2))

        def run(slots: Any = slots, room: Room = room, share: float = share) -> Obligations:
            yield from _n16_obligations(slots, room, share)

        limits = [value >= 0 for value in room.free]
        yield Program(run, limits, f"slots {slots}, reserved {reserved}, share {share}")


def _n16_holds(slots: Sequence[int], room: Room) -> bool:
    shares_asked = all(
        least_room(room.reserved, WindowParams(room_share=share)) == _asked(room.reserved, share)
        for share in SHARES
    )
    return shares_asked and all(
        bool(held) for share in SHARES for _, held in _n16_obligations(slots, room, share)
    )


N16 = Statement(
    id="N16",
    title="What the window router's room_share guarantees",
    claim="Where KV capacity binds, a replica is served only with at least room_share of the mean "
    "reservation of the K oldest free, rounded down; so whoever of them reserves no more has room "
    "wherever one is served. And no share stalls: a tick that finds a replica with a slot and room "
    "for the largest of them admits a request, if none is held.",
    latex=r"\mathrm{free}_g \ge \lfloor \rho \bar r \rfloor,\quad "
    r"\lfloor \rho \bar r \rfloor \le \max_i r_i",
    hypotheses=("0 <= room_share <= 1", "hold_s = 0 for the last part"),
    source=OWN,
    about=(Window, least_room),
    layers=(
        smt("every real share and number of requests", _n16_goals),
        execution(
            "the product's tick, G = 2, 3 requests, three shares, all real room", _n16_programs
        ),
        exhaustive("the product's tick, G = 2, 3 requests, three shares", _cases, _n16_holds),
    ),
)


def _n17_goals() -> Iterator[Goal]:
    slots, free_slots, capacity, used, largest = reals("B n C u r")
    yield Goal(
        capacity - used >= largest,
        [
            largest >= 0,
            free_slots >= 1,
            used <= (slots - free_slots) * largest,
            capacity >= slots * largest,
        ],
        "with KV for the largest reservation in every slot a free slot has room for anyone: N6",
    )


def _n17_obligations(slots: Sequence[int], room: Room) -> Obligations:
    free, waiting = list(room.free), list(range(len(room.reserved)))
    overdue = [i for i in waiting if WAITS[i] > AGE_LIMIT * MEDIAN_S]
    for a in _tick(slots, room):
        for i in overdue:
            passed = i in waiting and (a.id not in overdue or a.id > i) and a.id != i
            if passed:
                yield "who is passed over has no room there", room.reserved[i] > free[a.replica]
        waiting.remove(a.id)
        free[a.replica] = free[a.replica] - room.reserved[a.id]


def _n17_programs() -> Iterator[Program]:
    for slots, reserved in product(SLOTS, RESERVED):
        room = Room(reserved, named("K", 2))

        def run(slots: Any = slots, room: Room = room) -> Obligations:
            yield from _n17_obligations(slots, room)

        limits = [value >= 0 for value in room.free]
        yield Program(run, limits, f"slots {slots}, reserved {reserved}")


def _n17_holds(slots: Sequence[int], room: Room) -> bool | None:
    met = [bool(held) for _, held in _n17_obligations(slots, room)]
    return all(met) if met else None


N17 = Statement(
    id="N17",
    title="The window router's age rule where KV binds",
    claim="A request past the age limit is passed over only by an older one past the limit, or at "
    "a replica without room for it. With KV for the largest reservation in every slot there is "
    "none such and N6's bound holds as it stands; with less there is no bound (R21).",
    latex=r"i \text{ overdue, passed over at } g \Rightarrow \mathrm{reserved}_i > \mathrm{free}_g",
    source=OWN,
    about=(Window,),
    expected=Verdict.CHECKED,
    layers=(
        smt("every capacity and number of slots", _n17_goals, general=False),
        execution(
            "the product's tick, G = 2, two of three requests overdue, all real room", _n17_programs
        ),
        exhaustive("the product's tick, G = 2, two of three requests overdue", _cases, _n17_holds),
    ),
)


def _oldest_goes(reserved: Sequence[int], free: int) -> bool | None:
    """One replica with one slot: whether the oldest, past the limit, goes where anyone goes."""
    admitted = [a.id for a in _tick((1,), Room(reserved, (free,)), waits=OLD_AND_YOUNG)]
    return 0 in admitted if admitted else None


def _oldest_cases() -> Iterator[tuple[Any, ...]]:
    for reserved in product((1, 2), repeat=2):
        for free in range(3):
            yield reserved, free


def _oldest_programs() -> Iterator[Program]:
    reserved, free = (5, 3), named("K", 1)

    def run() -> Obligations:
        admitted = _tick((1,), Room(reserved, free), waits=OLD_AND_YOUNG)
        yield "goes", either(not admitted, *[a.id == 0 for a in admitted])

    yield Program(run, [free[0] >= 0], "reserved 5 and 3")


SMALL, LARGE, CAPACITY, SMALL_STEPS, STEP_S = 5, 20, 20, 4, 0.1
WAITING = 15


def _leaves(steps: int, share: float) -> bool:
    """Whether a request of 20 tokens ever finds room beside a backlog of requests of 5.

    KV for 20, slots for all. Each step one of four small ones ends, and its room is taken at once:
    its 5 tokens are the whole share asked for, floor((20 + 15*5)/16).
    """
    router = Window(WindowParams(room_share=share))
    large = Request(0, 10, ready_s=-1000.0, reserved_tokens=LARGE)
    small = [Request(1 + i, 1, reserved_tokens=SMALL) for i in range(WAITING - 1)]
    ends = list(range(1, SMALL_STEPS + 1))
    for step in range(1, steps + 1):
        now_s = step * STEP_S
        small.append(Request(WAITING + step, 1, ready_s=now_s, reserved_tokens=SMALL))
        ends = [end for end in ends if end > step]
        load = sum(1 + SMALL_STEPS - (end - step) for end in ends)
        free = CAPACITY - SMALL * len(ends)
        state = TickState([[load]], [CAPACITY], [large, *small], now_s, [free])
        for a in router.tick(state):
            if a.id == large.id:
                return True
            small = [request for request in small if request.id != a.id]
            ends.append(step + SMALL_STEPS)
    return False


R21 = Statement(
    id="R21",
    title="The age rule bounds every wait",
    claim="False: where KV capacity binds, too, the window router's oldest request, past the age "
    "limit, leaves the pool by the next tick that admits anyone; or at least some day, with "
    "room_share 1. (N17 says what remains.)",
    latex=r"\text{wait} \le \text{limit} + (p+1)\ \text{ticks}",
    source="this project; N6 without its first hypothesis",
    about=(Window,),
    expected=Verdict.REFUTED,
    layers=(
        smallest_counterexample(
            "one replica, one slot, two requests of 1 or 2 tokens",
            _oldest_cases,
            _oldest_goes,
            expected=((2, 1), 1),
        ),
        execution("one replica, one slot, reserved 5 and 3, any room", _oldest_programs),
        replayed("500 steps, no share", _leaves, case=(500, 0.0)),
        replayed("500 steps, the whole mean reservation free", _leaves, case=(500, 1.0)),
    ),
)

STATEMENTS = (N16, N17, R21)
