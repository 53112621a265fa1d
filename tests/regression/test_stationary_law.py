"""A strong test of the simulator: saturated JSQ against iid replicas in their stationary law."""

import numpy as np
import pytest

from brtheory.analysis.stationary import WeightLaw, stationary_imbalance
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.schema import Trace

SLOTS = 16


def light_tailed(n, seed):
    """Independent prompts and outputs with light tails, so that the run is stationary early."""
    rng = np.random.default_rng(seed)
    return Trace(
        name="light-tailed",
        source="test",
        synthetic=True,
        arrival_s=np.arange(n, dtype=float),
        prompt_tokens=rng.integers(1, 2000, size=n),
        output_tokens=rng.integers(1, 120, size=n),
        prefix_id=None,
    )


@pytest.mark.parametrize("replicas", [2, 4, 8, 16, 32, 64])
def test_saturated_jsq_is_iid_replicas(replicas):
    """I/G within 10 % of E[max - mean] of G iid replica loads (section 7), by Monte Carlo."""
    trace = light_tailed(max(20_000, 60 * replicas * SLOTS), seed=replicas)
    record = simulate(
        trace,
        RunConfig("jsq", ClusterShape(replicas, SLOTS), arrivals=parse_arrivals("closed:1.5")),
    )
    law = WeightLaw.from_lengths(trace.prompt_tokens, trace.output_tokens)
    expected = stationary_imbalance(
        law, replicas=replicas, slots=SLOTS, trials=4000, generator=np.random.default_rng(0)
    )
    measured = summarise(record)["loaded_window"]["imbalance_mean_tokens"] / replicas
    assert measured == pytest.approx(expected.excess_tokens.mean, rel=0.10)
