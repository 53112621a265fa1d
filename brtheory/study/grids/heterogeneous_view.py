"""Tables and figures of `study heterogeneous`."""

from brtheory.analysis.statistics import Measured
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import Curve, Sheet, curves_drawing, label_colour
from brtheory.study.figures.heat import HeatMap, heat_drawing
from brtheory.study.grid.document import Entry, GridDocument, GridEstimate, Line, Table, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import (
    NOTHING,
    Measure,
    best_mean,
    compare_seeds,
    gain_entry,
    half_width,
    percent_entry,
    shown,
)
from brtheory.study.grids.heterogeneous_clusters import ALIKE, CLUSTER, clusters

BLIND = ":blind"
THROUGHPUT, IDLE_SHARE = "throughput_tokens_per_s", "barrier_time_fraction"
IDLE = "barrier_idle_mean_s"
METRICS = (THROUGHPUT, IDLE_SHARE, IDLE)


def at(document: GridDocument, metric: str, cluster: str, router: str) -> GridEstimate | None:
    """One number."""
    return document.estimate(metric, {CLUSTER: cluster, ROUTER: router})


def knowing(document: GridDocument) -> list[str]:
    """Routers that run both knowing and blind."""
    labels = [str(label) for label in document.values(ROUTER)]
    return [label for label in labels if label + BLIND in labels]


def worth(document: GridDocument, cluster: str, router: str) -> Measured | None:
    """Throughput of a router that knows speeds over its own without, on the same requests."""
    return compare_seeds(
        at(document, THROUGHPUT, cluster, router), at(document, THROUGHPUT, cluster, router + BLIND)
    )


def heterogeneous_tables(document: GridDocument) -> list[Table]:
    """Throughput against JSQ, what knowing is worth, idle time."""
    return [
        _table(
            document,
            Measure(metric=THROUGHPUT, better="high", show=gain_entry),
            title="Throughput against JSQ on the same cluster",
            caption="Change in tokens per second; the best of a line in bold.",
        ),
        _worth_table(document),
        _table(
            document,
            Measure(metric=IDLE, better="low", show=_idle_entry),
            title="Idle at the barrier, milliseconds a step and replica",
            caption="Mean over replicas; step time of an empty step included. Only where speeds "
            "differ; the least of a line in bold.",
        ),
        _table(
            document,
            Measure(metric=IDLE_SHARE, better="low", show=percent_entry),
            title="Share of decode time a replica waits at the barrier",
            caption="Less is not always faster: work moved to a slow replica fills time too.",
        ),
    ]


def draw_heterogeneous(document: GridDocument) -> list[Drawing]:
    """Throughput as one replica gets slower, and what knowing is worth on every cluster."""
    return [_slow_curve(document), _worth_map(document)]


def _idle_entry(estimate: GridEstimate) -> Entry:
    scale = 1000 / len(clusters()[0].replicas)
    return Entry(
        text=f"{scale * estimate.mean:.1f}", detail=half_width(estimate, scale=scale, digits=1)
    )


def _table(document: GridDocument, measure: Measure, *, title: str, caption: str) -> Table:
    """Clusters down, routers across; JSQ only where it is not what the others are compared with."""
    compared = measure.metric == THROUGHPUT
    routers = [r for r in document.values(ROUTER) if r != BASELINE or not compared]
    lines = []
    for cluster in clusters():
        found = [at(document, measure.metric, cluster.name, str(router)) for router in routers]
        best = best_mean(found, measure.better)
        if any(estimate is not None for estimate in found):
            entries = [shown(estimate, measure.show, best=best) for estimate in found]
            lines.append(Line(title=cluster.title, entries=entries))
    return Table(
        title=title,
        corner="cluster",
        columns=[document.title_of(ROUTER, router) for router in routers],
        lines=lines,
        caption=caption,
    )


def _worth_table(document: GridDocument) -> Table:
    return Table(
        title="What knowing speeds is worth: throughput against the same router blind",
        corner="cluster",
        columns=[document.title_of(ROUTER, router) for router in knowing(document)],
        lines=[
            Line(
                title=cluster.title,
                entries=[_worth_entry(document, cluster.name, r) for r in knowing(document)],
            )
            for cluster in clusters()
        ],
        caption="On the same requests. Where speeds are equal there is nothing to know.",
    )


def _worth_entry(document: GridDocument, cluster: str, router: str) -> Entry:
    measured = worth(document, cluster, router)
    if measured is None:
        return NOTHING
    low, high = measured.ends
    return gain_entry(
        GridEstimate(
            mean=measured.value, low=None, high=None, values=[], ratio=measured.value,
            ratio_low=low, ratio_high=high,
        )
    )  # fmt: skip


def _slow_curve(document: GridDocument) -> Drawing:
    labels = [BASELINE, *(r + end for r in knowing(document) for end in (BLIND, ""))]
    return curves_drawing(
        [_curve(document, label) for label in labels],
        Sheet(
            name="slow-replica",
            title="One replica slower and slower",
            caption="Throughput over JSQ's where all replicas are alike. Without marks: blind to "
            "speed. Lines are 95 % intervals over seeds.",
            x_label="speed of the slow replica; the seven others run at 1",
            y_label="throughput / JSQ's, all alike",
            log_x=False,
            show=lambda value: f"{value:.2g}",
        ),
    )


def _curve(document: GridDocument, label: str) -> Curve:
    """Throughput over that of JSQ on equal replicas, by the speed of the slow one."""
    alike = at(document, THROUGHPUT, ALIKE, BASELINE)
    points = [
        (cluster.slow_speed, measured)
        for cluster in clusters()
        if cluster.slow_speed is not None
        and (measured := compare_seeds(at(document, THROUGHPUT, cluster.name, label), alike))
    ]
    ends = [measured.interval for _, measured in points]
    return Curve(
        title=document.title_of(ROUTER, label),
        colour=label_colour(label),
        xs=[speed for speed, _ in points],
        means=[measured.value for _, measured in points],
        lows=[None if end is None else end.low for end in ends],
        highs=[None if end is None else end.high for end in ends],
        dashed=label.endswith(BLIND),
    )


def _worth_map(document: GridDocument) -> Drawing:
    routers = knowing(document)
    shown = [cluster for cluster in clusters() if cluster.speeds_differ]
    grid = [[worth(document, cluster.name, router) for router in routers] for cluster in shown]
    gains = [[None if m is None else 100 * (m.value - 1) for m in line] for line in grid]
    return heat_drawing(
        HeatMap(
            name="worth",
            title="What knowing speeds is worth",
            caption="Change in throughput, %, against the same router blind to speed.",
            down="",
            across="",
            lines=[cluster.title for cluster in shown],
            columns=[_short(document, router) for router in routers],
            values=gains,
            texts=[[wording.NONE if g is None else f"{g:+.1f}" for g in line] for line in gains],
            colour=canvas.SCORE,
        )
    )


def _short(document: GridDocument, router: Value) -> str:
    return document.title_of(ROUTER, router).replace(" ", "\n")
