"""`study scenarios`: every router on every kind of requests, saturated and at 80 % load.

Its tables and its recommendation, which router when, are RESULTS.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from brtheory.errors import InputError
from brtheory.simulation.spec import ArrivalSpec
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.heat import HeatMap, heat_drawing
from brtheory.study.grid.contenders import Scale, routers_axis
from brtheory.study.grid.document import GridDocument, Table, Value
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis
from brtheory.study.grid.study import View
from brtheory.study.grid.tables import (
    Measure,
    cross_table,
    gain_entry,
    milliseconds_entry,
    ratio_entry,
    seconds_entry,
    tokens_entry,
)
from brtheory.study.grids.settings import (
    EMBEDDED,
    SATURATED,
    SETTING,
    Setting,
    cluster_text,
    embedded_settings,
    scenario_settings,
    setting_cells,
    setting_routers,
)
from brtheory.study.grids.which_router import ARRIVALS, IMBALANCE, LIGHT, THROUGHPUT, recommend
from brtheory.traces.scenarios import SCENARIOS

ROUTERS = (
    "random", "round-robin", "p2c", "jsq", "engine-score", "least-tokens", "pool-fifo", "br0",
    "brh:horizon=80", "brh:horizon=auto", "bf-io", "window",
)  # fmt: skip
LIGHT_ROUTERS = ("jsq", "least-tokens", "pool-fifo", "br0", "brh:horizon=auto", "window")
NAMES = (*SCENARIOS, *EMBEDDED)
LIGHT_LOAD = ArrivalSpec("rho", 0.8)
METRICS = (
    IMBALANCE,
    THROUGHPUT,
    "tpot_p95_s",
    "wait_p50_s",
    "wait_p99_s",
    "wait_max_s",
)
NOTES = (
    (
        "Generated requests: S1 to S4 are lognormal laws that each make one thing hard (S1 long "
        "and widely spread prompts, S2 long outputs, S3 long outputs on 10 slots, S4 short outputs "
        "on 64 slots); the others follow published statistics of real traces."
    ),
    (
        "BR-H (oracle) is told true output lengths: a bound, not a router to deploy. With a "
        "predictor it does less well: see the paper's tables."
    ),
    (
        "BF-IO is the companion paper's rule as its authors published it as a program, with their "
        "settings, and is told true output lengths too: it fills free slots so that the sum of "
        "prompts is the largest within the smallest margin of a horizon in which completions alone "
        "change the loads."
    ),
)


def scenario_plan(
    scale: Scale, *, names: Sequence[str] = NAMES, routers: Sequence[str] = ROUTERS
) -> Plan:
    """Scenarios and embedded workloads x routers, at both loads.

    Parameters
    ----------
    scale
        Seeds and requests.
    names
        Scenarios (``s1`` .. ``s4``) and embedded workloads.
    routers
        As in a study.

    Raises
    ------
    InputError
        If a name is unknown.
    """
    settings = settings_named(names)
    light = [router for router in routers if router in LIGHT_ROUTERS]
    cells: list[Cell] = []
    for setting in settings:
        cells += setting_cells(setting, routers, scale, **{ARRIVALS: str(SATURATED)})
        calm = replace(setting, arrivals=LIGHT_LOAD)
        cells += setting_cells(calm, light, scale, **{ARRIVALS: LIGHT})
    return Plan(
        name="scenarios",
        title="Which router when",
        question=(
            "Every router on every kind of requests: what is left of JSQ's imbalance, what it does "
            "to throughput, and what it costs in waiting."
        ),
        axes=[
            axis(SETTING, "requests", {s.name: s.title for s in settings}),
            axis(ARRIVALS, "arrivals", [str(SATURATED), LIGHT]),
            routers_axis(setting_routers(settings[0], routers, scale)),
        ],
        cells=cells,
        conditions={setting.title: cluster_text(setting) for setting in settings},
        notes=NOTES,
    )


def settings_named(names: Sequence[str]) -> list[Setting]:
    """Scenarios and embedded workloads by name, in the order given.

    Raises
    ------
    InputError
        If there is none.
    """
    if not names:
        raise InputError("--on", "at least one scenario or workload", "none")
    settings: list[Setting] = []
    for name in names:
        settings += scenario_settings([name]) if name in SCENARIOS else embedded_settings([name])
    return settings


def _tables(document: GridDocument) -> list[Table]:
    saturated: dict[str, Value] = {ARRIVALS: str(SATURATED)}
    light: dict[str, Value] = {ARRIVALS: LIGHT}

    def table(measure: Measure, fixed: dict[str, Value], title: str, caption: str) -> Table:
        return cross_table(
            document, measure, down=ROUTER, across=SETTING, fixed=fixed, title=title,
            caption=caption,
        )  # fmt: skip

    ratio = Measure(metric=IMBALANCE, better="low", show=ratio_entry)
    return [
        table(ratio, saturated, f"Imbalance as a ratio to JSQ, {SATURATED}", "Less is better."),
        table(
            Measure(metric=THROUGHPUT, better="high", show=gain_entry),
            saturated,
            f"Throughput against JSQ, {SATURATED}",
            "Change in tokens per second.",
        ),
        table(
            Measure(metric="wait_p99_s", better="low", show=seconds_entry),
            saturated,
            f"Wait P99, {SATURATED}",
            "From ready to admission, a replica's own queue included.",
        ),
        table(
            Measure(metric=IMBALANCE, better="low", show=tokens_entry),
            saturated,
            f"Imbalance in KV tokens, {SATURATED}",
            "Mean over steps of G × max − sum.",
        ),
        table(ratio, light, f"Imbalance as a ratio to JSQ, {LIGHT}", "Less is better."),
        table(
            Measure(metric="tpot_p95_s", better="low", show=milliseconds_entry),
            light,
            f"Time per output token P95, {LIGHT}",
            "At light load throughput is what arrives; a token's time is what differs.",
        ),
    ]


def _draw(document: GridDocument) -> list[Drawing]:
    return [_heat(document, str(SATURATED), "saturated"), _heat(document, LIGHT, "light")]


def _heat(document: GridDocument, arrivals: str, name: str) -> Drawing:
    """Settings x the routers that look at tokens or pool: what is left of JSQ's imbalance."""
    labels = [label for label in document.values(ROUTER) if label in LIGHT_ROUTERS[1:]]
    settings = document.values(SETTING)
    ratios = [
        [_ratio(document, {SETTING: setting, ARRIVALS: arrivals, ROUTER: r}) for r in labels]
        for setting in settings
    ]
    return heat_drawing(
        HeatMap(
            name=f"imbalance-{name}",
            title=f"What is left of JSQ's imbalance, {arrivals}",
            caption="Ratio of mean imbalance to JSQ's. Darker: more of it is gone.",
            down="",
            across="",
            lines=[document.title_of(SETTING, setting) for setting in settings],
            columns=[document.title_of(ROUTER, label) for label in labels],
            values=[[None if r is None else 1 - r for r in line] for line in ratios],
            texts=[["–" if r is None else f"{r:.2f}" for r in line] for line in ratios],
            colour=canvas.SCORE,
        )
    )


def _ratio(document: GridDocument, labels: Mapping[str, Value]) -> float | None:
    estimate = document.estimate(IMBALANCE, labels)
    return None if estimate is None else estimate.ratio


SCENARIO_VIEW = View(tables=_tables, find=recommend, draw=_draw, metrics=METRICS)
