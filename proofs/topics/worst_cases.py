"""T31 - T34: what no router that binds for life can guarantee, and what least-loaded can."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import z3

from brtheory.core.cluster import Cluster
from brtheory.core.requests import Request
from brtheory.routers.baselines import EngineScore, JoinShortestQueue, LeastTokens, RoundRobin
from brtheory.routers.protocol import ImmediateRouter
from brtheory.routers.reference import BalanceRoute
from proofs.formulas import larger, reals
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.kernel import kernel
from proofs.layers.reals import named
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import LIST, added, product_tick, sane
from proofs.specification import Rule
from proofs.statement import Statement

ONLINE = "exact-and-proofs, section 1; adversary of deterministic online assignment"
ROUTERS: tuple[Callable[[], ImmediateRouter], ...] = (
    JoinShortestQueue,
    LeastTokens,
    EngineScore,
    RoundRobin,
)
DETERMINISTIC = (JoinShortestQueue, LeastTokens, EngineScore, RoundRobin)


def _pigeonhole() -> Goal:
    """G*G*j requests on G replicas: the fullest replica of any assignment holds G*j."""
    count, each, placed, fullest = reals("G j S c")
    return Goal(
        fullest >= count * each,
        [count >= 1, each >= 1, placed == count * count * each, placed <= count * fullest],
        "pigeonhole",
    )


def _growing_ratio(first_steps: Any) -> Iterator[Goal]:
    """Of the fullest replica G*j stay T steps, all others leave after their first steps."""
    count, each, prompt, stay, early, late = reals("G j s T a b")
    yield Goal(
        count * (prompt + first_steps) <= prompt + stay,
        [
            count >= 1,
            prompt >= 1,
            first_steps >= 0,
            stay >= (count - 1) * prompt + count * first_steps,
        ],
        "T is long enough that the start of an even split does not count",
    )
    # a, b: what a request weighs when the early ones leave, and at the end.
    yield Goal(
        count * larger(count * (each * early), each * late) <= count * (each * late),
        [count >= 1, each >= 1, early >= 0, count * (each * early) <= each * late],
        "peak of the router against peak of an even split of the same requests",
    )
    yield Goal(
        count * (each * early) <= each * late,
        [each >= 1, count * early <= late],
        "j requests at a time",
    )


def _at_most_count() -> Goal:
    count, load, load_sum, best = reals("G L S B")
    return Goal(
        load <= count * best,
        [count >= 1, load >= 0, load <= load_sum, load_sum <= count * best],
        "never above G: the same active requests, wherever they are",
    )


def _t31_goals() -> Iterator[Goal]:
    yield _pigeonhole()
    yield from _growing_ratio(z3.RealVal(0))
    yield _at_most_count()


def _t32_goals() -> Iterator[Goal]:
    yield _pigeonhole()
    yield from _growing_ratio(z3.Real("e"))
    yield _at_most_count()


def placed_at_once(router: ImmediateRouter, requests: int, *, replicas: int) -> list[int]:
    """Replicas the router binds identical requests to, arriving one by one, slots abundant."""
    cluster = Cluster(replicas=replicas, slots=requests)
    chosen = []
    for index in range(requests):
        request = Request(id=index, prompt_tokens=1)
        replica = router.place(request, cluster)
        cluster.admit(request, replica)
        chosen.append(replica)
    return chosen


def _adversary_holds(index: int, replicas: int, each: int, early: int) -> bool:
    """Whether the adversary makes a router of the product peak at exactly G times an even split."""
    requests = replicas * replicas * each
    chosen = placed_at_once(ROUTERS[index](), requests, replicas=replicas)
    counts = [chosen.count(g) for g in range(replicas)]
    target = counts.index(max(counts))
    staying = [i for i, g in enumerate(chosen) if g == target][: replicas * each]
    stay = (replicas - 1) + replicas * early + 1
    outputs = [stay + early + 1 if i in staying else early + 1 for i in range(requests)]
    even = [0] * requests
    for position, i in enumerate(staying):
        even[i] = position % replicas
    for position, i in enumerate(i for i in range(requests) if i not in staying):
        even[i] = position % replicas
    ours, best = (_peak(where, outputs, replicas) for where in (chosen, even))
    return len(staying) == replicas * each and ours == replicas * best


def _peak(where: Sequence[int], outputs: Sequence[int], replicas: int) -> int:
    """Largest load at any step; prompts of 1 token, all admitted at step 0."""
    highest = 0
    for step in range(max(outputs)):
        loads = np.zeros(replicas, dtype=np.int64)
        for g, output in zip(where, outputs, strict=True):
            loads[g] += (1 + step) if step < output else 0
        highest = max(highest, int(loads.max()))
    return highest


def _adversaries(early: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    for index in range(len(ROUTERS)):
        for replicas, each in ((2, 1), (2, 2), (3, 1), (3, 2), (4, 1)):
            for steps in early:
                yield index, replicas, each, steps


T31 = Statement(
    id="T31",
    title="With growth, binding at arrival costs a factor of G",
    claim="With KV growth, for every deterministic router that binds at arrival for life there "
    "are instances on which its peak load is G times that of another assignment, and never more.",
    latex=r"\sup \frac{\max_k M(k)}{\max_k M^*(k)} = G",
    hypotheses=("output lengths unknown at arrival", "slots do not bind"),
    source=ONLINE,
    about=DETERMINISTIC,
    layers=(
        smt("every real G, any placement of G*G*j requests", _t31_goals),
        exhaustive(
            "four routers of the product, G = 2, 3, 4: ratio exactly G",
            lambda: _adversaries((0,)),
            _adversary_holds,
        ),
        kernel(
            "every G, any placement of G*G*j requests",
            "Adversary.ratio_attained",
            "Adversary.ratio_never_exceeded",
        ),
    ),
)

T32 = Statement(
    id="T32",
    title="Bounded look-ahead does not help",
    claim="The ratio G remains if the router sees perfectly which requests end within any fixed "
    "number e of steps: then none does.",
    latex=r"\forall H: \sup \text{ratio} = G",
    hypotheses=("early leavers stay e > H steps, so all look alike at arrival",),
    source=ONLINE,
    about=DETERMINISTIC,
    layers=(
        smt("every real G and e, any placement", _t32_goals),
        exhaustive(
            "four routers of the product, e = 1, 3, 8: ratio exactly G",
            lambda: _adversaries((1, 3, 8)),
            _adversary_holds,
        ),
    ),
)


def _t33_goals() -> Iterator[Goal]:
    count, top, low, rest, delta, best = reals("G M L S x B")
    after = larger(top, low + delta)
    yield Goal(
        count * after <= (2 * count - 1) * best,
        [
            count >= 1,
            delta >= 0,
            top >= low,
            rest >= (count - 1) * low,
            count * top <= (2 * count - 1) * best,
            delta <= best,
            rest + low + delta <= count * best,
        ],
        "an arrival on a least-loaded replica",
    )
    gone = reals("N")[0]
    yield Goal(
        count * gone <= (2 * count - 1) * best,
        [count >= 1, gone <= top, count * top <= (2 * count - 1) * best],
        "a departure",
    )


def _t33_holds(events: tuple[int, ...], replicas: int) -> bool:
    """The product's least-tokens: G*peak <= (2G - 1)*B, B a lower bound of every peak.

    A positive event is an arrival of that size, 0 the departure of the oldest request.
    """
    router, cluster = LeastTokens(), Cluster(replicas=replicas, slots=len(events))
    active: list[tuple[Request, int]] = []
    peak = bound = 0
    for index, size in enumerate(events):
        if size == 0 and active:
            request, replica = active.pop(0)
            cluster.retire(request, replica, tokens=request.prompt_tokens)
        elif size > 0:
            request = Request(id=index, prompt_tokens=size)
            replica = router.place(request, cluster)
            cluster.admit(request, replica)
            active.append((request, replica))
        peak = max(peak, int(cluster.loads.max()))
        bound = max(bound, size, -(-int(cluster.loads.sum()) // replicas))
    return replicas * peak <= (2 * replicas - 1) * bound


T33 = Statement(
    id="T33",
    title="Without growth least-loaded stays within 2 - 1/G",
    claim="Without KV growth, placing each arrival on a least-loaded replica keeps the peak load "
    "within 2 - 1/G of every assignment's, departures included.",
    latex=r"\max M \le (2 - 1/G) \max M^*",
    hypotheses=("no growth", "slots do not bind"),
    source=ONLINE,
    about=(LeastTokens,),
    layers=(
        smt("every real G, any sequence of arrivals and departures by induction", _t33_goals),
        exhaustive(
            "the product's least-tokens, G = 2, 3, up to 6 events",
            lambda: ((e, g) for g in (2, 3) for e in product((0, 1, 3, 4), repeat=6)),
            _t33_holds,
        ),
    ),
)


def _t34_goals() -> Iterator[Goal]:
    # Over the rounds so far A and B are two replicas' sums, v and w their entries of the current
    # round, v0 the first entry of the first replica: A + v <= v0 + B, so A <= s_max + B.
    a, b, v, w, first, following, most = reals("A B v w v0 n smax")
    yield Goal(a + v <= first + b, [a == 0, b == 0, v == first], "first round")
    yield Goal(
        (a + v) + following <= first + (b + w),
        [a + v <= first + b, following <= w],
        "next round: longest first, so its entry is at most w",
    )
    yield Goal(
        a - b <= most, [a + v <= first + b, v >= 0, first <= most], "so any two differ by s_max"
    )


def _t34_programs(shapes: Sequence[tuple[int, int]]) -> Iterator[Program]:
    for count, requests in shapes:
        sizes = named("s", requests)

        def run(sizes: Any = sizes, count: int = count) -> Obligations:
            loads: list[Any] = [0] * count
            slots = [len(sizes)] * count
            for a in product_tick(loads, slots, sizes, rule=Rule(greedy=0, longest=True)):
                loads = added(loads, a.replica, sizes[a.id])
            longest = max(sizes)
            for first, second in product(range(count), repeat=2):
                yield "gap", loads[first] - loads[second] <= longest

        yield Program(run, sane((), sizes), f"G = {count}, {requests} requests")


def _t34_holds(sizes: tuple[int, ...], replicas: int) -> bool:
    loads = [0] * replicas
    slots = [len(sizes)] * replicas
    for a in product_tick(loads, slots, sizes, rule=Rule(greedy=0, longest=True)):
        loads = added(loads, a.replica, sizes[a.id])
    return max(loads) - min(loads) <= max(sizes)


T34 = Statement(
    id="T34",
    title="Stage 1, longest first, from empty",
    claim="From equal empty replicas, stage 1 with longest-first leaves any two replicas within "
    "s_max of each other.",
    latex=r"|L_g - L_h| \le s_{\max}",
    hypotheses=("equal slots", "empty replicas", "slots-first key: rounds of G"),
    source=LIST,
    about=(BalanceRoute,),
    layers=(
        smt("every G and number of rounds, by induction", _t34_goals),
        execution(
            "the product's stage 1, G = 2, 3 requests and G = 3, 3 requests",
            lambda: _t34_programs(((2, 3), (3, 3))),
        ),
        execution(
            "the product's stage 1, G = 2, 4 requests and G = 3, 4 requests",
            lambda: _t34_programs(((2, 4), (3, 4))),
            quick=False,
        ),
        exhaustive(
            "the product's stage 1, G = 2, 3, up to 5 requests of 1, 2, 5, 9",
            lambda: (
                (s, g) for g in (2, 3) for n in range(1, 6) for s in product((1, 2, 5, 9), repeat=n)
            ),
            _t34_holds,
        ),
    ),
)

STATEMENTS = (T31, T32, T33, T34)
