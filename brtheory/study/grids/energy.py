"""`study energy`: modelled joules per token by router.

An accelerator draws 100 + 300 * u^0.7 W, u the share of a step in which it works rather than waits
at the barrier (``brtheory.simulation.energy``). Waiting is cheaper than working but not free, and
because the exponent is below 1, evenly loaded accelerators draw more power for a shorter time.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from brtheory.simulation.energy import ACTIVE_W, EXPONENT, IDLE_W
from brtheory.simulation.spec import ArrivalSpec
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.figures.bars import Bar, bar_drawing
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.curves import label_colour
from brtheory.study.grid.contenders import Scale, routers_axis, told_truth
from brtheory.study.grid.document import (
    Derived,
    Entry,
    GridDocument,
    GridEstimate,
    Table,
    Value,
)
from brtheory.study.grid.plan import ROUTER, Plan, axis
from brtheory.study.grid.study import View
from brtheory.study.grid.tables import Measure, cross_table, gain_entry, half_width
from brtheory.study.grids.settings import (
    SATURATED,
    SETTING,
    embedded_settings,
    setting_cells,
    setting_routers,
)
from brtheory.study.results import Finding

WORKLOADS = ("azure-2023-conv", "reasoning-r1", "proprietary-surrogate", "mooncake-conversation")
ROUTERS = (
    "random", "jsq", "least-tokens", "pool-fifo", "br0", "brh:horizon=auto", "window",
)  # fmt: skip
LOADS = {str(SATURATED): SATURATED, "open:rho=0.8": ArrivalSpec("rho", 0.8)}
ARRIVALS = "arrivals"
METRIC = "energy_model_j_per_token"
J_PER_KWH = 3.6e6
NOTES = (
    (
        "Energy is modelled, not measured. Steps that are not executed (nothing to decode) cost "
        "nothing, so at open arrivals the idle time between bursts is not charged; and a router "
        "that makes steps longer has more requests share one, which saves energy and costs time."
    ),
    (
        "Ratios compare routers on the same requests and depend on the power model: the more an "
        "accelerator draws while it waits, the more balance saves."
    ),
)


def energy_plan(
    scale: Scale, *, workloads: Sequence[str] = WORKLOADS, routers: Sequence[str] = ROUTERS
) -> Plan:
    """Workloads x two loads x routers.

    Raises
    ------
    InputError
        If a workload or router is unknown.
    """
    settings = embedded_settings(workloads)
    cells = [
        cell
        for setting in settings
        for name, arrivals in LOADS.items()
        for cell in setting_cells(
            replace(setting, arrivals=arrivals), routers, scale, **{ARRIVALS: name}
        )
    ]
    return Plan(
        name="energy",
        title="Energy per token by router",
        question=(
            "How many joules does a token take, if an accelerator that waits at the barrier draws "
            f"less than one that works? Modelled: {IDLE_W:g} + {ACTIVE_W:g} × u^{EXPONENT:g} W per "
            "accelerator, one a replica, u the share of a step in which it works."
        ),
        axes=[
            axis(SETTING, "requests", {s.name: s.title for s in settings}),
            axis(ARRIVALS, "arrivals", list(LOADS)),
            routers_axis(setting_routers(settings[0], routers, scale)),
        ],
        cells=cells,
        conditions={"cluster": "8 replicas × 32 slots", "step": "0.02 s + 0.15 µs per token"},
        notes=NOTES,
    )


def _joules(estimate: GridEstimate) -> Entry:
    return Entry(text=f"{estimate.mean:.3g} J", detail=_joules_width(estimate))


def _joules_width(estimate: GridEstimate) -> str:
    return half_width(estimate, scale=1, digits=4)


def _tables(document: GridDocument) -> list[Table]:
    measures = [
        (str(SATURATED), _joules, "Modelled joules per token"),
        *((load, gain_entry, "Change against JSQ in joules per token") for load in LOADS),
    ]
    return [
        cross_table(
            document,
            Measure(metric=METRIC, better="low", show=show),
            down=ROUTER,
            across=SETTING,
            fixed={ARRIVALS: load},
            title=f"{what}, {load}",
            caption="Less is better.",
        )
        for load, show, what in measures
    ]


def _derive(document: GridDocument) -> list[Derived]:
    """Energy a million tokens saves against JSQ, in kWh, for every cell but JSQ's own."""
    derived = []
    for summary in document.summaries:
        estimate = summary.metrics.get(METRIC)
        if estimate is None or not estimate.ratio or summary.labels[ROUTER] == BASELINE:
            continue
        saved = estimate.mean / estimate.ratio - estimate.mean
        derived.append(
            Derived(
                name="saved_kwh_per_million_tokens",
                labels=summary.labels,
                value=saved * 1e6 / J_PER_KWH,
                unit="kWh",
                source="modelled energy per token of JSQ less that of the router",
            )
        )
    return derived


def _find(document: GridDocument) -> list[Finding]:
    return [finding for load in LOADS if (finding := _best(document, load)) is not None] + (
        _against_time(document)
    )


def _best(document: GridDocument, load: str) -> Finding | None:
    """The router that saves most without knowing output lengths, averaged over the requests."""
    means = {
        label: np.mean(ratios)
        for label in document.values(ROUTER)
        if label != BASELINE
        and not told_truth(str(label))
        and (ratios := _ratios(document, label, load))
    }
    if not means:
        return None
    best = min(means, key=lambda label: means[label])
    ratios = _ratios(document, best, load)
    text = (
        f"At {load} the least energy without knowledge of output lengths is that of "
        f"{document.title_of(ROUTER, best)}: {100 * (np.mean(ratios) - 1):+.1f} % against JSQ on "
        f"average over {len(ratios)} workloads, from {100 * (min(ratios) - 1):+.1f} % to "
        f"{100 * (max(ratios) - 1):+.1f} %."
    )
    window = means.get("window")
    if window is not None and best != "window":
        text += f" Window's is {100 * (window - 1):+.1f} % on average."
    return Finding(kind="energy", text=text)


def _against_time(document: GridDocument) -> list[Finding]:
    """How much of the time won shows as energy."""
    pairs = [
        (1 - 1 / throughput.ratio, 1 - energy.ratio)
        for summary in document.having({ARRIVALS: str(SATURATED), ROUTER: "window"})
        if (energy := summary.metrics.get(METRIC)) is not None
        and (throughput := summary.metrics.get("throughput_tokens_per_s")) is not None
        and energy.ratio
        and throughput.ratio
    ]
    if not pairs:
        return []
    time, energy_saved = (float(np.mean(column)) for column in zip(*pairs, strict=True))
    text = (
        f"A token of Window takes {wording.percent(time)} less time than one of JSQ and "
        f"{wording.percent(energy_saved)} less energy, on average over workloads: an accelerator "
        f"that waits already draws less, so balance saves less energy than time."
    )
    return [Finding(kind="energy-time", text=text)] if 0 < energy_saved < time else []


def _ratios(document: GridDocument, label: Value, load: str) -> list[float]:
    return [
        estimate.ratio
        for summary in document.having({ARRIVALS: load, ROUTER: label})
        if (estimate := summary.metrics.get(METRIC)) is not None and estimate.ratio is not None
    ]


def _draw(document: GridDocument) -> list[Drawing]:
    return [_bars(document, setting) for setting in document.values(SETTING)]


def _bars(document: GridDocument, setting: Value) -> Drawing:
    bars = []
    for label in document.values(ROUTER):
        labels = {SETTING: setting, ARRIVALS: str(SATURATED), ROUTER: label}
        estimate = document.estimate(METRIC, labels)
        if estimate is not None:
            colour, title = label_colour(str(label)), document.title_of(ROUTER, label)
            text = f"{estimate.mean:.3g}"
            bars.append(Bar(title, estimate.mean, estimate.low, estimate.high, text, colour))
    title = document.title_of(SETTING, setting)
    return bar_drawing(
        bars,
        name=f"energy-{setting}",
        title=f"Energy per token, {title}",
        axis="modelled joules per token",
        caption=f"{SATURATED}; shorter is better. Lines are 95 % intervals over seeds.",
    )


ENERGY = View(
    derive=_derive,
    tables=_tables,
    find=_find,
    draw=_draw,
    metrics=(METRIC, "throughput_tokens_per_s"),
)
