"""Tasks: results that survive JSON, and a sampler that does not depend on how steps come."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.analysis.stationary import WeightLaw, stationary_imbalance
from brtheory.core.unequal import Replica
from brtheory.simulation.metrics import summarise
from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.run import simulate
from brtheory.simulation.workload import unequal_shape
from brtheory.study.tasks import LoadSampler, LoadsTask, RunTask, StationaryTask
from tests.unit.study.samples import run_config, small_trace


@given(st.lists(st.integers(1, 40), max_size=20), st.integers(2, 20))
def test_sampler_keeps_evenly_spaced_true_loads_whatever_the_strides(strides, points):
    total = sum(strides)
    loads = np.arange(2 * total).reshape(2, total)
    sampler, step = LoadSampler(points=points), 0
    for stride in strides:
        sampler.on_steps(step, loads[:, step : step + stride])
        step += stride
    steps, sample = sampler.sample()
    assert len(steps) <= points
    spacing = steps[1] if len(steps) > 1 else 1
    # Every multiple of the spacing is there, and the spacing is the smallest power of two allowed.
    assert steps.tolist() == list(range(0, total, spacing)) if total else not len(steps)
    assert len(steps) < 2 or spacing == 1 or -(-total // (spacing // 2)) > points
    assert all((row == loads[:, at]).all() for at, row in zip(steps, sample, strict=True))


@pytest.mark.parametrize("router", ["random", "br0", "brh"])
def test_run_results_survive_json_and_equal_the_simulation(router):
    trace, config = small_trace(), run_config(router, seed=2)
    result = RunTask(config).run(trace)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    exact, kept = flat(summarise(simulate(trace, config))), flat(result)
    energy = {name for name in exact if "energy" in name}
    assert len(energy) == 4
    for name, value in exact.items():
        # Energy is kept to ten digits, everything else exactly.
        assert kept[name] == (pytest.approx(value, rel=1e-9) if name in energy else value)


def flat(summary):
    window = {f"window {name}": value for name, value in summary["loaded_window"].items()}
    return {**window, **{k: v for k, v in summary.items() if k != "loaded_window"}}


def test_loads_sum_to_the_totals_when_nothing_is_thinned():
    trace, config = small_trace(), run_config("br0")
    result = LoadsTask(config, 100_000).run(trace)
    totals = RunTask(config).run(trace)
    loads = np.array(result["loads"])
    assert len(loads) == totals["steps"]
    assert loads.sum() == totals["sum_load_tokens"]
    assert loads.max(axis=1).sum() == totals["sum_peak_tokens"]


def test_stationary_task_is_the_analysis():
    trace = small_trace()
    law = WeightLaw.from_lengths(trace.prompt_tokens, trace.output_tokens)
    drawn = stationary_imbalance(
        law, replicas=3, slots=2, trials=50, generator=np.random.default_rng(5)
    )
    result = StationaryTask(3, 2, 50, seed=5).run(trace)
    assert result["mean"] == drawn.excess_tokens.mean
    assert result["standard_error"] == drawn.excess_tokens.standard_error


def test_identities_are_what_json_reads_back_and_leave_out_what_is_not_there():
    replicas = [Replica(2, 0.5), Replica(4, b0=0.03)]
    config = replace(
        run_config("br0"), shape=unequal_shape(replicas), perturbation=Perturbation(drift=0.5)
    )
    identity = RunTask(config).identity()
    assert json.loads(json.dumps(identity)) == identity
    own = [{"slots": 2, "speed": 0.5}, {"slots": 4, "speed": 1.0, "b0": 0.03}]
    assert identity["shape"] == {"replicas": 2, "slots": 4, "unequal": own}
    assert identity["perturbation"]["drift"] == 0.5
    assert "transfer" not in identity


def test_identity_tells_runs_apart():
    configs = [
        run_config(),
        run_config("br0"),
        run_config(seed=1),
        run_config(arrivals="open:1"),
    ]
    tasks = [RunTask(c) for c in configs] + [LoadsTask(configs[0], 9), StationaryTask(2, 2, 9, 0)]
    texts = {json.dumps(task.identity(), sort_keys=True) for task in tasks}
    assert len(texts) == len(tasks)
