"""Which router when: a recommendation computed from routers x settings, never typed.

At each load, over the settings of the study: a router's share of JSQ's imbalance is averaged as a
geometric mean; it wins a setting if its mean imbalance is the least among the routers compared, and
beats another surely if the paired 95 % interval of their ratio lies below 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.routers.registry import find_router
from brtheory.study import wording
from brtheory.study.choices import BASELINE, TITLES
from brtheory.study.grid.contenders import told_truth
from brtheory.study.grid.document import GridDocument, GridEstimate, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import change, compare_seeds
from brtheory.study.grids.settings import SATURATED, SETTING
from brtheory.study.results import Finding

ARRIVALS = "arrivals"
LIGHT = "open:rho=0.8"
IMBALANCE, THROUGHPUT = "imbalance_mean_tokens", "throughput_tokens_per_s"
CLOSE = 1.05
"""A router within so much of the best is called close to it."""


@dataclass(frozen=True)
class Standing:
    """One router at one load: share of JSQ's imbalance by setting, and the settings it wins."""

    label: str
    title: str
    shares: dict[Value, float]
    wins: int

    @property
    def share(self) -> float:
        """Geometric mean share of JSQ's imbalance."""
        return float(np.exp(np.mean(np.log(list(self.shares.values())))))


def recommend(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be recommended."""
    findings = [
        _saturated(document),
        _costs(document),
        _second(document),
        _prediction(document),
        _light(document),
        _simple(document),
    ]
    return [finding for finding in findings if finding is not None]


def standings(document: GridDocument, arrivals: str, labels: Sequence[str]) -> list[Standing]:
    """The routers at one load, the best first; those without a number in some setting left out."""
    settings = document.values(SETTING)
    found = {label: _shares(document, arrivals, label) for label in labels}
    found = {label: shares for label, shares in found.items() if len(shares) == len(settings)}
    made = [
        Standing(label, document.title_of(ROUTER, label), shares, _wins(label, found))
        for label, shares in found.items()
    ]
    return sorted(made, key=lambda standing: standing.share)


def unpredicted(document: GridDocument) -> list[str]:
    """Routers that know nothing about output lengths, true or estimated."""
    labels = [str(label) for label in document.values(ROUTER)]
    return [label for label in labels if not find_router(label.partition(":")[0]).needs_predictor]


def _shares(document: GridDocument, arrivals: str, label: str) -> dict[Value, float]:
    shares = {}
    for setting in document.values(SETTING):
        estimate = _of(document, IMBALANCE, arrivals, setting, label)
        if estimate is not None and estimate.ratio:
            shares[setting] = estimate.ratio
    return shares


def _wins(label: str, found: dict[str, dict[Value, float]]) -> int:
    return sum(
        share == min(shares[setting] for shares in found.values())
        for setting, share in found[label].items()
    )


def _of(
    document: GridDocument, metric: str, arrivals: str, setting: Value, label: str
) -> GridEstimate | None:
    return document.estimate(metric, {SETTING: setting, ARRIVALS: arrivals, ROUTER: label})


def _saturated(document: GridDocument) -> Finding | None:
    ranked = standings(document, str(SATURATED), unpredicted(document))
    if not ranked:
        return None
    best, total = ranked[0], len(ranked[0].shares)
    gains = [
        estimate.ratio
        for setting in best.shares
        if (estimate := _of(document, THROUGHPUT, str(SATURATED), setting, best.label))
        and estimate.ratio
    ]
    text = (
        f"With a backlog ({SATURATED}), take {best.title}: of the routers that predict nothing it "
        f"has the least imbalance on {best.wins} of {total} kinds of requests, {best.share:.2f} of "
        f"JSQ's on average ({min(best.shares.values()):.2f} to {max(best.shares.values()):.2f})"
    )
    if gains:
        text += f", and changes throughput by {change(min(gains))} to {change(max(gains))} %"
    return Finding(kind="saturated", text=text + ".")


def _costs(document: GridDocument) -> Finding | None:
    """What the best one costs in waiting, against the pooled FIFO."""
    ranked = standings(document, str(SATURATED), unpredicted(document))
    if not ranked:
        return None
    best = ranked[0]
    ratios = {"wait_p99_s": list[float](), "wait_max_s": list[float]()}
    for metric, found in ratios.items():
        for setting in best.shares:
            wait = _of(document, metric, str(SATURATED), setting, best.label)
            median = _of(document, "wait_p50_s", str(SATURATED), setting, "pool-fifo")
            if wait is not None and median is not None and median.mean > 0:
                found.append(wait.mean / median.mean)
    tail, longest = ratios.values()
    if not tail or not longest:
        return None
    text = (
        f"Its price is waiting: over the kinds of requests its P99 wait is {min(tail):.1f} to "
        f"{max(tail):.1f} times the Pooled FIFO's median wait, its longest {min(longest):.1f} to "
        f"{max(longest):.1f} times."
    )
    return Finding(kind="waiting", text=text)


def _second(document: GridDocument) -> Finding | None:
    """Where the runner-up is as good as the best."""
    ranked = standings(document, str(SATURATED), unpredicted(document))
    if len(ranked) < 2:
        return None
    best, second = ranked[:2]
    surely = _sure(document, best.label, second.label)
    lost = [document.title_of(SETTING, s) for s in best.shares if second.shares[s] < best.shares[s]]
    text = (
        f"Next is {second.title} with {second.share:.2f} of JSQ's imbalance; {best.title} beats it "
        f"surely on {surely} of {len(best.shares)}"
    )
    text += f" and loses to it on {', '.join(lost)}." if lost else " and loses to it on none."
    return Finding(kind="second", text=text)


def _sure(document: GridDocument, label: str, other: str) -> int:
    """In how many settings the paired interval of the ratio lies below 1."""
    count = 0
    for setting in document.values(SETTING):
        top, bottom = (
            _of(document, IMBALANCE, str(SATURATED), setting, name) for name in (label, other)
        )
        measured = compare_seeds(top, bottom)
        count += bool(measured and measured.interval and measured.interval.high < 1)
    return count


def _prediction(document: GridDocument) -> Finding | None:
    """Whether knowing output lengths would beat the best router that does not."""
    ranked = standings(document, str(SATURATED), unpredicted(document))
    labels = [str(label) for label in document.values(ROUTER)]
    predicted = standings(
        document, str(SATURATED), [label for label in labels if label not in unpredicted(document)]
    )
    if not ranked or not predicted:
        return None
    best, parts = ranked[0], []
    for other in predicted:
        beaten = sum(share < best.shares[setting] for setting, share in other.shares.items())
        parts.append(f"{other.title} beats it on {beaten} of {len(other.shares)}")
    families = dict.fromkeys(_family(other.label) for other in predicted)
    what = (
        f"in {' and '.join(families)} even true output lengths do not help"
        if not any(
            told_truth(o.label) and any(s < best.shares[k] for k, s in o.shares.items())
            for o in predicted
        )
        else "prediction is worth a look only there"
    )
    text = f"Prediction: {'; '.join(parts)}; {what}."
    return Finding(kind="prediction", text=text)


def _family(label: str) -> str:
    name = label.partition(":")[0]
    return TITLES.get(name, name)


def _light(document: GridDocument) -> Finding | None:
    ranked = standings(document, LIGHT, unpredicted(document))
    if not ranked:
        return None
    best = ranked[0]
    close = [s.title for s in ranked[1:] if s.share <= CLOSE * best.share]
    text = (
        f"Without a backlog ({LIGHT}), {best.title} has the least imbalance on average, "
        f"{best.share:.2f} of JSQ's, and on {best.wins} of {len(best.shares)} kinds of requests"
    )
    text += f"; {' and '.join(close)} is within {100 * (CLOSE - 1):.0f} % of it." if close else "."
    worse = [f"{s.title} {s.share:.2f}" for s in ranked if s.share > 1 and s.label != BASELINE]
    if worse:
        text += f" Worse than JSQ there: {', '.join(worse)}."
    return Finding(kind="light", text=text)


def _simple(document: GridDocument) -> Finding | None:
    """What is left for those who can only place requests at arrival."""
    immediate = [
        label
        for label in unpredicted(document)
        if find_router(label.partition(":")[0]).family == "immediate"
    ]
    ranked = standings(document, str(SATURATED), immediate)
    if not ranked:
        return None
    best = ranked[0]
    text = (
        f"With that backlog but requests placed at arrival (no pool), {best.title} is best with "
        f"{wording.ratio(best.share)} of JSQ's imbalance"
    )
    text += ": without late binding there is little to choose." if best.share > 1 / 2 else "."
    return Finding(kind="immediate", text=text)
