"""`study scaling`: imbalance, idle time and throughput as the number of replicas grows.

Beside the routers stand G independent replicas whose slots are always full: by Monte Carlo, and as
if their loads were normal, sigma_L * E[max of G standard normals], by exact order statistics.
"""

from collections.abc import Callable, Sequence

from brtheory.errors import InputError
from brtheory.simulation.workload import ClusterShape
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import Curve, Sheet, curves_drawing, label_colour
from brtheory.study.grid.contenders import Scale, configured, resolve_routers
from brtheory.study.grid.document import Entry, GridDocument, GridEstimate, Line, Table, Value
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis, run_cells
from brtheory.study.grid.study import View
from brtheory.study.grid.tables import (
    Measure,
    cross_table,
    gain_entry,
    percent_entry,
    tokens_entry,
)
from brtheory.study.grids.scaling_findings import find_growth
from brtheory.study.grids.scaling_fits import derive_fits
from brtheory.study.grids.scaling_names import (
    IDLE,
    INDEPENDENT,
    METRIC,
    NORMAL,
    REPLICAS,
    THROUGHPUT,
)
from brtheory.study.grids.settings import SATURATED, Setting
from brtheory.study.supply import WorkloadSupply
from brtheory.study.tasks import StationaryTask

ROUTERS = ("jsq", "least-tokens", "pool-fifo", "br0", "brh:horizon=auto", "window")
TURNS, LEAST_REQUESTS = 12, 4000
MOST_DRAWS = 2 * 10**7
"""Weights drawn for one number of replicas and seed: seconds, and still a tight mean."""
LEAST_TRIALS, MOST_TRIALS = 200, 2000
NOTES = (
    (
        "Requests grow with the cluster (12 a slot), so large G plays more of them; every G sees "
        "the same laws of lengths."
    ),
    (
        "Independent replicas are what routing that ignores tokens gives when slots are always "
        "full; exact order statistics take their loads as normal, which long prompts are not."
    ),
)


def sizes_up_to(largest: int) -> list[int]:
    """Powers of two from 2 to ``largest``.

    Raises
    ------
    InputError
        If there is none.
    """
    if largest < 2:
        raise InputError("--largest", "at least 2 replicas", largest)
    return [2**power for power in range(1, largest.bit_length())]


def scaling_plan(
    scale: Scale,
    *,
    workload: str = "azure-2023-conv",
    slots: int = 32,
    largest: int = 256,
    routers: Sequence[str] = ROUTERS,
) -> Plan:
    """Routers and independent replicas at G = 2, 4, .. up to ``largest``.

    Raises
    ------
    InputError
        If a name is unknown or a number out of range.
    """
    supply, sizes = WorkloadSupply(workload), sizes_up_to(largest)
    choices = resolve_routers(routers, supply.take(LEAST_REQUESTS, seed=0), slots=slots)
    cells: list[Cell] = []
    for replicas in sizes:
        shape = ClusterShape(replicas, slots)
        requests = scale.requests_for(shape, turns=TURNS, least=LEAST_REQUESTS)
        setting = Setting(name="", title="", supply=supply, shape=shape)
        for label, choice in choices.items():
            cells += run_cells(
                {REPLICAS: replicas, ROUTER: label},
                configured(setting.config(), choice),
                supply,
                requests=requests,
                seeds=scale.seeds,
            )
        cells += _law_cells(supply, shape, requests=requests, seeds=scale.seeds)
    titles: dict[Value, str] = {label: choice.title for label, choice in choices.items()}
    return Plan(
        name="scaling",
        title=f"Growth with the number of replicas: {workload}",
        question=(
            "What does each router lose at the barrier as data-parallel replicas are added, and "
            "how far is that from what independent replicas would lose?"
        ),
        axes=[
            axis(REPLICAS, "G", sizes),
            axis(ROUTER, "router", {**titles, INDEPENDENT: "independent loads"}),
        ],
        cells=cells,
        conditions={"slots": f"{slots} a replica", "arrivals": str(SATURATED)},
        notes=NOTES,
    )


def _law_cells(
    supply: WorkloadSupply, shape: ClusterShape, *, requests: int, seeds: int
) -> list[Cell]:
    trials = MOST_DRAWS // (shape.replicas * shape.slots)
    trials = max(LEAST_TRIALS, min(MOST_TRIALS, trials))
    return [
        Cell(
            labels={REPLICAS: shape.replicas, ROUTER: INDEPENDENT},
            task=StationaryTask(shape.replicas, shape.slots, trials, seed),
            supply=supply,
            requests=requests,
            seed=seed,
        )
        for seed in range(seeds)
    ]


def _tables(document: GridDocument) -> list[Table]:
    def table(measure: Measure, title: str, caption: str) -> Table:
        return cross_table(
            document, measure, down=ROUTER, across=REPLICAS, title=title, caption=caption
        )

    return [
        table(
            Measure(metric=METRIC, better="low", show=tokens_entry),
            "Imbalance per replica, tokens, by G",
            "Mean of max − mean load.",
        ),
        table(
            Measure(metric=IDLE, better="low", show=percent_entry),
            "Idle share of load-dependent work, by G",
            "The part of a step that grows with load; b0 left out.",
        ),
        table(
            Measure(metric=THROUGHPUT, better="high", show=gain_entry),
            "Throughput against JSQ, by G",
            "Change in tokens per second.",
        ),
        _fit_table(document),
    ]


def _fit_table(document: GridDocument) -> Table:
    names = ("exponent", "exponent_residual", "extremes_factor", "extremes_residual")
    return Table(
        title="Fits of imbalance per replica",
        corner="router",
        columns=["exponent p", "residual of G^p", "a, tokens", "residual of a·E_G"],
        lines=[
            Line(
                title=document.title_of(ROUTER, label),
                entries=[_fit_entry(document, name, label) for name in names],
            )
            for label in document.values(ROUTER)
        ],
        caption="E_G: expected maximum of G normals. Residuals: root mean square, relative.",
    )


def _fit_entry(document: GridDocument, name: str, label: Value) -> Entry:
    derived = document.derivation(name, {ROUTER: label})
    if derived is None:
        return Entry(text=wording.NONE)
    if name.endswith("residual"):
        return Entry(text=wording.percent(derived.value))
    digits = 0 if name == "extremes_factor" else 2
    ends = wording.interval(derived.low, derived.high, digits=digits)
    return Entry(text=f"{derived.value:,.{digits}f}", detail=ends)


def _draw(document: GridDocument) -> list[Drawing]:
    routers = [label for label in document.values(ROUTER) if label != INDEPENDENT]
    law = _curve(document, INDEPENDENT, METRIC, _tokens, title="independent loads")
    normal = _curve(document, INDEPENDENT, NORMAL, _tokens, title="order statistics")
    return [
        curves_drawing(
            [*(_curve(document, label, METRIC, _tokens) for label in routers), law, normal],
            Sheet(
                name="growth",
                title="Imbalance per replica",
                caption="Both axes logarithmic. Without marks: G independent replicas whose "
                "slots are always full, by Monte Carlo and by exact order statistics of "
                "normal loads.",
                x_label="replicas, G",
                y_label="imbalance / G, KV tokens",
                log_y=True,
            ),
        ),
        curves_drawing(
            [_curve(document, label, IDLE, _percent) for label in routers],
            Sheet(
                name="idle-growth",
                title="Idle at the barrier",
                caption="Share of the load-dependent work that G replicas could have done while "
                "the fullest one worked.",
                x_label="replicas, G",
                y_label="idle, %",
                show=lambda value: f"{value:.3g}",
            ),
        ),
        curves_drawing(
            [_curve(document, label, THROUGHPUT, _gain) for label in routers if label != BASELINE],
            Sheet(
                name="gain-growth",
                title="Throughput against JSQ",
                caption="Change in tokens per second on the same requests; lines are 95 % "
                "intervals over seeds.",
                x_label="replicas, G",
                y_label="change, %",
                show=lambda value: f"{value:+.3g}",
            ),
        ),
    ]


Reading = tuple[float | None, float | None, float | None]


def _tokens(estimate: GridEstimate) -> Reading:
    return estimate.mean, estimate.low, estimate.high


def _percent(estimate: GridEstimate) -> Reading:
    low, high = ((None if end is None else 100 * end) for end in (estimate.low, estimate.high))
    return 100 * estimate.mean, low, high


def _gain(estimate: GridEstimate) -> Reading:
    ends = (estimate.ratio, estimate.ratio_low, estimate.ratio_high)
    mean, low, high = (None if end is None else 100 * (end - 1) for end in ends)
    return mean, low, high


def _curve(
    document: GridDocument,
    label: Value,
    metric: str,
    read: Callable[[GridEstimate], Reading],
    *,
    title: str | None = None,
) -> Curve:
    """A router over G, or where a title is given a law, dashed."""
    points = [
        (int(replicas), mean, low, high)
        for replicas in document.values(REPLICAS)
        if (estimate := document.estimate(metric, {REPLICAS: replicas, ROUTER: label})) is not None
        for mean, low, high in [read(estimate)]
        if mean is not None
    ]
    law = title is not None
    return Curve(
        title=title or document.title_of(ROUTER, label),
        colour=canvas.THEORY if law else label_colour(str(label)),
        xs=[point[0] for point in points],
        means=[point[1] for point in points],
        lows=[point[2] for point in points],
        highs=[point[3] for point in points],
        dashed=law,
    )


SCALING = View(
    derive=derive_fits,
    tables=_tables,
    find=find_growth,
    draw=_draw,
    metrics=(METRIC, IDLE, THROUGHPUT, NORMAL),
)
