"""Bounds for every admission: below every schedule, recomputed by the checker, or refuted."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.saturated import Setting, as_table, entry, measure
from benchmarks.saturated import main as write_benchmark
from brtheory.cli.main import app
from brtheory.errors import InputError
from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.simulation.run import SATURATION, RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.workloads import generate_workload
from solvers.bounds.loaded import loaded_work
from solvers.certificate import RefutedError
from solvers.facade import solve
from solvers.work_certificate import WorkCertificate, check_work, work_certificate
from tests.exact.problems import tiny_instance

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "work-certificate.schema.json"
SMALL = Setting(workload="azure-2023-code", requests=60, replicas=2, slots=3)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), kv=st.booleans())
def test_no_schedule_is_below_the_claim_and_one_more_is_refuted(seed, kv):
    """The optimum of case B over all admissions, by brute force."""
    instance = tiny_instance(seed, requests=3, kv=kv, latest_ready=2, longest_output=3)
    claim = work_certificate(instance)
    check_work(instance, claim)
    best = solve(instance, method="brute", case="B")
    least = best.cost.value(steps=claim.steps, sum_peak=claim.sum_peak, sum_load=0)
    assert least <= best.incumbent
    for field in ("steps", "sum_peak"):
        forged = claim.model_copy(update={field: getattr(claim, field) + 1})
        with pytest.raises(RefutedError, match="proved"):
            check_work(instance, forged)


def test_the_claim_of_a_small_example():
    """Work (3+4) + (5) + (2+3+4) = 21, ceil(21/2) = 11; 6 decode steps on 2 x 1 places: 3 steps.

    Request 2 alone is ready from step 2 on and takes 3.
    """
    requests = (OfflineRequest(0, 0, 3, 2), OfflineRequest(1, 0, 5, 1), OfflineRequest(2, 2, 2, 3))
    claim = work_certificate(Instance(2, 1, None, 1e-7, 0.01, requests))
    assert (claim.steps, claim.sum_peak) == (3, 11)


def test_a_claim_about_another_instance_is_refuted():
    one, other = (
        random_instance(np.random.default_rng(seed), requests=4, replicas=2, slots=2)
        for seed in (1, 2)
    )
    with pytest.raises(RefutedError, match="another instance"):
        check_work(other, work_certificate(one))


def test_a_loaded_window_is_what_the_run_did_there():
    """Barrier time and work of the window, by the run's own totals and by the judge."""
    ((_, found),) = measure(["br0"], SMALL)
    trace = generate_workload(SMALL.workload, requests=SMALL.requests, seed=SMALL.seed)
    config = RunConfig("br0", ClusterShape(2, 3, None), arrivals=SATURATION)
    record = simulate(trace, config)
    begin, end = record.window_start, record.window_end
    judged = evaluate(found.instance, found.assignment)
    assert judged.feasible
    assert judged.sum_peak == found.sum_peak == end.sum_peak - begin.sum_peak
    assert judged.sum_load == end.sum_load - begin.sum_load
    assert judged.time_exact_s == found.time_s >= found.bound_s
    assert found.gap == Fraction(found.time_s, found.bound_s) - 1


def test_every_router_is_at_or_above_the_bound_of_its_own_window():
    rows = [entry(name, SMALL, found) for name, found in measure(["pool-fifo", "window"], SMALL)]
    assert all(row["gap"] >= 0 and row["gap_sum_peak"] >= 0 for row in rows)
    assert all(f"| {row['router']} |" in as_table(rows, SMALL) for row in rows)


def test_a_run_without_a_loaded_window_has_none():
    """Four requests on eight places: the last is ready at once, before any completes."""
    trace = generate_workload(SMALL.workload, requests=4, seed=0)
    config = RunConfig("br0", ClusterShape(2, 4, None), arrivals=SATURATION)
    record = simulate(trace, config)
    prompts = trace.prompt_tokens
    step_time = config.step_time
    assert loaded_work(record, prompt_tokens=prompts, slots=4, step_time=step_time) is None


class TestCommand:
    """``brtheory certify`` on what the benchmark writes."""

    @pytest.fixture
    def folder(self, tmp_path):
        cluster = ["--requests", "60", "--replicas", "2", "--slots", "3"]
        router = ["--router", "br0:key_order=margin-first", "--out", str(tmp_path)]
        write_benchmark(["--workload", SMALL.workload, *cluster, *router])
        return tmp_path / "br0-key_order-margin-first"

    def run(self, folder, *options):
        files = [str(folder / "instance.json"), str(folder / "certificate.json")]
        return CliRunner().invoke(app, ["certify", *files, *options])

    def test_accepts_the_certificate_and_refutes_a_forged_one(self, folder):
        done = self.run(folder, "--json")
        assert done.exit_code == 0
        (row,) = json.loads((folder.parent / "saturated.json").read_text())["routers"]
        answer = json.loads(done.stdout)
        assert (answer["valid"], answer["bound"]) == (True, row["least_sum_peak"])
        assert answer["steps"] == row["least_steps"]
        assert "steps >=" in self.run(folder).stdout
        path = folder / "certificate.json"
        claim = json.loads(path.read_text())
        path.write_text(json.dumps(claim | {"sum_peak": claim["sum_peak"] + 1}))
        refuted = self.run(folder)
        assert refuted.exit_code == 1
        assert "refuted: claims sum of peaks" in refuted.stdout

    def test_takes_no_admissions(self, folder):
        done = self.run(folder, "--admissions", str(folder / "assignment.json"))
        assert isinstance(done.exception, InputError)


def test_the_published_schema_is_the_contracts():
    published = json.loads(SCHEMA.read_text())
    del published["$schema"]
    assert published == WorkCertificate.model_json_schema(by_alias=True)
