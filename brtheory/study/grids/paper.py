"""`study tables`: the paper's two tables on surrogates of its traces, reported beside measured.

What is comparable are ratios to JSQ: the paper gives neither its step-time constants nor its number
of slots, so absolute figures depend on a choice made here (the companion simulator's).
"""

from collections.abc import Sequence
from dataclasses import replace

from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import label_colour
from brtheory.study.figures.pairs import Pair, PairSheet, pairs_drawing
from brtheory.study.grid.contenders import Scale, routers_axis
from brtheory.study.grid.document import (
    Derived,
    Entry,
    GridDocument,
    Line,
    Table,
)
from brtheory.study.grid.plan import ROUTER, Plan, axis
from brtheory.study.grid.study import View
from brtheory.study.grid.tables import (
    NOTHING,
    Show,
    change,
    gain_entry,
    milliseconds_entry,
    ratio_entry,
    shown,
    tokens_entry,
)
from brtheory.study.grids.paper_figures import (
    AZURE,
    EXACT_MATCH_H80,
    ORACLE_H80,
    PAPER,
    PROPRIETARY,
    SURVIVAL_H80,
    reported_numbers,
)
from brtheory.study.grids.paper_findings import find_agreement
from brtheory.study.grids.paper_keys import (
    GROWTH_ROUTERS,
    IMBALANCE,
    REPLICAS,
    SLOTS,
    THROUGHPUT,
    Key,
    labels_of,
    reported_ratio,
)
from brtheory.study.grids.settings import (
    SATURATED,
    SETTING,
    Setting,
    setting_cells,
    setting_routers,
)
from brtheory.study.supply import WorkloadSupply

STEP_TIME = StepTime(a0=1.005e-7, b0=9.775e-3)
"""The companion paper's simulator: B = 72, 9.775 ms + 0.1005 us per token."""
METRICS = (
    IMBALANCE,
    THROUGHPUT,
    "tpot_p95_s",
    "barrier_time_fraction",
    "barrier_idle_fraction",
)
LEAST_REQUESTS = 8000
"""Requests of the paper's private trace."""
TURNS = 12
MAIN_ROUTERS = (
    "random", "round-robin", "p2c", "jsq", "least-tokens", "br0", SURVIVAL_H80, ORACLE_H80,
    "window",
)  # fmt: skip
SHOWN = (*MAIN_ROUTERS[:-2], EXACT_MATCH_H80, *MAIN_ROUTERS[-2:])
"""Exact match is shown as reported only: generated prompts never repeat."""
GROWTH = (4, 8, 16)
TITLES = {PROPRIETARY: "private trace (surrogate)", AZURE: "Azure 2024, long outputs (surrogate)"}
NOTES = (
    (
        "Reported figures are the paper's, measured on hardware and its own traces; measured ones "
        "are simulated on generated requests with the published mean lengths. Compare ratios to "
        "JSQ, not absolute figures."
    ),
    (
        "Generated prompts never repeat, so exact match could only fall back to survival here and "
        "is shown as reported. Least tokens and Window are not in the paper."
    ),
)


def paper_plan(scale: Scale) -> Plan:
    """Both workloads at G = 8, and the private one at G = 4 and 16 for the growth."""
    cells = []
    for name in TITLES:
        for replicas in GROWTH if name == PROPRIETARY else (8,):
            setting = _setting(name, replicas, scale)
            routers = MAIN_ROUTERS if replicas == 8 else GROWTH_ROUTERS
            cells += setting_cells(setting, routers, scale, **{REPLICAS: replicas})
    choices = setting_routers(_setting(PROPRIETARY, 8, scale), SHOWN, scale)
    return Plan(
        name="tables",
        title="The paper's two tables, reported beside measured",
        question=(
            "How much of the paper's tables does a model reproduce in which a step lasts as long "
            "as its fullest replica needs, and nothing else differs between routers?"
        ),
        axes=[
            axis(SETTING, "requests", TITLES),
            axis(REPLICAS, "G", GROWTH),
            routers_axis(choices),
        ],
        cells=cells,
        conditions={
            "slots": f"{SLOTS} a replica, as in the companion paper's simulator",
            "step": f"{STEP_TIME.b0 * 1e3:g} ms + {STEP_TIME.a0 * 1e6:g} µs per token, as there",
            "arrivals": str(SATURATED),
        },
        notes=NOTES,
    )


def _setting(name: str, replicas: int, scale: Scale) -> Setting:
    shape = ClusterShape(replicas, SLOTS)
    setting = Setting(
        name=name,
        title=TITLES[name],
        supply=WorkloadSupply(name),
        shape=shape,
        step_time=STEP_TIME,
    )
    return replace(setting, requests=scale.requests_for(shape, turns=TURNS, least=LEAST_REQUESTS))


def _derive(document: GridDocument) -> list[Derived]:
    """The reported figures, and the most any router could gain in this model."""
    derived = list(reported_numbers())
    for summary in document.having({ROUTER: BASELINE}):
        for name, metric in (
            ("throughput_ceiling", "barrier_time_fraction"),
            ("throughput_ceiling_without_b0", "barrier_idle_fraction"),
        ):
            lost = summary.metrics.get(metric)
            if lost is not None and lost.mean < 1:
                derived.append(
                    Derived(
                        name=name,
                        labels=summary.labels,
                        value=1 / (1 - lost.mean) - 1,
                        unit="share",
                        source=f"1 / (1 - {metric} of JSQ) - 1: all waiting gone, nothing else",
                    )
                )
    return derived


def _tables(document: GridDocument) -> list[Table]:
    comparison = [
        _table(
            document,
            [(str(setting), 8, router) for router in SHOWN],
            title=f"G = 8, {document.title_of(SETTING, setting)}",
            by_size=False,
        )
        for setting in document.values(SETTING)
    ]
    growth = [(PROPRIETARY, replicas, router) for replicas in GROWTH for router in GROWTH_ROUTERS]
    title = f"Growth with G, {document.title_of(SETTING, PROPRIETARY)}"
    return [*comparison, _table(document, growth, title=title, by_size=True)]


def _table(document: GridDocument, keys: Sequence[Key], *, title: str, by_size: bool) -> Table:
    return Table(
        title=title,
        corner="router",
        columns=[
            "imbalance reported", "imbalance measured", "× JSQ reported", "× JSQ measured",
            "tokens/s reported", "tokens/s measured", "TPOT P95 reported", "TPOT P95 measured",
        ],
        lines=[_line(document, key, by_size=by_size) for key in keys],
        caption="tokens/s: change against JSQ. Reported: as reported by the paper.",
    )  # fmt: skip


def _line(document: GridDocument, key: Key, *, by_size: bool) -> Line:
    _, replicas, router = key
    title = document.title_of(ROUTER, router)
    measured = [
        _measured(document, key, metric, show)
        for metric, show in (
            (IMBALANCE, tokens_entry),
            (IMBALANCE, ratio_entry),
            (THROUGHPUT, gain_entry),
            ("tpot_p95_s", milliseconds_entry),
        )
    ]
    entries = [entry for pair in zip(_reported(key), measured, strict=True) for entry in pair]
    return Line(title=f"G = {replicas}: {title}" if by_size else title, entries=entries)


def _reported(key: Key) -> list[Entry]:
    figures, base = PAPER.get(key), PAPER[key[0], key[1], BASELINE]
    if figures is None:
        return [NOTHING] * 4
    texts = (
        wording.tokens(figures.imbalance_mean_tokens),
        wording.ratio(figures.imbalance_mean_tokens / base.imbalance_mean_tokens),
        f"{change(figures.throughput_tokens_per_s / base.throughput_tokens_per_s)} %",
        wording.milliseconds(figures.tpot_p95_s),
    )
    return [Entry(text=text) for text in texts]


def _measured(document: GridDocument, key: Key, metric: str, show: Show) -> Entry:
    return shown(document.estimate(metric, labels_of(key)), show, best=None)


def _draw(document: GridDocument) -> list[Drawing]:
    return [
        drawing
        for setting in document.values(SETTING)
        for drawing in (
            _pairs(document, str(setting), IMBALANCE),
            _pairs(document, str(setting), THROUGHPUT),
        )
    ]


def _pairs(document: GridDocument, setting: str, metric: str) -> Drawing:
    """Ratios to JSQ of one metric at G = 8."""
    pairs = []
    for router in MAIN_ROUTERS:
        key = (setting, 8, router)
        estimate = document.estimate(metric, labels_of(key))
        if router == BASELINE or estimate is None:
            continue
        ends = (estimate.ratio, estimate.ratio_low, estimate.ratio_high)
        told = reported_ratio(key, metric) if key in PAPER else None
        measured, low, high = (_scaled(end, metric) for end in ends)
        pairs.append(
            Pair(
                title=document.title_of(ROUTER, router),
                reported=_scaled(told, metric),
                measured=measured,
                low=low,
                high=high,
                colour=label_colour(router),
            )
        )
    what, axis_title = (
        ("Imbalance", "imbalance, ratio to JSQ")
        if metric == IMBALANCE
        else ("Throughput", "change in tokens/s against JSQ, %")
    )
    sheet = PairSheet(
        name=f"{what.lower()}-{setting}",
        title=f"{what}, {document.title_of(SETTING, setting)}",
        caption="G = 8. Hollow: as reported by the paper. Filled: measured here, 95 % intervals.",
        axis=axis_title,
        log=metric == IMBALANCE,
    )
    return pairs_drawing(pairs, sheet)


def _scaled(ratio: float | None, metric: str) -> float | None:
    """Ratios of imbalance as they are, those of throughput as changes in percent."""
    if ratio is None or metric == IMBALANCE:
        return ratio
    return 100 * (ratio - 1)


PAPER_TABLES = View(
    derive=_derive, tables=_tables, find=find_agreement, draw=_draw, metrics=METRICS
)
