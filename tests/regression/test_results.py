"""Part of the committed results, computed again: the code still makes the cited numbers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.campaign import Campaign, StudyConfig
from brtheory.study.invocation import Invocation
from brtheory.study.results import StudyDocument
from brtheory.study.study import run_study
from brtheory.study.supply import WorkloadSupply

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "study.json"
AGAIN = ("jsq", "br0", "window")
"""Routers computed again; the others share all code but their own rule."""
FLOAT_ERROR = 1e-9
"""Relative: sums of floats whose order a library may change; loads and clocks are integers."""


def _committed() -> StudyDocument:
    return StudyDocument.model_validate_json(COMMITTED.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_part_of_the_study_gives_the_committed_numbers_again(tmp_path: Path) -> None:
    committed = _committed()
    conditions = committed.conditions
    config = StudyConfig(
        shape=ClusterShape(conditions.replicas, conditions.slots, conditions.kv_capacity),
        arrivals=parse_arrivals(conditions.arrivals),
        step_time=StepTime(a0=conditions.a0, b0=conditions.b0),
        routers=AGAIN,
        seeds=len(conditions.seeds),
        requests=committed.trace.requests,
        scaling=(),
    )
    again = run_study(
        Campaign(config, WorkloadSupply(committed.trace.name)),
        tmp_path,
        invocation=Invocation(command="test", started=datetime.now(UTC), workers=1),
    )
    assert again.trace.digests == committed.trace.digests
    compared = 0
    for summary in committed.summaries:
        if summary.section != "routers" or summary.label not in AGAIN:
            continue
        for metric, estimate in summary.metrics.items():
            found = again.estimate(summary.label, metric, scope=summary.scope)
            assert (found is None) == (estimate is None), (summary.label, metric)
            if found is not None and estimate is not None:
                assert found.mean == pytest.approx(estimate.mean, rel=FLOAT_ERROR)
                compared += 1
    assert compared >= 3 * len(AGAIN)
