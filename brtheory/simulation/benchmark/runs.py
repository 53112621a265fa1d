"""Time of whole runs: CPU seconds of simulating so many requests, start-up apart."""

from dataclasses import dataclass
from time import process_time

from brtheory.routers.backend import Engine
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import ArrivalSpec
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import generate_workload

WORKLOAD = "azure-2023-conv"
WORKLOAD_REQUESTS = 19_366
SHAPE = ClusterShape(replicas=8, slots=32)
ARRIVALS = ArrivalSpec("closed", 1.25)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """CPU seconds of one run; ``startup_s`` is what loading compiled code took before it."""

    router: str
    backend: Engine
    requests: int
    cpu_s: float
    startup_s: float


def measure_run(router: str, backend: Engine, *, requests: int) -> RunFigures:
    """Simulate the embedded Azure conversation workload, repeated to ``requests`` requests.

    A short run of the same kind goes before, so that loading compiled code is measured apart.
    """
    began = process_time()
    _simulate(_trace(10), router, backend)
    startup_s = process_time() - began
    trace = _trace(requests)
    began = process_time()
    _simulate(trace, router, backend)
    return RunFigures(router, backend, requests, process_time() - began, startup_s)


def _trace(requests: int) -> Trace:
    return generate_workload(WORKLOAD, requests=min(requests, WORKLOAD_REQUESTS)).repeat(requests)


def _simulate(trace: Trace, router: str, backend: Engine) -> None:
    simulate(trace, RunConfig(router=router, shape=SHAPE, arrivals=ARRIVALS, backend=backend))
