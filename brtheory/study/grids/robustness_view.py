"""Tables and curves of `study robustness`, one of each per kind of error."""

from brtheory.analysis.statistics import Measured
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import Curve, Sheet, curves_drawing, label_colour
from brtheory.study.grid.document import Entry, GridDocument, GridEstimate, Line, Table
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import NOTHING, compare_seeds
from brtheory.study.grids.robustness_errors import KIND, KINDS, SIZE, ErrorKind

METRIC = "imbalance_mean_tokens"
METRICS = (METRIC,)


def imbalance_at(
    document: GridDocument, kind: ErrorKind, size: float, router: str
) -> GridEstimate | None:
    """Imbalance of a router under an error."""
    return document.estimate(METRIC, {KIND: kind.name, SIZE: float(size), ROUTER: router})


def degradation(
    document: GridDocument, kind: ErrorKind, size: float, router: str
) -> Measured | None:
    """Imbalance under an error over that without it, on the same requests."""
    return compare_seeds(
        imbalance_at(document, kind, size, router),
        imbalance_at(document, kind, kind.neutral, router),
    )


def robustness_tables(document: GridDocument) -> list[Table]:
    """Against JSQ, and against itself."""
    return [_table(document, kind) for kind in KINDS]


def draw_robustness(document: GridDocument) -> list[Drawing]:
    """Ratio to JSQ against the size of the error."""
    return [_drawing(document, kind) for kind in KINDS]


def _table(document: GridDocument, kind: ErrorKind) -> Table:
    return Table(
        title=f"Imbalance as a ratio to JSQ: {kind.title}",
        corner="router",
        columns=[f"{size:g}" for size in kind.sizes],
        lines=[
            Line(
                title=document.title_of(ROUTER, router),
                entries=[_entry(document, kind, size, router) for size in kind.sizes],
            )
            for router in kind.routers
        ],
        caption=f"Columns: {kind.x_label}. Ratio to JSQ in the same trouble, with its interval; "
        "after × the ratio to the router's own imbalance without the error.",
    )


def _entry(document: GridDocument, kind: ErrorKind, size: float, router: str) -> Entry:
    estimate = imbalance_at(document, kind, size, router)
    if estimate is None:
        return NOTHING
    interval = wording.interval(estimate.ratio_low, estimate.ratio_high, digits=2)
    own = degradation(document, kind, size, router)
    worse = "" if own is None or size == kind.neutral else f"× {wording.ratio(own.value)}"
    return Entry(text=wording.ratio(estimate.ratio), detail=f"{interval} {worse}".strip())


def _drawing(document: GridDocument, kind: ErrorKind) -> Drawing:
    return curves_drawing(
        [_curve(document, kind, router) for router in kind.routers if router != BASELINE],
        Sheet(
            name=f"robustness-{kind.name}",
            title=kind.title.capitalize(),
            caption="Imbalance as a ratio to JSQ in the same trouble; below 1 is better than JSQ. "
            "Lines are 95 % intervals over seeds.",
            x_label=kind.x_label,
            y_label="imbalance / JSQ's",
            log_x=kind.log_x,
            show=lambda value: f"{value:.3g}",
        ),
    )


def _curve(document: GridDocument, kind: ErrorKind, router: str) -> Curve:
    points = [
        (float(size), estimate.ratio, estimate.ratio_low, estimate.ratio_high)
        for size in kind.sizes
        if (estimate := imbalance_at(document, kind, size, router)) is not None
        and estimate.ratio is not None
    ]
    return Curve(
        title=_short(document.title_of(ROUTER, router)),
        colour=label_colour(router),
        xs=[point[0] for point in points],
        means=[point[1] for point in points],
        lows=[point[2] for point in points],
        highs=[point[3] for point in points],
    )


def _short(title: str) -> str:
    """``BR-H oracle`` for a legend; all horizons of this study are the same."""
    return title.partition(",")[0].replace(" (", " ")
