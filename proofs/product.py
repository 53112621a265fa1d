"""The production functions the statements speak of, called the same way from every layer.

They accept any ordered number type: integers in searches, sympy expressions with decided signs in
the symbolic layer, symbolic reals in the execution layer.
"""

from collections.abc import Sequence
from typing import Any

from brtheory.core.admission import Admission
from brtheory.core.fscore import ScoreWeights, f_score, one_step_weights
from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from proofs.specification import Decision, Room, Rule

SUMMARY = "summary of the paper, design 1"
LIST = "exact-and-proofs, section 1"
EVERY_REAL = "every real G, m and Delta"
SCORE = (f_score, one_step_weights)
IMBALANCE = (imbalance, margins)
LARGEST = 2**40


def score(replicas: Any, margin: Any, delta: Any) -> Any:
    """One-step score of Delta at a replica with this margin."""
    return f_score(delta, [margin], one_step_weights(replicas))


def window_score(reward: Any, prices: Sequence[Any], window: Sequence[Any], delta: Any) -> Any:
    """Horizon score A*Delta - sum_h w_h*(Delta - m_h)_+, one price and one margin a step."""
    return f_score(delta, window, ScoreWeights(reward=reward, overflow=tuple(prices)))


def added(loads: Sequence[Any], replica: int, delta: Any) -> list[Any]:
    """Loads after delta has been added to one replica."""
    return [load + delta if g == replica else load for g, load in enumerate(loads)]


def router(rule: Rule) -> BalanceRoute:
    """The product's router for a variant."""
    return BalanceRoute(
        BalanceRouteParams(
            greedy_threshold=rule.greedy,
            max_subset=rule.window,
            key_order="margin-first" if rule.margin_first else "slots-first",
            stage1="longest" if rule.longest else "f-score",
        )
    )


def tick_state(
    loads: Sequence[Any], slots: Sequence[int], sizes: Sequence[Any], *, room: Room | None = None
) -> TickState:
    """What a router sees in a tick of one step ahead; prompts oldest first."""
    reserved = [0] * len(sizes) if room is None else room.reserved
    pool = [
        Request(id=i, prompt_tokens=size, reserved_tokens=tokens)
        for i, (size, tokens) in enumerate(zip(sizes, reserved, strict=True))
    ]
    free = None if room is None else list(room.free)
    return TickState([[load] for load in loads], list(slots), pool, free_tokens=free)


def product_tick(
    loads: Sequence[Any],
    slots: Sequence[int],
    sizes: Sequence[Any],
    *,
    rule: Rule,
    room: Room | None = None,
) -> list[Admission]:
    """One tick of the product on any ordered number type."""
    return router(rule).tick(tick_state(loads, slots, sizes, room=room))


def sane(loads: Sequence[Any], sizes: Sequence[Any]) -> list[object]:
    """Assumptions the product checks: loads >= 0, prompts >= 1, both at most 2^40."""
    parts: list[object] = []
    for load in loads:
        parts += [load >= 0, load <= LARGEST]
    for size in sizes:
        parts += [size >= 1, size <= LARGEST]
    return parts


def as_decisions(admissions: Sequence[Admission]) -> list[Decision]:
    """The product's admissions in the specification's form."""
    return [(a.id, a.replica, a.stage or 0, a.score) for a in admissions]


def sets_decided(admissions: Sequence[Admission]) -> list[list[Admission]]:
    """Group symbolic admissions by decision: the requests of one set share one score object."""
    groups: list[list[Admission]] = []
    for admission in admissions:
        if groups and groups[-1][0].score is admission.score:
            groups[-1].append(admission)
        else:
            groups.append([admission])
    return groups
