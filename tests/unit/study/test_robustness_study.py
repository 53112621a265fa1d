"""`study robustness`: one error at a time, the same runs where there is none, words that follow."""

from dataclasses import replace

import pytest

from brtheory.study.grid.contenders import Scale
from brtheory.study.grid.document import GridEstimate
from brtheory.study.grid.plan import ROUTER, axis
from brtheory.study.grids.robustness import ROBUSTNESS, robustness_plan
from brtheory.study.grids.robustness_errors import (
    KIND,
    KINDS,
    PLAIN,
    PREDICTING,
    ROUTERS,
    SIZE,
    all_sizes,
)
from brtheory.study.grids.robustness_findings import find_robustness
from tests.unit.study.test_grid_studies import grid

PLAN = robustness_plan(Scale(seeds=1, requests=40))
BY_NAME = {kind.name: kind for kind in KINDS}


def cells_of(kind):
    return {
        (cell.labels[SIZE], cell.labels[ROUTER]): cell
        for cell in PLAN.cells
        if cell.labels[KIND] == kind.name
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_sizes_ascend_from_or_through_nothing_and_change_one_thing(kind):
    assert list(kind.sizes) == sorted(set(kind.sizes))
    assert kind.neutral in kind.sizes
    cells = cells_of(kind)
    for (size, router), cell in cells.items():
        config, calm = cell.task.config, cells[kind.neutral, router].task.config
        assert calm.perturbation is None
        same = replace(config, perturbation=None, arrivals=calm.arrivals)
        assert same == calm
        spared = router not in kind.routers or (kind.of_predictions and router == PLAIN)
        assert (config != calm) == (size != kind.neutral and not spared)


def test_runs_without_errors_are_shared():
    """All kinds but bursts start from the same saturated run of a router."""
    for router in ROUTERS:
        calm = {
            str(cells_of(kind)[kind.neutral, router].task.identity())
            for kind in KINDS
            if kind.name != "bursts" and (kind.neutral, router) in cells_of(kind)
        }
        assert len(calm) == 1


def made(imbalances):
    """Imbalances, one a seed, by (kind, size, router); JSQ has 100, exactly."""
    rows = []
    for (kind, size, router), values in imbalances.items():
        estimate = GridEstimate(
            mean=sum(values) / len(values), low=None, high=None, values=values,
            ratio=sum(values) / len(values) / 100, ratio_low=None, ratio_high=None,
        )  # fmt: skip
        labels = {KIND: kind, SIZE: float(size), ROUTER: router}
        rows.append((labels, {"imbalance_mean_tokens": estimate}))
    axes = [
        axis(KIND, "error", {kind.name: kind.title for kind in KINDS}),
        axis(SIZE, "size", {size: f"{size:g}" for size in all_sizes()}),
        axis(ROUTER, "router", {router: router.upper() for router in ROUTERS}),
    ]
    return grid(axes, rows)


def said(document):
    return {finding.kind: finding.text for finding in find_robustness(document)}


def test_the_size_from_which_on_a_router_is_no_longer_worth_having():
    """Stale loads: JSQ stays at 100, BR-0 goes 20, 40, 101, 200 with a spread of 2 %."""
    sizes = BY_NAME["stale"].sizes
    values = dict(zip(sizes, (20, 40, 101, 200), strict=True))
    document = made(
        {("stale", size, "jsq"): [100.0, 100.0, 100.0] for size in sizes}
        | {("stale", s, "br0"): [0.98 * v, v, 1.02 * v] for s, v in values.items()}
    )
    text = said(document)
    assert "surely less imbalance than JSQ has BR0 at 0 and 8." in text["worth-stale"]
    assert "at 64 JSQ 1.00 [1.00, 1.00], BR0 10.00 [10.00, 10.00]." in text["degradation-stale"]
    assert text["best"].endswith("JSQ under stale loads, own placements counted.")


def test_predictions_have_to_beat_br0():
    sizes = BY_NAME["flips"].sizes
    told = PREDICTING[0]
    document = made(
        {("flips", size, PLAIN): [50.0, 50.0] for size in sizes}
        | {("flips", size, told): [20 + 100 * size, 20.2 + 100 * size] for size in sizes}
    )
    text = said(document)["worth-flips"]
    assert f"than BR0 has {told.upper()} at 0, 0.05 and 0.2." in text


def test_nothing_is_sure_of_one_seed_and_tables_leave_gaps():
    document = made({("noise", 0, PLAIN): [50.0], ("noise", 2, PREDICTING[0]): [60.0]})
    assert not [kind for kind in said(document) if kind.startswith("worth")]
    table = ROBUSTNESS.tables(document)[0]
    assert [entry.text for entry in table.lines[0].entries[1:]] == ["–"] * 3
    assert len(ROBUSTNESS.draw(document)) == len(KINDS)
