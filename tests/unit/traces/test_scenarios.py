"""The four scenarios have the laws they are defined by."""

import numpy as np
import pytest

from brtheory.traces.scenarios import SCENARIOS
from brtheory.traces.workloads import generate_workload, workload_names

# Prompt mean before clipping and sigma, output median before conditioning and sigma, slots.
DEFINED = {
    "s1": (10_000, 1.0, 400, 0.8, 32),
    "s2": (2_000, 1.0, 1_300, 0.6, 32),
    "s3": (10_000, 0.6, 1_300, 0.6, 10),
    "s4": (2_000, 1.0, 150, 0.8, 64),
}
LONG = ("s2", "s3")


@pytest.mark.parametrize("name", DEFINED)
def test_a_scenario_carries_its_cluster(name: str) -> None:
    scenario = SCENARIOS[name]
    assert name in workload_names()
    assert (scenario.slots, scenario.replicas) == (DEFINED[name][4], 8)
    assert (scenario.a0, scenario.b0, scenario.requests) == (0.25e-6, 0.060, 30_000)


@pytest.mark.parametrize("name", DEFINED)
def test_prompts_are_clipped_lognormals(name: str) -> None:
    mean, sigma = DEFINED[name][:2]
    prompts = generate_workload(name, requests=20_000, seed=1).prompt_tokens
    assert prompts.min() >= 16
    assert prompts.max() <= 64_000
    logs = np.log(prompts)
    # The middle half is untouched by clipping: median exp(mu), quartiles mu +- 0.67449 sigma.
    low, middle, high = np.percentile(logs, [25, 50, 75])
    assert middle == pytest.approx(np.log(mean) - sigma**2 / 2, abs=0.01)
    assert high - low == pytest.approx(2 * 0.67449 * sigma, abs=0.01)


@pytest.mark.parametrize("name", [name for name in DEFINED if name not in LONG])
def test_short_outputs_are_lognormal(name: str) -> None:
    median, sigma = DEFINED[name][2:4]
    logs = np.log(generate_workload(name, requests=20_000, seed=2).output_tokens)
    assert np.median(logs) == pytest.approx(np.log(median), abs=0.01)
    assert logs.std() == pytest.approx(sigma, abs=0.01)


@pytest.mark.parametrize("name", LONG)
def test_long_outputs_are_a_lognormal_beyond_its_bound(name: str) -> None:
    median, sigma = DEFINED[name][2:4]
    outputs = generate_workload(name, requests=20_000, seed=3).output_tokens
    assert outputs.min() == 1001
    assert outputs.max() <= 16_000
    # Conditioned on > 1000: of independent draws of the plain law those that pass have the same
    # quartiles; 400,000 draws know them to a quarter of a percent.
    draws = median * np.exp(sigma * np.random.default_rng(5).standard_normal(400_000))
    expected = np.percentile(draws[draws > 1000], [25, 50, 75])
    np.testing.assert_allclose(np.percentile(outputs, [25, 50, 75]), expected, rtol=0.01)


def test_prompts_and_outputs_are_independent_and_seeds_differ() -> None:
    first, other = (generate_workload("s1", requests=20_000, seed=seed) for seed in (0, 1))
    correlation = np.corrcoef(np.log(first.prompt_tokens), np.log(first.output_tokens))[0, 1]
    assert abs(correlation) < 4 / np.sqrt(20_000)
    assert not np.array_equal(first.prompt_tokens, other.prompt_tokens)
