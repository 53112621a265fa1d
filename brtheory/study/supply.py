"""Where a study's requests come from: a trace read once, or a workload generated anew per seed."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

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


def trace_digest(trace: Trace) -> str:
    """SHA-256 of what a simulation sees of a trace: times, lengths, whether it is synthetic."""
    digest = hashlib.sha256(b"synthetic" if trace.synthetic else b"real")
    for column in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens):
        digest.update(np.ascontiguousarray(column.astype(column.dtype.newbyteorder("<"))).tobytes())
    return digest.hexdigest()
