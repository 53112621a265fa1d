"""Numbers outside the range in which times and sums stay finite are refused by name."""

import pytest

from brtheory.errors import InputError
from brtheory.simulation.arrivals import PrefillDelay
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.traces.read import ReadOptions
from brtheory.traces.schema import MAX_REQUESTS
from brtheory.traces.workloads import generate_workload

WORKLOAD = "azure-2023-conv"


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: StepTime(a0=1e10), "a0"),
        (lambda: StepTime(a0=float("nan")), "a0"),
        (lambda: StepTime(a0=0, b0=5e-324), "b0"),
        (lambda: StepTime(a0=0, b0=-1.0), "b0"),
        (lambda: StepTime(a0=0, b0=0), "step time"),
        (lambda: ClusterShape(10**12, 1), "replicas"),
        (lambda: ClusterShape(1, 10**30), "slots"),
        (lambda: ClusterShape(1, 1, 10**30), "kv_capacity"),
        (lambda: ClusterShape(1, 1, 0), "kv_capacity"),
        (lambda: PrefillDelay(1e308, 0.0), "prefill seconds"),
        (lambda: PrefillDelay(0.0, float("nan")), "prefill seconds per token"),
        (lambda: parse_arrivals("open:1e-308"), "arrivals"),
        (lambda: parse_arrivals("open:rho=1e300"), "arrivals"),
        (lambda: parse_arrivals("closed:nan"), "arrivals"),
        (lambda: ReadOptions(rate=1e-320), "rate"),
        (lambda: generate_workload(WORKLOAD, requests=1000).scaled(1e300), "rate"),
        (lambda: generate_workload(WORKLOAD, requests=1000).repeat(MAX_REQUESTS + 1), "requests"),
        (lambda: generate_workload(WORKLOAD, requests=10**25), "requests"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(build, field):
    with pytest.raises(InputError, match=r"expected .*, got ") as caught:
        build()
    assert caught.value.where == field


def test_the_ends_of_the_ranges_are_allowed():
    assert StepTime(a0=1e-15, b0=1e9) == StepTime(1e-15, 1e9)
    assert StepTime(a0=0.0, b0=1e-15).a0 == 0
    assert ClusterShape(2**20, 2**20, 2**62).slots == 2**20
    assert parse_arrivals("closed:1e-9").value == 1e-9
