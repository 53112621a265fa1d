"""Tables and figures of `study ablation`."""

from brtheory.study import wording
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import Curve, Sheet, curves_drawing
from brtheory.study.figures.ratios import Ratio, RatioSheet, ratios_drawing
from brtheory.study.grid.document import Entry, GridDocument, GridEstimate, Line, Table, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import (
    NOTHING,
    Measure,
    compare_seeds,
    gain_entry,
    measured_text,
    ratio_entry,
    shown,
)
from brtheory.study.grids.ablation_changes import (
    CHANGE,
    DEFAULT,
    LADDER,
    ORACLE,
    Change,
    Group,
    change_groups,
)
from brtheory.study.grids.settings import SETTING

IMBALANCE, THROUGHPUT = "imbalance_mean_tokens", "throughput_tokens_per_s"
LONGEST_WAIT = "wait_max_s"
METRICS = (IMBALANCE, THROUGHPUT, "wait_p99_s", LONGEST_WAIT)
TICK = "tick"


def estimate_of(
    document: GridDocument, metric: str, setting: Value, router: str, change: str = DEFAULT
) -> GridEstimate | None:
    """One number of one router, with or without a change."""
    labels = {SETTING: setting, ROUTER: router, CHANGE: change}
    return document.estimate(metric, labels)


def ablation_tables(document: GridDocument) -> list[Table]:
    """The ladder of routers, then every group of changes."""
    *settings, transfer = change_groups()
    balance = Measure(metric=IMBALANCE, better="low", show=ratio_entry)
    waiting = Measure(metric=LONGEST_WAIT, better="low", show=ratio_entry)
    throughput = Measure(metric=THROUGHPUT, better="high", show=gain_entry)
    return [
        _ladder(document),
        *(_group_table(document, group, balance, what="Imbalance") for group in settings),
        _group_table(document, settings[0], waiting, what="Longest wait"),
        _group_table(document, transfer, throughput, what="Throughput"),
    ]


def draw_ablation(document: GridDocument) -> list[Drawing]:
    """Ratios of every group and workload, and the horizon as a curve."""
    *groups, _ = change_groups()
    ratios = [
        _ratios(document, group, setting)
        for setting in document.values(SETTING)
        for group in groups
    ]
    return [*ratios, _horizon_curve(document)]


def _group_table(document: GridDocument, group: Group, measure: Measure, *, what: str) -> Table:
    """Changes of a group down, workloads and the routers concerned across."""
    columns = [
        (setting, router)
        for setting in document.values(SETTING)
        for router in document.values(ROUTER)
        if any(router in change.routers for change in group.changes)
    ]
    return Table(
        title=f"{what}: {group.title}",
        corner="change",
        columns=[
            f"{document.title_of(SETTING, setting)}: {document.title_of(ROUTER, router)}"
            for setting, router in columns
        ],
        lines=[
            Line(
                title=change.title,
                entries=[
                    shown(
                        estimate_of(document, measure.metric, setting, str(router), change.name),
                        measure.show,
                        best=None,
                    )
                    for setting, router in columns
                ],
            )
            for change in group.changes
        ],
        caption="Against the same router at its defaults, on the same requests.",
    )


def _ladder(document: GridDocument) -> Table:
    """Routers at their defaults; each line against the one above it."""
    settings = document.values(SETTING)
    pairs = list(zip((None, *LADDER), LADDER, strict=False))
    return Table(
        title="Imbalance at the defaults, and against the line above",
        corner="router",
        columns=[document.title_of(SETTING, setting) for setting in settings],
        lines=[
            Line(
                title=document.title_of(ROUTER, router),
                entries=[_step(document, setting, router, above) for setting in settings],
            )
            for above, router in pairs
        ],
        caption="KV tokens, mean over steps of G × max − sum; below it the ratio to the line above "
        "on the same requests.",
    )


def _step(document: GridDocument, setting: Value, router: str, above: str | None) -> Entry:
    estimate = estimate_of(document, IMBALANCE, setting, router)
    if estimate is None:
        return NOTHING
    before = None if above is None else estimate_of(document, IMBALANCE, setting, above)
    measured = compare_seeds(estimate, before)
    detail = "" if measured is None else f"× {measured_text(measured)}"
    return Entry(text=wording.tokens(estimate.mean), detail=detail)


def _ratios(document: GridDocument, group: Group, setting: Value) -> Drawing:
    ratios = [
        ratio
        for change in group.changes
        for router in change.routers
        if (ratio := _ratio(document, change, setting, router)) is not None
    ]
    return ratios_drawing(
        ratios,
        RatioSheet(
            name=f"{group.name}-{setting}",
            title=f"{group.title.capitalize()}, {document.title_of(SETTING, setting)}",
            caption="1 is the same router at its defaults; left is better. Lines are 95 % "
            "intervals over seeds.",
            axis="imbalance / at the defaults",
        ),
    )


def _ratio(document: GridDocument, change: Change, setting: Value, router: str) -> Ratio | None:
    estimate = estimate_of(document, IMBALANCE, setting, router, change.name)
    if estimate is None or not estimate.ratio:
        return None
    short = document.title_of(ROUTER, router).partition(",")[0].replace(" (", " ")
    return Ratio(
        title=f"{change.title}, {short}",
        value=estimate.ratio,
        low=estimate.ratio_low,
        high=estimate.ratio_high,
        colour=canvas.ORACLE if router == ORACLE else canvas.SCORE,
    )


def horizons(document: GridDocument, setting: Value) -> dict[int, GridEstimate]:
    """Imbalance of BR-H (oracle) by fixed horizon, ascending; 80 is the default."""
    names = {80: DEFAULT} | {
        int(change.name.removeprefix("horizon="))
        : change.name
        for group in change_groups()
        for change in group.changes
        if change.name.startswith("horizon=") and change.name.removeprefix("horizon=").isdigit()
    }  # fmt: skip
    found = {
        steps: estimate_of(document, IMBALANCE, setting, ORACLE, name)
        for steps, name in sorted(names.items())
    }
    return {steps: estimate for steps, estimate in found.items() if estimate is not None}


def _horizon_curve(document: GridDocument) -> Drawing:
    curves = [
        Curve(
            title=document.title_of(SETTING, setting),
            colour=colour,
            xs=[float(steps) for steps in found],
            means=[estimate.mean for estimate in found.values()],
            lows=[estimate.low for estimate in found.values()],
            highs=[estimate.high for estimate in found.values()],
        )
        for setting, colour in zip(
            document.values(SETTING), (canvas.SCORE, canvas.BASELINE), strict=False
        )
        if (found := horizons(document, setting))
    ]
    return curves_drawing(
        curves,
        Sheet(
            name="horizon",
            title="BR-H (oracle) by horizon",
            caption="H = 0 is BR-0. Lines are 95 % intervals over seeds.",
            x_label="H, steps looked ahead",
            y_label="imbalance, KV tokens",
            log_x=False,
            log_y=True,
        ),
    )
