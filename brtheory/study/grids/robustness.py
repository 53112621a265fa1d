"""`study robustness`: how routers degrade as what they are told, or what arrives, gets worse.

Nine kinds of trouble (``robustness_errors``), each from nothing to a lot. Two questions at every
size: is the router still better than JSQ in the same trouble, and how much worse is it than itself
without any?
"""

from dataclasses import replace

from brtheory.study.choices import BASELINE
from brtheory.study.grid.contenders import Scale, configured, resolve_routers, routers_axis
from brtheory.study.grid.plan import ROUTER, Plan, axis, run_cells
from brtheory.study.grid.study import View
from brtheory.study.grids.robustness_errors import KIND, KINDS, ROUTERS, SIZE, all_sizes
from brtheory.study.grids.robustness_findings import find_robustness
from brtheory.study.grids.robustness_view import METRICS, draw_robustness, robustness_tables
from brtheory.study.grids.settings import SATURATED, cluster_text, embedded_settings

WORKLOAD = "proprietary-surrogate"
TURNS = 12
NOTES = (
    (
        "BR-H (oracle) is told true output lengths and then made to err; BR-H (survival) learns "
        "lengths from the requests that have finished, and errs on top of that. Both at H = 80."
    ),
    (
        "Errors are drawn per request, so every router misjudges the same requests. Free slots are "
        "always known. Bias leaves predictions clipped to 1 .. H steps."
    ),
    (
        "Bursts: requests come only part of the time, at so many times the mean rate, in cycles of "
        "60 s on average. All other kinds keep the cluster full."
    ),
)


def robustness_plan(scale: Scale, *, workload: str = WORKLOAD) -> Plan:
    """All kinds and sizes of errors under the routers that they concern.

    Raises
    ------
    InputError
        If the workload is unknown.
    """
    (setting,) = embedded_settings([workload])
    setting = replace(setting, requests=scale.requests_for(setting.shape, turns=TURNS))
    trace = setting.supply.take(setting.requests_at(scale), seed=0)
    choices = resolve_routers(ROUTERS, trace, slots=setting.shape.slots)
    cells = [
        cell
        for kind in KINDS
        for size in kind.sizes
        for label in dict.fromkeys((BASELINE, *kind.routers))
        for cell in run_cells(
            {KIND: kind.name, SIZE: float(size), ROUTER: label},
            replace(
                configured(setting.config(), choices[label]),
                arrivals=kind.arrivals(size),
                perturbation=kind.perturbed(size, label),
            ),
            setting.supply,
            requests=setting.requests_at(scale),
            seeds=scale.seeds,
        )
    ]
    return Plan(
        name="robustness",
        title="What errors do to routers",
        question=(
            "Predictions, loads and token counts are wrong, lengths drift, requests come in "
            "bursts: which router keeps its balance, and from which size of error on is it no "
            "longer worth having?"
        ),
        axes=[
            axis(KIND, "error", {kind.name: kind.title for kind in KINDS}),
            axis(SIZE, "size", {size: f"{size:g}" for size in all_sizes()}),
            routers_axis(choices),
        ],
        cells=cells,
        conditions={setting.title: f"{cluster_text(setting)}, {SATURATED} unless said otherwise"},
        notes=NOTES,
    )


ROBUSTNESS = View(
    tables=robustness_tables, find=find_robustness, draw=draw_robustness, metrics=METRICS
)
