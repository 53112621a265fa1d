"""What `study robustness` says in words: who degrades how, and until when a router is worth having.

A router is surely better than another where the paired 95 % interval of the ratio of their
imbalances lies below 1. With one seed there is no interval and nothing is sure.
"""

from collections.abc import Sequence

from brtheory.analysis.statistics import Measured
from brtheory.study.grid.contenders import told_truth
from brtheory.study.grid.document import GridDocument
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import compare_seeds, measured_text
from brtheory.study.grids.robustness_errors import KINDS, ErrorKind
from brtheory.study.grids.robustness_view import degradation, imbalance_at
from brtheory.study.results import Finding


def find_robustness(document: GridDocument) -> list[Finding]:
    """All that the numbers allow to be said."""
    findings: list[Finding | None] = []
    for kind in KINDS:
        findings += [_degradation(document, kind), _worth(document, kind)]
    findings.append(_best(document))
    return [finding for finding in findings if finding is not None]


def _degradation(document: GridDocument, kind: ErrorKind) -> Finding | None:
    """Every router at every end of the sizes against itself without the error."""
    parts = []
    for size in (kind.sizes[0], kind.sizes[-1]):
        if size == kind.neutral:
            continue
        found = [
            (measured.value, f"{document.title_of(ROUTER, router)} {measured_text(measured)}")
            for router in kind.routers
            if not (kind.of_predictions and router == kind.rival)
            and (measured := degradation(document, kind, size, router)) is not None
        ]
        if found:
            parts.append(f"at {size:g} {', '.join(text for _, text in sorted(found))}")
    if not parts:
        return None
    text = f"{_heading(kind)}: imbalance against the same router without it, {'; '.join(parts)}."
    return Finding(kind=f"degradation-{kind.name}", text=text)


def _worth(document: GridDocument, kind: ErrorKind) -> Finding | None:
    """At which sizes each router is surely better than what it has to beat."""
    parts = []
    for router in kind.routers:
        ratios = {
            size: measured
            for size in kind.sizes
            if router != kind.rival
            and (measured := _against(document, kind, size, router)) is not None
            and measured.interval is not None
        }
        if ratios:
            parts.append(f"{document.title_of(ROUTER, router)} {_span(ratios)}")
    if not parts:
        return None
    rival = document.title_of(ROUTER, kind.rival)
    text = f"{_heading(kind)}: surely less imbalance than {rival} has {', '.join(parts)}."
    return Finding(kind=f"worth-{kind.name}", text=text)


def _against(document: GridDocument, kind: ErrorKind, size: float, router: str) -> Measured | None:
    """Ratio to the rival in the same trouble."""
    return compare_seeds(
        imbalance_at(document, kind, size, router), imbalance_at(document, kind, size, kind.rival)
    )


def _span(ratios: dict[float, Measured]) -> str:
    """At which sizes the interval lies below 1."""
    sure = [s for s, measured in ratios.items() if measured.interval and measured.interval.high < 1]
    if len(sure) == len(ratios):
        return "at every size"
    return f"at {_listed(sure)}" if sure else "at no size"


def _listed(sizes: Sequence[float]) -> str:
    *most, last = (f"{size:g}" for size in sizes)
    return f"{', '.join(most)} and {last}" if most else last


def _best(document: GridDocument) -> Finding | None:
    """The router of least imbalance that is not told the truth, at the worst size of every kind."""
    parts = []
    for kind in KINDS:
        size = kind.sizes[-1]
        found = {
            router: estimate.mean
            for router in kind.routers
            if not told_truth(router)
            and (estimate := imbalance_at(document, kind, size, router)) is not None
        }
        if len(found) > 1:
            best = min(found, key=lambda router: found[router])
            parts.append(f"{document.title_of(ROUTER, best)} under {kind.title}")
    if not parts:
        return None
    text = (
        f"Least imbalance without knowledge of true lengths, at the largest size of each error: "
        f"{', '.join(parts)}."
    )
    return Finding(kind="best", text=text)


def _heading(kind: ErrorKind) -> str:
    return kind.title[0].upper() + kind.title[1:]
