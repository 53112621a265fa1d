"""`study heterogeneous`: knowing and blind differ in that alone; the words follow the numbers."""

from dataclasses import replace

import pytest

from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.workload import StepTime
from brtheory.study.grid.contenders import Scale
from brtheory.study.grid.document import GridEstimate
from brtheory.study.grid.plan import ROUTER, axis
from brtheory.study.grids.heterogeneous import HETEROGENEOUS, WEIGHING, heterogeneous_plan
from brtheory.study.grids.heterogeneous_clusters import CLUSTER, clusters
from brtheory.study.grids.heterogeneous_findings import find_heterogeneous
from brtheory.study.grids.heterogeneous_view import BLIND, IDLE, IDLE_SHARE, THROUGHPUT
from tests.unit.study.test_grid_studies import grid

PLAN = heterogeneous_plan(Scale(seeds=1, requests=40))
CELLS = {(cell.labels[CLUSTER], cell.labels[ROUTER]): cell.task.config for cell in PLAN.cells}


@pytest.mark.parametrize("router", WEIGHING)
def test_a_blind_run_is_the_same_run_but_for_what_it_knows(router):
    for cluster in clusters():
        blind = CELLS[cluster.name, router + BLIND]
        assert blind.perturbation == Perturbation(knows_speeds=False)
        assert replace(blind, perturbation=None) == CELLS[cluster.name, router]


def test_clusters_are_what_they_are_called():
    """Speeds differ exactly where step times do; the first cluster is the paper's."""
    first, *others = clusters()
    assert first.shape.paces(StepTime()) is None
    assert set(first.shape.replica_slots) == {32}
    for cluster in others:
        assert (cluster.shape.paces(StepTime()) is not None) == cluster.speeds_differ
    speeds = [c.slow_speed for c in clusters() if c.slow_speed is not None]
    assert speeds == sorted(speeds, reverse=True)
    assert len({cluster.name for cluster in clusters()}) == len(clusters())


def made(metrics):
    """Values, one a seed, by (cluster, router, metric); ratios to a JSQ of 100."""
    rows = {}
    for (cluster, router, metric), values in metrics.items():
        mean = sum(values) / len(values)
        found = GridEstimate(mean=mean, low=None, high=None, values=values, ratio=mean / 100,
                             ratio_low=min(values) / 100, ratio_high=max(values) / 100)  # fmt: skip
        rows.setdefault((cluster, router), {})[metric] = found
    routers = ["jsq", *(label + end for label in WEIGHING for end in (BLIND, ""))]
    axes = [
        axis(CLUSTER, "cluster", {c.name: c.title for c in clusters()}),
        axis(ROUTER, "router", {label: label.upper() for label in routers}),
    ]
    return grid(axes, [({CLUSTER: c, ROUTER: r}, found) for (c, r), found in rows.items()])


def said(document):
    return [(finding.kind, finding.text) for finding in find_heterogeneous(document)]


def test_what_knowledge_is_worth_and_who_is_misled_without():
    document = made(
        {
            ("classes", "jsq", THROUGHPUT): [100.0, 100.0, 100.0],
            ("classes", "br0" + BLIND, THROUGHPUT): [89.0, 90.0, 91.0],
            ("classes", "br0", THROUGHPUT): [119.0, 120.0, 121.0],
            ("memory=2", "br0" + BLIND, THROUGHPUT): [110.0, 100.0, 90.0],
            ("memory=2", "br0", THROUGHPUT): [99.0, 110.0, 91.0],
        }
    )
    texts = dict(said(document))
    # 120 / 90 = 1.333; 100 / 100 = 1, its interval holds 1.
    assert "throughput of BR0 by +0.0 to +33.3 %" in texts["worth"]
    assert "surely for the better on 1 of 2 clusters." in texts["worth"]
    assert "BR0 on half at speed 0.7 (+20.0 %)" in texts["best"]
    assert texts["misled"].endswith("JSQ: BR0:BLIND on half at speed 0.7 (-10.0 %).")


def test_where_speeds_are_equal_there_is_nothing_to_be_worth_anything():
    same = {("slots", label, THROUGHPUT): [100.0, 101.0] for label in ("br0", "br0" + BLIND)}
    assert [kind for kind, _ in said(made(same))] == ["best"]


def test_less_idle_and_slower_is_pointed_out():
    document = made(
        {
            ("classes", "br0", THROUGHPUT): [100.0],
            ("classes", "br0", IDLE_SHARE): [0.1],
            ("classes", "window", THROUGHPUT): [110.0],
            ("classes", "window", IDLE_SHARE): [0.2],
            ("classes", "window", IDLE): [0.016],
        }
    )
    text = dict(said(document))["idle"]
    assert "wait 10.0 % of the time under BR0 and 20.0 % under WINDOW" in text
    assert "+10.0 %" in text
    idle = next(t for t in HETEROGENEOUS.tables(document) if t.title.startswith("Idle"))
    # 16 ms a step over 8 replicas are 2.0 ms each.
    assert "2.0" in {entry.text for line in idle.lines for entry in line.entries}
    assert len(HETEROGENEOUS.draw(document)) == 2
