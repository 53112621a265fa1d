"""What `study heterogeneous` says in words: what knowledge of speeds is worth, and to whom."""

from dataclasses import dataclass
from itertools import permutations

from brtheory.study import wording
from brtheory.study.grid.document import GridDocument
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import change
from brtheory.study.grids.heterogeneous_clusters import Different, clusters
from brtheory.study.grids.heterogeneous_view import (
    BLIND,
    IDLE_SHARE,
    THROUGHPUT,
    at,
    knowing,
    worth,
)
from brtheory.study.results import Finding

WORTH_TELLING = 1.01
"""A difference in throughput that is told."""


def find_heterogeneous(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be said."""
    findings = [
        *(_worth(document, router) for router in knowing(document)),
        _best(document),
        _misled(document),
        _idle_is_not_time(document),
    ]
    return [finding for finding in findings if finding is not None]


def _different() -> list[Different]:
    return [cluster for cluster in clusters() if cluster.speeds_differ]


def _worth(document: GridDocument, router: str) -> Finding | None:
    """Where one router surely gains from knowing, and where it surely loses."""
    found = [
        (cluster, measured)
        for cluster in _different()
        if (measured := worth(document, cluster.name, router)) is not None
    ]
    if not found:
        return None
    gains = [measured.value for _, measured in found]
    sure = [c.title for c, m in found if m.interval is not None and m.interval.low > 1]
    lost = [c.title for c, m in found if m.interval is not None and m.interval.high < 1]
    text = (
        f"Knowing speeds changes the throughput of {document.title_of(ROUTER, router)} by "
        f"{change(min(gains))} to {change(max(gains))} %, surely for the better on {len(sure)} of "
        f"{len(found)} clusters"
    )
    text += f" and surely for the worse on {', '.join(lost)}." if lost else "."
    return Finding(kind="worth", text=text)


def _best(document: GridDocument) -> Finding | None:
    """The router that gets most through each cluster and its gain on JSQ."""
    parts: dict[str, list[str]] = {}
    for cluster in clusters():
        means = {
            str(label): estimate
            for label in document.values(ROUTER)
            if (estimate := at(document, THROUGHPUT, cluster.name, str(label))) is not None
        }
        if not means:
            continue
        best = max(means, key=lambda label: means[label].mean)
        gain = means[best].ratio
        told = cluster.title if gain is None else f"{cluster.title} ({change(gain)} %)"
        parts.setdefault(document.title_of(ROUTER, best), []).append(told)
    if not parts:
        return None
    listed = "; ".join(f"{title} on {', '.join(names)}" for title, names in parts.items())
    text = f"Most tokens per second, and the gain on JSQ: {listed}."
    return Finding(kind="best", text=text)


def _misled(document: GridDocument) -> Finding | None:
    """Where a blind router is surely slower than JSQ, which weighs nothing."""
    parts = [
        f"{document.title_of(ROUTER, label + BLIND)} on {cluster.title} "
        f"({change(estimate.ratio)} %)"
        for label in knowing(document)
        for cluster in _different()
        if (estimate := at(document, THROUGHPUT, cluster.name, label + BLIND)) is not None
        and estimate.ratio is not None
        and estimate.ratio_high is not None
        and estimate.ratio_high < 1
    ]
    if not parts:
        return None
    text = f"Balancing tokens blindly is surely slower than JSQ: {', '.join(parts)}."
    return Finding(kind="misled", text=text)


def _idle_is_not_time(document: GridDocument) -> Finding | None:
    """The two routers of one cluster of which the one that waits less is slower by most."""
    pairs = [
        (other.tokens / one.tokens, cluster.title, one, other)
        for cluster in _different()
        for one, other in permutations(_waits(document, cluster), 2)
        if one.idle < other.idle and other.tokens >= one.tokens * WORTH_TELLING
    ]
    if not pairs:
        return None
    gain, title, one, other = max(pairs, key=lambda pair: pair[0])
    text = (
        f"Idle time is not lost time where replicas differ: on {title} replicas wait "
        f"{wording.percent(one.idle)} of the time under {one.title} and "
        f"{wording.percent(other.idle)} under {other.title}, which still decodes "
        f"{change(gain)} % in tokens per second."
    )
    return Finding(kind="idle", text=text)


@dataclass(frozen=True)
class _Wait:
    title: str
    idle: float
    tokens: float


def _waits(document: GridDocument, cluster: Different) -> list[_Wait]:
    return [
        _Wait(document.title_of(ROUTER, label), idle.mean, speed.mean)
        for label in document.values(ROUTER)
        if (idle := at(document, IDLE_SHARE, cluster.name, str(label))) is not None
        and (speed := at(document, THROUGHPUT, cluster.name, str(label))) is not None
    ]
