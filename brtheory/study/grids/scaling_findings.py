"""What `study scaling` says in words: independence, order statistics, who fades, which fit."""

from collections.abc import Mapping

from brtheory.study import wording
from brtheory.study.grid.document import GridDocument, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grids.scaling_names import INDEPENDENT, METRIC, NORMAL, REPLICAS
from brtheory.study.results import Finding


def find_growth(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be said."""
    findings = [_independence(document), _normal(document), _fade(document), _exponents(document)]
    return [finding for finding in findings if finding is not None]


def _ratio_by_size(document: GridDocument, label: str, against: str) -> dict[int, float]:
    """Ratio of mean imbalance of two routers by number of replicas."""
    ratios = {}
    for replicas in document.values(REPLICAS):
        tops, bottoms = (
            document.estimate(METRIC, {REPLICAS: replicas, ROUTER: name})
            for name in (label, against)
        )
        if tops is not None and bottoms is not None and bottoms.mean > 0:
            ratios[int(replicas)] = tops.mean / bottoms.mean
    return ratios


def _independence(document: GridDocument) -> Finding | None:
    ratios = _ratio_by_size(document, "jsq", INDEPENDENT)
    if not ratios:
        return None
    worst = max(ratios, key=lambda replicas: abs(ratios[replicas] - 1))
    text = (
        f"JSQ loses what independent replicas would lose: its imbalance is within "
        f"{100 * abs(ratios[worst] - 1):.0f} % of the Monte Carlo of independent loads for every G "
        f"from {min(ratios)} to {max(ratios)} (furthest at G = {worst}: {ratios[worst]:.2f} "
        f"times). It balances requests, and tokens are left to chance."
    )
    return Finding(kind="independent", text=text)


def _normal(document: GridDocument) -> Finding | None:
    """How far normal order statistics are from the Monte Carlo at the largest G."""
    for replicas in reversed(document.values(REPLICAS)):
        labels: Mapping[str, Value] = {REPLICAS: replicas, ROUTER: INDEPENDENT}
        drawn = document.estimate(METRIC, labels)
        normal = document.estimate(NORMAL, labels)
        if drawn is not None and normal is not None and drawn.mean > 0:
            text = (
                f"Exact order statistics of normal loads give {wording.tokens(normal.mean)} tokens "
                f"at G = {replicas}, {100 * (normal.mean / drawn.mean - 1):+.0f} % against the "
                f"Monte Carlo of the true law ({wording.tokens(drawn.mean)})."
            )
            return Finding(kind="normal", text=text)
    return None


def _fade(document: GridDocument) -> Finding | None:
    """Which routers keep their ratio to JSQ as G grows."""
    parts = []
    for label in document.values(ROUTER):
        ratios = _ratio_by_size(document, str(label), "jsq")
        if label not in ("jsq", INDEPENDENT) and len(ratios) > 1:
            first, last = min(ratios), max(ratios)
            title = document.title_of(ROUTER, label)
            parts.append(f"{title} from {ratios[first]:.2f} to {ratios[last]:.2f}")
    if not parts:
        return None
    sizes = document.values(REPLICAS)
    text = (
        f"Imbalance as a ratio to JSQ from G = {sizes[0]} to G = {sizes[-1]}: {'; '.join(parts)}."
    )
    return Finding(kind="fade", text=text)


def _exponents(document: GridDocument) -> Finding | None:
    parts = []
    for label in document.values(ROUTER):
        power = document.derivation("exponent", {ROUTER: label})
        by_power = document.derivation("exponent_residual", {ROUTER: label})
        by_extremes = document.derivation("extremes_residual", {ROUTER: label})
        if power is None or by_power is None or by_extremes is None:
            continue
        better = "a·E_G" if by_extremes.value < by_power.value else f"G^{power.value:.2f}"
        parts.append(f"{document.title_of(ROUTER, label)} by {better}")
    if not parts:
        return None
    text = f"Imbalance per replica over G is described better, of the two fits: {'; '.join(parts)}."
    return Finding(kind="fits", text=text)
