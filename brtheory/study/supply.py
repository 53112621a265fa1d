"""Where a study's requests come from: a trace read once, or lengths generated anew per seed."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from brtheory.traces.laws import tokens_of
from brtheory.traces.sampling import stratified
from brtheory.traces.scenarios import Scenario
from brtheory.traces.schema import Trace
from brtheory.traces.workloads import find_workload, generate_workload


class Supply(Protocol):
    """A source of traces of any length."""

    def take(self, requests: int, *, seed: int) -> Trace:
        """The first ``requests`` requests of seed ``seed``."""

    def notes(self, requests: int) -> tuple[str, ...]:
        """What a reader of the numbers should know about ``requests`` of them."""


@dataclass(frozen=True)
class TraceSupply:
    """A real trace; longer studies play it again and again. Seeds rotate it in the simulator.

    Parameters
    ----------
    trace
        All of it.
    remarks
        What reading it dropped or assumed.
    """

    trace: Trace
    remarks: tuple[str, ...] = ()

    def take(self, requests: int, *, seed: int) -> Trace:
        """The trace cut or repeated to ``requests``, the same for every seed."""
        del seed
        return self.trace.repeat(requests)

    def notes(self, requests: int) -> tuple[str, ...]:
        """The remarks, and how often the trace is played or how much of it is used."""
        whole = len(self.trace)
        if requests == whole:
            return self.remarks
        if requests > whole:
            return (*self.remarks, f"{whole:,} requests played {requests / whole:.1f} times")
        return (*self.remarks, f"the first {requests:,} of {whole:,} requests read")


@dataclass(frozen=True)
class WorkloadSupply:
    """An embedded workload."""

    name: str

    def take(self, requests: int, *, seed: int) -> Trace:
        """Generate."""
        return generate_workload(self.name, requests=requests, seed=seed)

    def notes(self, requests: int) -> tuple[str, ...]:
        """How it is made."""
        del requests
        return (f"generated: {find_workload(self.name).method}",)


@dataclass(frozen=True)
class ScenarioSupply:
    """Lengths of a scenario that is no workload of its own: one of a family, say by spread.

    Arrivals are one second apart: for closed loops and ``open:rho``, which do not look at them.
    """

    scenario: Scenario

    def take(self, requests: int, *, seed: int) -> Trace:
        """Generate."""
        generator = np.random.default_rng(seed)
        prompt_law, output_law = self.scenario.laws()
        return Trace(
            name=self.scenario.name,
            source="lognormal laws defined by this project",
            synthetic=True,
            arrival_s=np.arange(requests, dtype=np.float64),
            prompt_tokens=tokens_of(prompt_law, stratified(requests, generator)),
            output_tokens=tokens_of(output_law, stratified(requests, generator)),
        )

    def notes(self, requests: int) -> tuple[str, ...]:
        """How it is made."""
        del requests
        return ("generated: independent lognormals, prompts clipped to 16 .. 64,000 tokens",)


class Taken:
    """Traces already taken from supplies, each with its digest: every one is made once."""

    def __init__(self) -> None:
        self._taken: dict[tuple[int, int, int], tuple[Supply, Trace, str]] = {}

    def take(self, supply: Supply, *, requests: int, seed: int) -> tuple[Trace, str]:
        """The trace of a supply and its digest."""
        key = (id(supply), requests, seed)
        if key not in self._taken:
            trace = supply.take(requests, seed=seed)
            # The supply is kept too, so that its identity is not given to another one.
            self._taken[key] = supply, trace, trace_digest(trace)
        _, trace, digest = self._taken[key]
        return trace, digest


def trace_digest(trace: Trace) -> str:
    """SHA-256 of what a simulation sees: times, lengths, prefixes, whether it is synthetic."""
    digest = hashlib.sha256(b"synthetic" if trace.synthetic else b"real")
    prefixes = () if trace.prefix_id is None else (trace.prefix_id,)
    for column in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens, *prefixes):
        digest.update(np.ascontiguousarray(column.astype(column.dtype.newbyteorder("<"))).tobytes())
    return digest.hexdigest()
