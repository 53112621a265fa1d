"""`study ablation`: one thing at a time away from the defaults, and what that does.

Every change is compared with the same router at its defaults on the same requests, so ratios are
paired by seed. The plain routers stand beside them: from one to the next, what is added is counting
tokens, the pool, the score, and the horizon.
"""

from collections.abc import Mapping
from dataclasses import replace

from brtheory.simulation.run import RunConfig
from brtheory.study.grid.contenders import Scale, configured, resolve_router, routers_axis
from brtheory.study.grid.document import Baseline, Value
from brtheory.study.grid.plan import ROUTER, Cell, Plan, axis, run_cells
from brtheory.study.grid.study import View
from brtheory.study.grids.ablation_changes import (
    CHANGE,
    DEFAULT,
    LADDER,
    SURVIVAL,
    TRANSFER_S,
    TRANSFER_S_PER_TOKEN,
    Change,
    all_changes,
)
from brtheory.study.grids.ablation_findings import find_ablation
from brtheory.study.grids.ablation_view import METRICS, ablation_tables, draw_ablation
from brtheory.study.grids.settings import (
    SATURATED,
    SETTING,
    Setting,
    cluster_text,
    embedded_settings,
)

WORKLOADS = ("azure-2023-conv", "proprietary-surrogate")
TURNS = 12
NOTES = (
    (
        "BR-H (oracle) is told true output lengths: what prediction can give at best. The oracle's "
        "probabilities are 0 or 1, so the gate is varied under the survival predictor."
    ),
    (
        f"KV transfer takes {TRANSFER_S:g} s and {1e6 * TRANSFER_S_PER_TOKEN:g} µs a prompt token; "
        f"the slot is held meanwhile. While waiting: it starts when the request is ready, and only "
        f"what is left of it delays the first token."
    ),
    "α is not varied: scores depend on α / β alone, up to the fixed point.",
)


def ablation_plan(scale: Scale) -> Plan:
    """Both workloads x routers at their defaults and with every change that concerns them."""
    settings = [
        replace(setting, requests=scale.requests_for(setting.shape, turns=TURNS))
        for setting in embedded_settings(WORKLOADS)
    ]
    cells: list[Cell] = []
    for setting in settings:
        for router in (*LADDER, SURVIVAL):
            labels = {ROUTER: router, CHANGE: DEFAULT}
            cells += _cells(setting, labels, scale, text=router, config=setting.config())
        for change in all_changes():
            cells += _changed(setting, change, scale)
    trace = settings[0].supply.take(settings[0].requests_at(scale), seed=0)
    choices = {
        text: resolve_router(text, trace, slots=settings[0].shape.slots)
        for text in (*LADDER, SURVIVAL)
    }
    titles = {change.name: change.title for change in all_changes()}
    return Plan(
        name="ablation",
        title="What each part is worth",
        question=(
            "Which settings of BR-0 and BR-H matter, which do not, and what do the pool, the "
            "score, the horizon, predictions and an overlapped KV transfer add? One thing at a "
            "time is changed."
        ),
        axes=[
            axis(SETTING, "requests", {s.name: s.title for s in settings}),
            routers_axis(choices),
            axis(CHANGE, "change", {DEFAULT: "defaults", **titles}),
        ],
        cells=cells,
        baseline=Baseline(axis=CHANGE, value=DEFAULT),
        conditions={s.title: f"{cluster_text(s)}, {SATURATED}" for s in settings},
        notes=NOTES,
    )


def _changed(setting: Setting, change: Change, scale: Scale) -> list[Cell]:
    config = replace(setting.config(), perturbation=change.perturbation, transfer=change.transfer)
    return [
        cell
        for router in change.routers
        for cell in _cells(
            setting,
            {ROUTER: router, CHANGE: change.name},
            scale,
            text=change.router_text(router),
            config=config,
        )
    ]


def _cells(
    setting: Setting, labels: Mapping[str, Value], scale: Scale, *, text: str, config: RunConfig
) -> list[Cell]:
    """Runs of the router ``text``, whatever router the labels count it to."""
    requests = setting.requests_at(scale)
    trace = setting.supply.take(requests, seed=0)
    return run_cells(
        {SETTING: setting.name, **labels},
        configured(config, resolve_router(text, trace, slots=setting.shape.slots)),
        setting.supply,
        requests=requests,
        seeds=scale.seeds,
    )


ABLATION = View(tables=ablation_tables, find=find_ablation, draw=draw_ablation, metrics=METRICS)
