"""What `study ablation` says in words: what mattered, surely and by how much.

A change matters surely where the paired 95 % interval of its ratio to the defaults does not hold 1;
with one seed there is no interval, and nothing is sure.
"""

from collections.abc import Sequence

from brtheory.analysis.statistics import Measured
from brtheory.study import wording
from brtheory.study.grid.document import GridDocument, GridEstimate, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import change as change_text
from brtheory.study.grid.tables import compare_seeds, measured_text
from brtheory.study.grids.ablation_changes import (
    BR0,
    LATE,
    MOVED,
    ORACLE,
    OVERLAPPED,
    SURVIVAL,
    Change,
    change_groups,
)
from brtheory.study.grids.ablation_view import (
    IMBALANCE,
    LONGEST_WAIT,
    THROUGHPUT,
    TICK,
    estimate_of,
    horizons,
)
from brtheory.study.grids.settings import SETTING
from brtheory.study.results import Finding

LONG_WAIT = 2.0
"""A change that multiplies the longest wait by so much is named."""


def find_ablation(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be said."""
    findings: list[Finding | None] = [_ranking(document)]
    for setting in document.values(SETTING):
        findings += [
            _parts(document, setting),
            _tick(document, setting),
            _starving(document, setting),
            _horizon(document, setting),
            _weights(document, setting),
            _gate(document, setting),
            _errors(document, setting),
            _transfer(document, setting),
        ]
    return [finding for finding in findings if finding is not None]


def _ranking(document: GridDocument) -> Finding | None:
    """Every factor's largest sure effect over workloads and routers, in either direction."""
    largest: dict[str, tuple[float, str]] = {}
    for setting in document.values(SETTING):
        for change in _settings():
            for router in change.routers:
                estimate = estimate_of(document, IMBALANCE, setting, router, change.name)
                if estimate is None or not estimate.ratio or not _sure(estimate):
                    continue
                size = max(estimate.ratio, 1 / estimate.ratio)
                if size > largest.get(change.factor, (1.0, ""))[0]:
                    told = f"{change.title} ({estimate.ratio:.2f})"
                    largest[change.factor] = size, told
    if not largest:
        return None
    ranked = [told for _, told in sorted(largest.values(), reverse=True)]
    factors = dict.fromkeys(change.factor for change in _settings())
    silent = [factor for factor in factors if factor not in largest]
    text = (
        f"What matters to balance, by the largest sure effect of each setting over both workloads "
        f"and all routers (imbalance against the defaults): {', '.join(ranked)}."
    )
    text += f" Without any sure effect: {', '.join(silent)}." if silent else ""
    return Finding(kind="ranking", text=text)


def _settings() -> list[Change]:
    return [change for group in change_groups() for change in group.changes if change.setting]


def _sure(estimate: GridEstimate) -> bool:
    """Whether the interval of the ratio to the defaults leaves 1 out."""
    low, high = estimate.ratio_low, estimate.ratio_high
    return low is not None and high is not None and not low <= 1 <= high


def _parts(document: GridDocument, setting: Value) -> Finding | None:
    """What pool, score and horizon add, each against what comes before it."""
    steps = (
        ("counting tokens instead of requests", "least-tokens", "jsq"),
        ("the pool without a score", "pool-fifo", "least-tokens"),
        ("the score", BR0, "pool-fifo"),
        ("a horizon of true lengths", ORACLE, BR0),
    )
    parts = [
        f"{name} multiplies it by {measured_text(measured)}"
        for name, router, before in steps
        if (measured := _between(document, setting, router, before)) is not None
    ]
    if not parts:
        return None
    text = f"{_on(document, setting)}, imbalance from part to part: {'; '.join(parts)}."
    return Finding(kind="parts", text=text)


def _between(document: GridDocument, setting: Value, router: str, before: str) -> Measured | None:
    return compare_seeds(
        estimate_of(document, IMBALANCE, setting, router),
        estimate_of(document, IMBALANCE, setting, before),
    )


def _tick(document: GridDocument, setting: Value) -> Finding | None:
    changes = _group(TICK)
    text = _verdict(document, setting, BR0, changes)
    return None if text is None else Finding(kind="tick", text=text)


def _weights(document: GridDocument, setting: Value) -> Finding | None:
    changes = [c for c in _group("horizon") if not c.name.startswith("horizon=")]
    text = _verdict(document, setting, ORACLE, changes)
    return None if text is None else Finding(kind="weights", text=text)


def _gate(document: GridDocument, setting: Value) -> Finding | None:
    changes = [c for c in _group("prediction") if c.factor == "gate"]
    text = _verdict(document, setting, SURVIVAL, changes)
    if text is None:
        return None
    measured = _between(document, setting, SURVIVAL, BR0)
    if measured is not None:
        text += f" At its defaults it has {measured_text(measured)} of BR-0's imbalance."
    return Finding(kind="gate", text=text)


def _verdict(
    document: GridDocument, setting: Value, router: str, changes: Sequence[Change]
) -> str | None:
    """Changes that are surely better than the defaults, surely worse, and neither."""
    found = [
        (change, estimate)
        for change in changes
        if (estimate := estimate_of(document, IMBALANCE, setting, router, change.name)) is not None
        and estimate.ratio is not None
    ]
    if not found:
        return None
    found.sort(key=lambda pair: pair[1].ratio or 0)
    better = [_named(c, e) for c, e in found if _sure(e) and (e.ratio or 0) < 1]
    worse = [_named(c, e) for c, e in found if _sure(e) and (e.ratio or 0) > 1]
    neither = [c.title for c, e in found if not _sure(e)]
    kinds = (
        ("surely less imbalance than at the defaults", better),
        ("surely more", worse[::-1]),
        ("no sure difference", neither),
    )
    told = "; ".join(f"{words} with {', '.join(names)}" for words, names in kinds if names)
    return f"{document.title_of(ROUTER, router)} on {document.title_of(SETTING, setting)}: {told}."


def _named(change: Change, estimate: GridEstimate) -> str:
    interval = wording.interval(estimate.ratio_low, estimate.ratio_high, digits=2)
    return f"{change.title} ({wording.ratio(estimate.ratio)} {interval}".rstrip() + ")"


def _starving(document: GridDocument, setting: Value) -> Finding | None:
    """Changes of the tick that buy balance, or nothing, with waiting."""
    named = []
    for change in _group(TICK):
        wait = estimate_of(document, LONGEST_WAIT, setting, BR0, change.name)
        balance = estimate_of(document, IMBALANCE, setting, BR0, change.name)
        if wait is None or balance is None or wait.ratio is None or balance.ratio is None:
            continue
        if wait.ratio >= LONG_WAIT and wait.ratio_low is not None and wait.ratio_low > 1:
            named.append(
                f"{change.title} ({wait.ratio:.1f} times, imbalance {balance.ratio:.2f} times)"
            )
    if not named:
        return None
    text = (
        f"{_on(document, setting)}, the longest wait under BR-0 surely grows, and at least "
        f"doubles, with {', '.join(named)}."
    )
    return Finding(kind="waiting", text=text)


def _horizon(document: GridDocument, setting: Value) -> Finding | None:
    """The best fixed horizon, what the default and the automatic one are worth."""
    found = horizons(document, setting)
    automatic = estimate_of(document, IMBALANCE, setting, ORACLE, "horizon=auto")
    if 0 not in found or 80 not in found:
        return None
    best = min(found, key=lambda steps: found[steps].mean)
    told = [("H = 80", found[80]), ("H = auto", automatic)]
    parts = [
        f"{name} has {measured_text(measured)} of BR-0's"
        for name, estimate in told
        if (measured := compare_seeds(estimate, found[0])) is not None
    ]
    text = (
        f"{_on(document, setting)}, the best of the fixed horizons is H = {best} with "
        f"{wording.tokens(found[best].mean)} tokens of imbalance; {', '.join(parts)}."
    )
    return Finding(kind="horizon", text=text)


def _errors(document: GridDocument, setting: Value) -> Finding | None:
    """How much of what true lengths give is left when they are wrong."""
    zero = estimate_of(document, IMBALANCE, setting, BR0)
    parts = [
        f"{measured_text(measured)} with {change.title}"
        for change in _group("prediction")
        if change.perturbation is not None
        and (wrong := estimate_of(document, IMBALANCE, setting, ORACLE, change.name)) is not None
        and (measured := compare_seeds(wrong, zero)) is not None
    ]
    if not parts:
        return None
    measured = _between(document, setting, ORACLE, BR0)
    true = "" if measured is None else f"{measured_text(measured)} with true lengths, "
    text = (
        f"{_on(document, setting)}, BR-H (oracle, H = 80) has of BR-0's imbalance {true}"
        f"{', '.join(parts)}."
    )
    return Finding(kind="errors", text=text)


def _transfer(document: GridDocument, setting: Value) -> Finding | None:
    """What moving the KV cache costs after binding, and while the request waits."""
    parts = []
    for router in MOVED:
        late, early = (
            estimate_of(document, THROUGHPUT, setting, router, name) for name in (LATE, OVERLAPPED)
        )
        if late is not None and early is not None and late.ratio and early.ratio:
            parts.append(
                f"{document.title_of(ROUTER, router)} {change_text(late.ratio)} % and "
                f"{change_text(early.ratio)} %"
            )
    if not parts:
        return None
    text = (
        f"{_on(document, setting)}, a KV transfer changes throughput, started after binding and "
        f"while waiting: {', '.join(parts)}."
    )
    return Finding(kind="transfer", text=text)


def _group(name: str) -> Sequence[Change]:
    return next(group.changes for group in change_groups() if group.name == name)


def _on(document: GridDocument, setting: Value) -> str:
    return f"On {document.title_of(SETTING, setting)}"
