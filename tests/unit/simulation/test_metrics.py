"""Metrics are what the loads of every step and the times of every request say, in both scopes."""

import numpy as np
import pytest

from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.traces.workloads import generate_workload

STEP = StepTime(a0=1e-5, b0=0.02)


class Loads:
    """Keeps the loads of all steps."""

    def __init__(self):
        self.seen = []

    def on_steps(self, _step, loads):
        self.seen.append(loads.copy())


@pytest.fixture(scope="module")
def run():
    # Twice as many requests as slots are in the system: the cluster never idles between steps.
    config = RunConfig(
        "jsq", ClusterShape(3, 8), arrivals=parse_arrivals("closed:2"), step_time=STEP
    )
    loads = Loads()
    trace = generate_workload("azure-2023-conv", requests=200, seed=3)
    record = simulate(trace, config, observers=[loads])
    return record, np.concatenate(loads.seen, axis=1)


def recomputed(record, loads, first, end, requests):
    """The metrics of steps ``first`` to ``end`` and of these requests, one step at a time."""
    steps = loads[:, first:end].T.tolist()
    ends = record.admitted_step + record.output_tokens
    durations = [STEP.b0 + STEP.a0 * max(step) for step in steps]
    watts = [
        sum(100 + 300 * ((STEP.b0 + STEP.a0 * load) / seconds) ** 0.7 for load in step)
        for step, seconds in zip(steps, durations, strict=True)
    ]
    joules = sum(w * seconds for w, seconds in zip(watts, durations, strict=True))
    tokens = sum(int(((record.admitted_step <= k) & (k < ends)).sum()) for k in range(first, end))
    completed = int(((ends > first) & (ends <= end)).sum())
    peaks, total = sum(map(max, steps)), sum(map(sum, steps))
    lost = sum(3 * max(step) - sum(step) for step in steps)
    times = {
        "tpot": (record.finished_s - record.admitted_s) / record.output_tokens,
        "e2e": record.finished_s - record.arrival_s,
        "wait": record.admitted_s - record.ready_s,
    }
    return {
        "steps": len(steps),
        "requests": completed,
        "duration_s": sum(durations),
        "sum_peak_tokens": peaks,
        "sum_load_tokens": total,
        "imbalance_total_tokens": lost,
        "imbalance_mean_tokens": lost / len(steps),
        "spread_mean_tokens": sum(max(step) - min(step) for step in steps) / len(steps),
        "peak_over_mean": 3 * peaks / total,
        "barrier_idle_fraction": lost / (3 * peaks),
        "throughput_tokens_per_s": tokens / sum(durations),
        "request_rate_per_s": completed / sum(durations),
        "energy_model_j": joules,
        "energy_model_j_per_token": joules / tokens,
        "wait_max_s": max(times["wait"][requests]),
        **{
            f"{name}_p{q}_s": np.percentile(values[requests], q)
            for name, values in times.items()
            for q in (50, 95, 99)
        },
    }


def test_every_metric_of_a_whole_run_is_recomputed_from_its_steps(run):
    record, loads = run
    found = summarise(record)
    del found["loaded_window"]
    expected = recomputed(record, loads, 0, loads.shape[1], np.arange(200))
    assert found == pytest.approx(expected, rel=1e-9)


def test_every_metric_of_the_loaded_window_is_recomputed_from_its_steps(run):
    record, loads = run
    first, end = record.window_start.steps, record.window_end.steps
    assert 0 < first < end < loads.shape[1]
    middle = np.argsort(record.arrival_s, kind="stable")[20:180]
    expected = recomputed(record, loads, first, end, middle)
    assert summarise(record)["loaded_window"] == pytest.approx(expected, rel=1e-9)
