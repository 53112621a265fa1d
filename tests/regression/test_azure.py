"""What the routers do on the real Azure 2023 conversation trace, with the laws behind it."""

import pytest

from brtheory.routers.params import HorizonParams
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.read import read_trace


@pytest.fixture(scope="module")
def azure(traces_dir):
    return read_trace(traces_dir / "AzureLLMInferenceTrace_conv.csv").trace


def imbalance(trace, router, params=None):
    config = RunConfig(
        router, ClusterShape(8, 32), params=params, arrivals=parse_arrivals("closed:1.5")
    )
    return summarise(simulate(trace, config))["loaded_window"]["imbalance_mean_tokens"]


def test_br0_leaves_at_most_a_third_of_jsqs_imbalance(azure):
    assert imbalance(azure, "br0") <= 0.35 * imbalance(azure, "jsq")


def test_a_horizon_longer_than_the_time_between_completions_loses(azure):
    """Known weakness (c): outputs are short here, H = 80 is worse than BR-0 and H = 7 better."""
    br0 = imbalance(azure, "br0")
    assert imbalance(azure, "brh", HorizonParams(horizon=80)) > br0
    assert imbalance(azure, "brh", HorizonParams(horizon=7)) < br0
