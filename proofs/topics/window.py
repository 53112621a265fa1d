"""N5, N6: what the window router guarantees: a bound on I, and a bound on every wait."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import z3

from brtheory.core.admission import Admission
from brtheory.core.imbalance import imbalance
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import WindowParams
from brtheory.routers.window import Window
from proofs.formulas import larger, reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import either, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, added, sane
from proofs.statement import Statement, Verdict

OWN = "this project; an open target of exact-and-proofs, section 1"
MEDIAN_S = 1.0
AGE_LIMIT = 2
LONG_S = 1e6
"""Holds every request that may be held."""
RESERVED = (5, 3, 9, 1)
SYMBOLIC: dict[str, Any] = {"size_weight": 0.0}
"""The floor of a symbolic quotient is beyond the executor; searches run the weight as shipped."""


def _tick(
    loads: Sequence[Any],
    slots: Sequence[int],
    sizes: Sequence[Any],
    waits: Sequence[float],
    *,
    room: Sequence[Any] | None = None,
    **options: Any,
) -> list[Admission]:
    """One tick of a router that has learned a median wait of one second; waits oldest first."""
    params = WindowParams(window=3, age_limit=AGE_LIMIT, age_floor_s=0.0, **options)
    router = Window(params)
    router.statistics.add(2, MEDIAN_S)
    pool = [
        Request(id=i, prompt_tokens=size, ready_s=100.0 - wait, reserved_tokens=RESERVED[i])
        for i, (size, wait) in enumerate(zip(sizes, waits, strict=True))
    ]
    tokens = None if room is None else list(room)
    rows = [[load] for load in loads]
    return router.tick(TickState(rows, list(slots), pool, now_s=100.0, free_tokens=tokens))


def _n5_goals() -> Iterator[Goal]:
    count, top, load, full, free, delta, excess = reals("G M L F R x E")
    # F: loads of the replicas without a slot, R: of the others with one, each >= L; E: by how much
    # L exceeds the former in all. So F + R >= (G - 1) L - E.
    after = count * larger(top, load + delta) - (full + free + load + delta)
    before = count * top - (full + free + load)
    yield Goal(
        z3.Or(after <= before - delta, after <= (count - 1) * delta + excess),
        [
            count >= 1,
            delta >= 0,
            top >= load,
            excess >= 0,
            full + free >= (count - 1) * load - excess,
        ],
        "one admission to the least-loaded replica with a free slot",
    )
    first, second, placed, more, floor, start = reals("I1 I2 X y c I")
    yield Goal(
        z3.Or(second <= start - (placed + more), second <= floor),
        [
            placed >= 0,
            more >= 0,
            z3.Or(first <= start - placed, first <= floor),
            z3.Or(second <= first - more, second <= floor),
        ],
        "admissions chain while E stays below the same bound",
    )


def _after_each(
    loads: Sequence[Any], sizes: Sequence[Any], admissions: Sequence[Admission]
) -> Iterator[tuple[list[Any], Any, int]]:
    """Loads before each admission, the request's prompt, and its replica."""
    now = list(loads)
    for a in admissions:
        yield now, sizes[a.id], a.replica
        now = added(now, a.replica, sizes[a.id])


def _n5_programs(*, limited: bool = False) -> Iterator[Program]:
    for order, slots in product(("longest", "fit"), ((2, 2), (2, 0), (1, 1), (1, 0))):
        room = named("K", 2) if limited else None
        yield _n5_program(order, slots, room)


def _n5_program(order: str, slots: Sequence[int], room: Sequence[Any] | None) -> Program:
    loads, sizes = named("L", 2), named("s", 2)

    def run() -> Obligations:
        free, space = list(slots), None if room is None else list(room)
        options = {**SYMBOLIC, "hold_s": 0.0, "spare_order": order}
        admissions = _tick(loads, slots, sizes, (1.0, 0.5), room=room, **options)
        left = [0, 1]
        for a, (now, size, replica) in zip(
            admissions, _after_each(loads, sizes, admissions), strict=True
        ):
            waste, after = imbalance(now), imbalance(added(now, replica, size))
            excess: Any = 0
            for g, load in enumerate(now):
                if load < now[replica]:
                    excess += now[replica] - load
                    full = space is not None and all(RESERVED[i] > space[g] for i in left)
                    yield "a lighter one has no slot or no room", free[g] == 0 or full
            floor = (len(now) - 1) * size + excess
            yield "bound", either(after <= waste - size, after <= floor)
            free[replica] -= 1
            left.remove(a.id)
            if space is not None:
                space[replica] = space[replica] - RESERVED[a.id]

    limits = [] if room is None else [tokens >= 0 for tokens in room]
    scope = f"G = 2, 2 requests, slots {slots}, {order} with slots to spare"
    return Program(run, [*sane(loads, sizes), *limits], scope)


def _n5_holds(loads: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """With slots to spare the whole tick obeys T16's bound, whichever requests are chosen."""
    waits = [3.0 - i for i in range(len(sizes))]
    slots, placed = [len(sizes)] * len(loads), sum(sizes)
    bound = max(imbalance(loads) - placed, (len(loads) - 1) * max(sizes))
    for order in ("longest", "fit"):
        now = list(loads)
        for a in _tick(loads, slots, sizes, waits, spare_order=order):
            now = added(now, a.replica, sizes[a.id])
        if imbalance(now) > bound:
            return False
    return True


def _n5_cases() -> Iterator[tuple[Any, ...]]:
    for count, requests in ((2, 1), (2, 3), (3, 2), (3, 4)):
        for loads in product(range(4), repeat=count):
            for sizes in product((1, 2, 5), repeat=requests):
                yield loads, sizes


N5 = Statement(
    id="N5",
    title="The window router's bound on imbalance",
    claim="Each admission of x by the window router leaves I' <= max(I - x, (G-1) x + E), E the "
    "excess of the chosen replica over lighter ones, none of which has both a free slot and the KV "
    "room asked for; with both on a least-loaded replica E = 0, and a whole tick obeys T16's bound "
    "then, whatever the ages and the weights of wait, size and overflow.",
    latex=r"I' \le \max\bigl(I - x, (G-1)x + \textstyle\sum_{j\ \mathrm{full}}(L_g-L_j)_+\bigr)",
    source=OWN,
    about=(Window, *IMBALANCE),
    layers=(
        smt("every real G, any number of admissions", _n5_goals),
        execution("the product's tick, G = 2, 2 requests, all real inputs", _n5_programs),
        execution(
            "the product's tick, G = 2, 2 requests that reserve 5 and 3, all real KV room",
            lambda: _n5_programs(limited=True),
        ),
        exhaustive("the product's tick, G = 2, 3, up to 4 requests", _n5_cases, _n5_holds),
    ),
)


def _n6_goals() -> Iterator[Goal]:
    ahead, admitted, ticks, left = reals("p a k q")
    yield Goal(
        left + (ticks + 1) <= ahead + ticks,
        [admitted >= 1, left == ahead - admitted],
        "a tick with a free slot takes at least one of the requests ahead",
    )
    start, overdue = reals("P d")
    yield Goal(
        overdue <= start,
        [ahead >= 0, overdue >= 0, ahead + overdue <= start],
        "so the wait ends within P ticks, P - 1 requests ahead of it",
    )


def _n6_holds(sizes: tuple[int, ...], waits: tuple[float, ...], slots: tuple[int, ...]) -> bool:
    """While the head of the pool is overdue, admissions come from its head, in order, none held."""
    overdue = [i for i, wait in enumerate(waits) if wait > AGE_LIMIT * MEDIAN_S]
    first = min(len(overdue), sum(slots))
    for loads in ([0] * len(slots), list(range(len(slots)))):
        admitted = [a.id for a in _tick(loads, slots, sizes, waits, hold_s=LONG_S)]
        if admitted[:first] != overdue[:first]:
            return False
    return True


def _n6_cases() -> Iterator[tuple[Any, ...]]:
    for sizes in product((1, 3, 8), repeat=4):
        for waits in ((4.0, 3.0, 2.5, 2.1), (4.0, 3.0, 1.0, 0.5), (9.0, 2.0, 2.0, 0.0), (1.0,) * 4):
            for slots in ((1,), (1, 1), (2, 1), (0, 3)):
                yield sizes, waits, slots


def _n6_programs() -> Iterator[Program]:
    for slots in ((1, 0), (1, 1), (2, 1)):
        loads, sizes = named("L", 2), named("s", 3)

        def run(loads: Any = loads, sizes: Any = sizes, slots: Any = slots) -> Obligations:
            admitted = [
                a.id for a in _tick(loads, slots, sizes, (5.0, 4.0, 0.0), hold_s=LONG_S, **SYMBOLIC)
            ]
            first = min(2, sum(slots))
            yield "overdue requests first, oldest first", admitted[:first] == [0, 1][:first]

        yield Program(run, sane(loads, sizes), f"two of three overdue, slots {slots}")


N6 = Statement(
    id="N6",
    title="The window router's age rule bounds every wait",
    claim="Requests older than the age limit are admitted before all others, oldest first; so a "
    "request with p older ones in the pool leaves it within p + 1 ticks that find a free slot, "
    "counted from the tick at which it is past the limit: it is not held, however long others are.",
    latex=r"\text{wait} \le \text{limit} + (p+1)\ \text{ticks with a free slot}",
    hypotheses=(
        "no KV capacity limit",
        "the learned limit does not rise above its wait meanwhile",
    ),
    source=OWN,
    about=(Window,),
    expected=Verdict.CHECKED,
    layers=(
        smt("any number of ticks, by induction over what is ahead", _n6_goals, general=False),
        execution("the product's tick, 3 requests, all real loads and prompts", _n6_programs),
        exhaustive("the product's tick, 4 requests, four age profiles", _n6_cases, _n6_holds),
    ),
)

STATEMENTS = (N5, N6)
