"""`study ablation`: one thing at a time is changed, and the words follow the intervals."""

from dataclasses import asdict, replace

import pytest

from brtheory.simulation.run import simulate
from brtheory.study.figures.ratios import Ratio, RatioSheet, ratios_drawing
from brtheory.study.grid.contenders import Scale
from brtheory.study.grid.document import Axis, GridEstimate
from brtheory.study.grid.plan import ROUTER, axis
from brtheory.study.grids.ablation import ablation_plan
from brtheory.study.grids.ablation_changes import (
    BR0,
    CHANGE,
    DEFAULT,
    LADDER,
    MOVED,
    ORACLE,
    SURVIVAL,
    all_changes,
)
from brtheory.study.grids.ablation_findings import find_ablation
from brtheory.study.grids.ablation_view import IMBALANCE, LONGEST_WAIT, ablation_tables, horizons
from brtheory.study.grids.settings import SETTING
from tests.unit.study.test_grid_studies import grid

PLAN = ablation_plan(Scale(seeds=1, requests=40))
CELLS = {tuple(cell.labels.values()): cell for cell in PLAN.cells}


def differences(cell):
    """Names in which a cell's run differs from its router at the defaults; parameters by name."""
    base = CELLS[cell.labels[SETTING], cell.labels[ROUTER], DEFAULT].task.config
    config = cell.task.config
    names = {n for n in ("router", "predictor", "perturbation", "transfer", "shape", "arrivals")
             if getattr(config, n) != getattr(base, n)}  # fmt: skip
    if config.params != base.params:
        own, other = asdict(config.params), asdict(base.params)
        names |= {name for name in own if own[name] != other[name]}
    return names


def test_every_change_changes_one_thing_and_no_two_are_the_same_run():
    changed = [cell for cell in PLAN.cells if cell.labels[CHANGE] != DEFAULT]
    assert [len(differences(cell)) for cell in changed] == [1] * len(changed)
    runs = [(cell.labels[SETTING], str(cell.task.identity())) for cell in PLAN.cells]
    assert len(set(runs)) == len(runs)


def test_the_defaults_of_every_router_are_there_and_every_asked_for_change():
    for setting in ("azure-2023-conv", "proprietary-surrogate"):
        assert {(setting, router, DEFAULT) for router in (*LADDER, SURVIVAL)} <= set(CELLS)
        for change in all_changes():
            assert {(setting, router, change.name) for router in change.routers} <= set(CELLS)
    factors = {change.factor for change in all_changes()}
    asked = {"R_max", "S_greedy", "H", "β", "γ", "gate", "key order", "candidates", "noise"}
    assert asked <= factors
    assert len(MOVED) >= 3


def test_a_horizon_of_zero_is_br0():
    """T18: at H = 0 BR-H decides as BR-0."""
    zero = CELLS["azure-2023-conv", ORACLE, "horizon=0"]
    plain = CELLS["azure-2023-conv", BR0, DEFAULT]
    trace = zero.supply.take(300, seed=0)
    shape = replace(zero.task.config.shape, replicas=3, slots=4)
    runs = [simulate(trace, replace(cell.task.config, shape=shape)) for cell in (zero, plain)]
    assert runs[0].replica.tolist() == runs[1].replica.tolist()


def made(ratios, *, waits=None):
    """A document of one workload with ratios (value, low, high) by (router, change)."""

    def estimate(mean, ratio=None):
        value, low, high = ratio or (1.0, None, None)
        return GridEstimate(mean=mean, low=None, high=None, values=[mean, mean * 1.01],
                            ratio=value, ratio_low=low, ratio_high=high)  # fmt: skip

    routers = {router: router.upper() for router in (*LADDER, SURVIVAL)}
    axes: list[Axis] = [
        axis(SETTING, "requests", {"w": "Some workload"}),
        axis(ROUTER, "router", routers),
        axis(CHANGE, "change", {DEFAULT: "defaults"} | {c.name: c.title for c in all_changes()}),
    ]
    rows = [
        ({SETTING: "w", ROUTER: router, CHANGE: DEFAULT}, {IMBALANCE: estimate(100.0 - place)})
        for place, router in enumerate(routers)
    ]
    for (router, name), ratio in ratios.items():
        metrics = {IMBALANCE: estimate(100 * ratio[0], ratio)}
        if waits and (router, name) in waits:
            metrics[LONGEST_WAIT] = estimate(1.0, waits[router, name])
        rows.append(({SETTING: "w", ROUTER: router, CHANGE: name}, metrics))
    return grid(axes, rows)


def said(document):
    return {finding.kind: finding.text for finding in find_ablation(document)}


def test_sure_effects_are_told_from_those_that_are_not():
    text = said(
        made(
            {
                (BR0, "max_subset=1"): (4.0, 3.0, 5.0),
                (BR0, "greedy_threshold=0"): (0.5, 0.4, 0.6),
                (BR0, "key_order=margin-first"): (1.2, 0.9, 1.5),
                (BR0, "stage1=longest"): (3.0, None, None),
            }
        )
    )
    tick = text["tick"]
    assert "less imbalance than at the defaults with S_greedy = 0 (0.50 [0.40, 0.60]);" in tick
    assert "surely more with R_max = 1 (4.00 [3.00, 5.00]);" in tick
    assert "no sure difference with key order: margin-first, stage 1: longest." in tick
    assert "R_max = 1 (4.00), S_greedy = 0 (0.50)." in text["ranking"]
    assert "Without any sure effect:" in text["ranking"]
    assert "R_max" not in text["ranking"].partition("Without")[2]


@pytest.mark.parametrize(("low", "named"), [(1.5, True), (0.5, False)])
def test_starving_changes_are_named_where_it_is_sure(low, named):
    change = (BR0, "greedy_threshold=0")
    text = said(made({change: (0.5, 0.4, 0.6)}, waits={change: (8.0, low, 9.0)}))
    assert ("waiting" in text) == named


def test_horizons_are_read_in_order_with_the_default_among_them():
    changes = {(ORACLE, f"horizon={h}"): (h / 100 + 0.1, 0.1, 0.2) for h in (160, 0, 20)}
    document = made(changes)
    assert list(horizons(document, "w")) == [0, 20, 80, 160]
    assert "H = 0 with 10 tokens" in said(document)["horizon"]
    for table in ablation_tables(document):
        assert all(len(line.entries) == len(table.columns) for line in table.lines)


def test_ratios_are_drawn_with_what_they_say():
    ratios = [
        Ratio(title="one", value=1.5, low=1.2, high=1.9, colour="#015aa1"),
        Ratio(title="two", value=0.5, low=-0.1, high=0.9, colour="#015aa1"),
    ]
    sheet = RatioSheet(name="r", title="R", caption="", axis="imbalance / defaults")
    drawing = ratios_drawing(ratios, sheet)
    assert drawing.alt == "Dot chart, imbalance / defaults: one 1.50; two 0.50."
    assert ">1.50<" in drawing.svg
    assert "var(--score)" in drawing.svg
