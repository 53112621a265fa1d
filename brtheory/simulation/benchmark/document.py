"""Contract ``brtheory.bench/1``: what ``brtheory bench --json`` prints."""

from typing import Annotated, Literal

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.routers.backend import Engine
from brtheory.simulation.benchmark.scene import Severity


class TickDocument(Contract):
    """One tick case on one backend; microseconds, horizon update included."""

    router: str
    backend: Engine
    replicas: int
    horizon: int
    severity: Severity
    pool: int = Field(description="Requests waiting at the tick.")
    admissions: float = Field(description="Admissions a tick, median.")
    ticks: int = Field(description="Ticks timed.")
    p50_us: float
    p99_us: float
    stage1_p50_us: float | None = Field(description="Null for routers without stages.")
    stage2_p50_us: float | None
    reference_p50_us: float | None = Field(description="Reference router, same run; null if long.")
    allocated_bytes: int | None = Field(description="Peak of traced allocations during a tick.")


class RunDocument(Contract):
    """One simulation run."""

    router: str
    backend: Engine
    requests: int
    cpu_s: float = Field(description="CPU seconds of the run itself.")
    startup_s: float = Field(description="CPU seconds of loading compiled code, apart.")


class BenchDocument(Contract):
    """Ticks and simulation runs measured on this machine."""

    schema_: Annotated[
        Literal["brtheory.bench/1"], Field(alias="schema", description="Name of this contract.")
    ]
    quick: bool = Field(description="Small sizes: shows that it works, not how fast it is.")
    machine: dict[str, str | int | None]
    paper_reported: dict[str, float] = Field(description="The authors' figures, as reported.")
    tick: list[TickDocument]
    simulate: list[RunDocument]
