"""N7: what coins are worth against an adversary who does not see them (T31, randomised).

N identical requests arrive; the adversary draws which few of them stay, all others leave. Whatever
a router did, coins included, the survivors are a random set to it: so its expected ratio is at
least the least one of any fixed placement (Yao), and among placements an even one is best.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import z3

from brtheory.routers.baselines import (
    EngineScore,
    JoinShortestQueue,
    LeastTokens,
    PowerOfTwo,
    Random,
    RoundRobin,
)
from brtheory.routers.protocol import ImmediateRouter
from proofs.formulas import larger, reals
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.statement import Statement
from proofs.topics.worst_cases import ONLINE, placed_at_once

ROUTERS = (Random, PowerOfTwo, RoundRobin, JoinShortestQueue, LeastTokens, EngineScore)
SEEDS = range(5)


def least_expected_ratio(requests: int, *, replicas: int) -> Fraction:
    """1 + (N - G)/(G (N - 1)): two survivors of N, placed evenly, on the same replica or not."""
    return 1 + Fraction(requests - replicas, replicas * (requests - 1))


def expected_most(counts: Sequence[int], *, staying: int) -> Fraction:
    """Mean over all sets of survivors of how many of them are on one replica at most."""
    owner = [g for g, count in enumerate(counts) for _ in range(count)]
    sets = list(combinations(owner, staying))
    return Fraction(sum(max(map(chosen.count, chosen)) for chosen in sets), len(sets))


def even_split(requests: int, *, replicas: int) -> list[int]:
    """Counts that differ by one at most."""
    return [(requests + g) // replicas for g in range(replicas)]


def _goals() -> Iterator[Goal]:
    count, requests, squares, one, rest = reals("G N Q c R")
    # Q >= N^2/G by induction over the replicas: R requests on k - 1 of them, c on one more.
    yield Goal(
        count * (squares + one * one) >= (rest + one) * (rest + one),
        [count >= 2, (count - 1) * squares >= rest * rest],
        "one more replica: the sum of squares is least when even",
    )
    # Two of N survive: they share a replica with probability (Q - N)/(N (N - 1)).
    together = z3.Real("P")
    pairs = requests * (requests - 1)
    yield Goal(
        count * (requests - 1) * together >= requests - count,
        [
            count >= 1,
            requests >= 2,
            count * squares >= requests * requests,
            together * pairs == squares - requests,
        ],
        "so they share one with probability at least (N - G)/(G (N - 1))",
    )
    # The router's peak over an even split's, T steps later; the start does not count once
    # T >= (N - 1) s: the split's peak is then that of one survivor.
    prompt, stay = reals("s T")
    yield Goal(
        larger(requests * prompt, prompt + stay) <= prompt + stay,
        [requests >= 2, prompt >= 1, stay >= (requests - 1) * prompt],
        "T is long enough that the start does not count",
    )
    yield Goal(
        1 - together + 2 * together >= 1 + (requests - count) / (count * (requests - 1)),
        [
            count >= 1,
            requests >= 2,
            together <= 1,
            together >= (requests - count) / (count * (requests - 1)),
        ],
        "the ratio is 2 if they share one and 1 if not",
    )


def _router(index: int, seed: int) -> ImmediateRouter:
    kind: Any = ROUTERS[index]
    tossing = kind in {Random, PowerOfTwo}
    built: ImmediateRouter = kind(np.random.default_rng(seed)) if tossing else kind()
    return built


def _router_cases() -> Iterator[tuple[Any, ...]]:
    for index in range(len(ROUTERS)):
        for replicas, requests in ((2, 4), (2, 10), (3, 6), (3, 12), (4, 12)):
            for seed in SEEDS:
                yield index, replicas, requests, seed


def _router_holds(index: int, replicas: int, requests: int, seed: int) -> bool:
    """A router of the product, its coins fixed by the seed: never below; even ones just at it."""
    chosen = placed_at_once(_router(index, seed), requests, replicas=replicas)
    counts = [chosen.count(g) for g in range(replicas)]
    found = expected_most(counts, staying=2)
    least = least_expected_ratio(requests, replicas=replicas)
    return found == least if max(counts) == min(counts) else found > least


def _placements(requests: int, replicas: int) -> Iterator[tuple[int, ...]]:
    if replicas == 1:
        yield (requests,)
        return
    for first in range(requests + 1):
        for others in _placements(requests - first, replicas - 1):
            yield (first, *others)


def _split_cases() -> Iterator[tuple[Any, ...]]:
    for replicas, requests in ((2, 6), (2, 12), (3, 6), (3, 9), (4, 8)):
        for counts in _placements(requests, replicas):
            yield counts, replicas


def _split_holds(counts: Sequence[int], replicas: int) -> bool:
    """G survivors, whom an even split would put on a replica each: no placement beats even."""
    even = even_split(sum(counts), replicas=replicas)
    return expected_most(counts, staying=replicas) >= expected_most(even, staying=replicas)


N7 = Statement(
    id="N7",
    title="Coins do not help below 1 + 1/G",
    claim="With KV growth, for every router that binds at arrival for life, randomised ones "
    "included, and an adversary who does not see its coins, some instance of N requests has an "
    "expected peak ratio of at least 1 + (N - G)/(G (N - 1)), which tends to 1 + 1/G; an even "
    "placement meets it on these instances.",
    latex=r"\sup \mathbb E\,\frac{\max_k M(k)}{\max_k M^*(k)} \ge 1 + \frac{N-G}{G(N-1)}",
    hypotheses=("output lengths unknown at arrival", "slots do not bind", "N >= G >= 2"),
    source=f"{ONLINE}; a randomised version of T31, an open target",
    about=(*ROUTERS,),
    layers=(
        smt("every real G and N, any placement", _goals),
        exhaustive(
            "six routers of the product, G = 2, 3, 4, five seeds: exact means over all survivors",
            _router_cases,
            _router_holds,
        ),
        exhaustive(
            "G survivors instead of two, every placement, G = 2, 3, 4: even is best",
            _split_cases,
            _split_holds,
        ),
    ),
)

STATEMENTS = (N7,)
