"""N12, N13: what the order of the replicas is worth, and what a shortage of slots or room costs."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import z3

from brtheory.core.imbalance import imbalance
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import larger, reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import both, either, named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, added, product_tick, sane, sets_decided
from proofs.specification import Room, Rule
from proofs.statement import Statement

TICK = (BalanceRoute, *IMBALANCE)
GREEDY = (0, 2, 9)


def _n12_goals() -> Iterator[Goal]:
    count, top, load, rest, delta = reals("G M L S x")
    before = count * top - (load + rest)
    after = count * larger(top, load + delta) - (load + rest + delta)
    sane_state = [count >= 1, delta >= 0, top >= load]
    yield Goal(
        z3.And(after >= before - delta, after <= before + (count - 1) * delta),
        sane_state,
        "no admission of x does better than - x or worse than + (G-1) x; they add up",
    )
    yield Goal(
        after == before + (count - 1) * delta, [*sane_state, load == top], "on a heaviest replica"
    )
    yield Goal(after == before - delta, [*sane_state, load + delta <= top], "within the margin")


def _waste_after(
    loads: Sequence[Any], slots: Sequence[int], sizes: Sequence[Any], rule: Rule
) -> Any:
    now = list(loads)
    for a in product_tick(loads, slots, sizes, rule=rule):
        now = added(now, a.replica, sizes[a.id])
    return imbalance(now)


def _n12_programs() -> Iterator[Program]:
    for (replicas, requests), greedy in product(((2, 1), (2, 2), (2, 3), (3, 2)), GREEDY):
        loads, sizes = named("L", replicas), named("s", requests)
        slots = (2 * requests, *[requests] * (replicas - 1))

        def run(
            loads: Any = loads, sizes: Any = sizes, slots: Any = slots, greedy: int = greedy
        ) -> Obligations:
            before, placed = imbalance(loads), sum(sizes)
            worst = _waste_after(loads, slots, sizes, Rule(greedy=greedy))
            yield "slots first: the worst", worst == before + (len(loads) - 1) * placed
            best = _waste_after(loads, slots, sizes, Rule(greedy=greedy, margin_first=True))
            yield "margin first: the best", best == before - placed

        room = [loads[0] - load >= sum(sizes) for load in loads[1:]]
        scope = f"G = {replicas}, {requests} requests, S_greedy = {greedy}"
        yield Program(run, [*sane(loads, sizes), *room], scope)


def _n12_cases() -> Iterator[tuple[Any, ...]]:
    for replicas, requests in product((2, 3, 5), (1, 2, 4)):
        for sizes in product((1, 4, 9), repeat=requests):
            for margin in (sum(sizes), sum(sizes) + 3):
                yield replicas, sizes, margin


def _n12_holds(replicas: int, sizes: tuple[int, ...], margin: int) -> bool:
    loads = (margin, *[0] * (replicas - 1))
    slots = (2 * len(sizes), *[len(sizes)] * (replicas - 1))
    before, placed = imbalance(loads), sum(sizes)
    worst, best = before + (replicas - 1) * placed, before - placed
    return all(
        _waste_after(loads, slots, sizes, Rule(greedy=greedy)) == worst
        and _waste_after(loads, slots, sizes, Rule(greedy=greedy, margin_first=True)) == best
        for greedy in (0, replicas, 99)
    )


N12 = Statement(
    id="N12",
    title="The order of the replicas is worth all that a tick can gain or lose",
    claim="For every G >= 2 and any prompts of X tokens in all there is a state in which slots "
    "first leaves I' = I + (G-1) X, the worst any admission of them can, and margin first "
    "I' = I - X, the best: one heaviest replica with twice the free slots of each other one, and "
    "margins of at least X there.",
    latex=r"I'_{\text{slots first}} = I + (G-1)X,\quad I'_{\text{margin first}} = I - X",
    hypotheses=("no KV capacity limit", "as many free slots as requests on each replica"),
    source="this project; what R4 comes to at its worst",
    about=TICK,
    layers=(
        smt("every real G: best and worst of any admissions, and both are met", _n12_goals),
        execution(
            "the product's tick, G = 2, up to 3 requests and G = 3, 2, all real inputs",
            _n12_programs,
        ),
        exhaustive("the product's tick, G = 2, 3, 5, up to 4 requests", _n12_cases, _n12_holds),
    ),
)


def _n13_goals() -> Iterator[Goal]:
    count, top, load, rest, delta, excess = reals("G M L S x E")
    before = count * top - (rest + load)
    after = count * larger(top, load + delta) - (rest + load + delta)
    yield Goal(
        z3.Or(after <= before - delta, after <= (count - 1) * delta + excess),
        [count >= 1, delta >= 0, top >= load, excess >= 0, rest >= (count - 1) * load - excess],
        "one request; E: by how much the replica exceeds lighter ones in all",
    )
    # A set of q >= 2 gains more than each part of it: its least request s <= X/q, taken out, too.
    members, least = reals("q s")
    overflow = larger(z3.RealVal(0), delta - (top - load))
    without = larger(z3.RealVal(0), delta - least - (top - load))
    gain, part = delta - count * overflow, (delta - least) - count * without
    yield Goal(
        2 * gain >= delta,
        [
            count >= 2,
            top >= load,
            members >= 2,
            least > 0,
            members * least <= delta,
            gain > 0,
            gain >= part,
        ],
        "a set that is better than itself without its least request gains half its tokens",
    )


def _each_set(
    loads: Sequence[Any],
    slots: Sequence[int],
    sizes: Sequence[Any],
    *,
    reserved: Sequence[Any],
    room: Sequence[Any],
    greedy: int,
) -> Obligations:
    now, free, space = list(loads), list(slots), list(room)
    waiting = list(range(len(sizes)))
    rule = Rule(greedy=greedy, margin_first=True)
    found = product_tick(loads, slots, sizes, rule=rule, room=Room(reserved, room))
    for group in sets_decided(found):
        g, chosen = group[0].replica, [a.id for a in group]
        excess: Any = 0
        for j, load in enumerate(now):
            if load < now[g]:
                excess += now[g] - load
                full = both(*[reserved[i] > space[j] for i in waiting])
                yield "a lighter one has no slot or no room", free[j] == 0 or full
        placed = sum(sizes[i] for i in chosen)
        then = added(now, g, placed)
        longest = max(sizes[i] for i in chosen)
        waste, floor = imbalance(then), (len(now) - 1) * longest + excess
        yield "bound", either(2 * waste <= 2 * imbalance(now) - placed, waste <= floor)
        now, free[g] = then, free[g] - len(chosen)
        space[g] = space[g] - sum(reserved[i] for i in chosen)
        yield "KV room is kept", space[g] >= 0
        waiting = [i for i in waiting if i not in chosen]


def _n13_programs() -> Iterator[Program]:
    for slots, greedy in product(((2, 2), (1, 1), (2, 0)), (0, 9)):
        yield _n13_program(slots, greedy)


def _n13_program(slots: Sequence[int], greedy: int) -> Program:
    loads, sizes = named("L", 2), named("s", 2)
    reserved, room = named("r", 2), named("K", 2)

    def run() -> Obligations:
        yield from _each_set(loads, slots, sizes, reserved=reserved, room=room, greedy=greedy)

    limits = [value >= 0 for value in (*reserved, *room)]
    return Program(run, [*sane(loads, sizes), *limits], f"slots {slots}, S_greedy = {greedy}")


def _n13_cases() -> Iterator[tuple[Any, ...]]:
    for loads, slots in product(product((0, 2, 7), repeat=3), ((1, 1, 1), (3, 0, 2))):
        for sizes in product((1, 3, 6), repeat=3):
            for room in ((9, 9, 9), (2, 7, 0), (3, 3, 12)):
                yield loads, slots, sizes, room


def _n13_holds(
    loads: tuple[int, ...], slots: tuple[int, ...], sizes: tuple[int, ...], room: tuple[int, ...]
) -> bool:
    """One request at a time (R_max = 1): the bound of each, and KV room is kept."""
    reserved, now, space = [size + 1 for size in sizes], list(loads), list(room)
    rule = Rule(99, 1, margin_first=True)
    found = product_tick(loads, slots, sizes, rule=rule, room=Room(reserved, room))
    for a in found:
        excess = sum(max(now[a.replica] - load, 0) for load in now)
        waste, size = imbalance(now), sizes[a.id]
        now = added(now, a.replica, size)
        space[a.replica] -= reserved[a.id]
        if imbalance(now) > max(waste - size, (len(now) - 1) * size + excess):
            return False
    return min(space) >= 0


N13 = Statement(
    id="N13",
    title="What a shortage of slots or KV room costs",
    claim="Margin first, each set of X tokens that BR-0 admits leaves "
    "I' <= max(I - X/2, (G-1) s_max + E), E the excess of its replica over lighter ones, and a "
    "lighter one has no free slot or no KV room for any request it could be offered; so where "
    "nothing binds E = 0 and this is T16'. (The first term is I - x for a single request.)",
    latex=r"I' \le \max\bigl(I - X/2, (G-1)s_{\max} + \textstyle\sum_j (L_g - L_j)_+\bigr)",
    hypotheses=("margin-first key", "G >= 2"),
    source="this project; T16 and N1 where slots or KV capacity bind",
    about=TICK,
    layers=(
        smt("every real G, single requests and sets of any size", _n13_goals),
        execution(
            "the product's tick, G = 2, 2 requests, all real loads, prompts, reservations and room",
            _n13_programs,
        ),
        exhaustive("the product's tick, G = 3, 3 requests, R_max = 1", _n13_cases, _n13_holds),
    ),
)

STATEMENTS = (N12, N13)
