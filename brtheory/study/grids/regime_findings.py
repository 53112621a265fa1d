"""What `study regimes` recommends, derived from its numbers: where to care, and whom to take."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from brtheory.study import wording
from brtheory.study.grid.document import GridDocument, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grids.regime_names import (
    ARRIVALS,
    BASE,
    MEMORY,
    NO_LIMIT,
    SHARE,
    SPREAD,
    Gain,
    gain_at,
)
from brtheory.study.results import Finding

MATTERS = 0.01
"""Share of decode time from which on a gain is called worth having."""


def find_regimes(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be recommended."""
    findings = [
        _backlog(document),
        _winners(document),
        _step_time(document),
        _memory(document),
        _spread(document),
    ]
    return [finding for finding in findings if finding is not None]


def _gains(document: GridDocument, down: str, across: str) -> dict[tuple[Value, Value], Gain]:
    return {
        (y, x): gain
        for y in document.values(down)
        for x in document.values(across)
        if (gain := gain_at(document, {down: y, across: x})) is not None
    }


def _backlog(document: GridDocument) -> Finding | None:
    """From which load-dependent share on a better router is worth having, by backlog."""
    gains = _gains(document, ARRIVALS, SHARE)
    starts: dict[str, list[str]] = {}
    for arrivals in document.values(ARRIVALS):
        enough = [
            float(share)
            for (y, share), gain in gains.items()
            if y == arrivals and gain.won >= MATTERS
        ]
        key = f"from a0 L / b0 = {min(enough):g} on" if enough else "nowhere on this map"
        starts.setdefault(key, []).append(str(arrivals))
    if not gains:
        return None
    told = "; ".join(f"{key} with {', '.join(names)}" for key, names in starts.items())
    text = (
        f"A better router than JSQ wins back at least {100 * MATTERS:.0f} % of decode time: {told}."
    )
    return Finding(kind="backlog", text=text)


def _winners(document: GridDocument) -> Finding | None:
    """Who wins where there is a backlog, and where there is none."""
    gains = _gains(document, ARRIVALS, SHARE)
    parts = []
    for kind, word in (("closed", "kept full (closed)"), ("open", "below saturation (open)")):
        best = Counter(
            document.title_of(ROUTER, gain.best)
            for (arrivals, _), gain in gains.items()
            if str(arrivals).startswith(kind)
        )
        if best:
            total = sum(best.values())
            told = ", ".join(f"{title} on {count}" for title, count in best.most_common())
            parts.append(f"{word} {told} of {total} points")
    if not parts:
        return None
    return Finding(kind="winners", text=f"Who loses least: {'; '.join(parts)}.")


def _step_time(document: GridDocument) -> Finding | None:
    """The gain at the ends of the step-time axis, at the base backlog."""
    ends = [document.values(SHARE)[0], document.values(SHARE)[-1]]
    gains = [gain_at(document, {SHARE: share}) for share in ends]
    low, high = gains
    if low is None or high is None:
        return None
    text = (
        f"Under {BASE[ARRIVALS]} the best router wins back {wording.percent(low.won)} of decode "
        f"time where a0 L / b0 = {ends[0]} and {wording.percent(high.won)} where it is {ends[1]}: "
        f"only the part of a step that grows with load can be balanced."
    )
    return Finding(kind="step-time", text=text)


def _memory(document: GridDocument) -> Finding | None:
    """Whether the choice matters more or less where memory binds before slots."""
    gains = _gains(document, MEMORY, SPREAD)
    bound = {key: gain for key, gain in gains.items() if key[0] != NO_LIMIT and float(key[0]) < 1}
    free = {key: gain for key, gain in gains.items() if key[0] == NO_LIMIT}
    if not bound or not free:
        return None
    won, lost, free_won, free_lost = (
        float(np.mean(column))
        for column in (
            [gain.won for gain in bound.values()],
            [gain.lost for gain in bound.values()],
            [gain.won for gain in free.values()],
            [gain.lost for gain in free.values()],
        )
    )
    best = Counter(document.title_of(ROUTER, gain.best) for gain in bound.values())
    told = ", ".join(f"{title} on {count}" for title, count in best.most_common())
    text = (
        f"Where memory binds before slots, JSQ loses {wording.percent(lost)} of decode time on "
        f"average over prompt spreads and {wording.percent(won)} can be won back, against "
        f"{wording.percent(free_lost)} and {wording.percent(free_won)} where slots bind: full "
        f"memory {'already evens out' if lost < free_lost else 'does not even out'} tokens. Least "
        f"time is then lost under {told} of {len(bound)} points."
    )
    return Finding(kind="memory", text=text)


def _spread(document: GridDocument) -> Finding | None:
    """The gain from equal prompts to widely spread ones, slots binding."""
    spreads: Sequence[Value] = document.values(SPREAD)
    gains = [(spread, gain_at(document, {SPREAD: spread})) for spread in spreads]
    parts = [f"{wording.percent(g.won)} at {float(s):g}" for s, g in gains if g is not None]
    if not parts:
        return None
    text = (
        f"Prompts decide how much there is to balance: won back at the base point are, by spread "
        f"of prompts (standard deviation of the logarithm), {', '.join(parts)}."
    )
    return Finding(kind="spread", text=text)
