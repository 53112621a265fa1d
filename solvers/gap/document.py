"""The document of a gap report: every policy on every instance, summaries, worst instances.

``gap.json`` is one ``GapDocument`` (contract ``brtheory.gap/1``). Gaps are intervals [least, most];
``proved`` says that the interval is a point. Everything but ``provenance`` depends on the
instances, the settings and the code alone, unless a time limit cuts a solve short.
"""

import json
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.offline.instance import InstanceDocument
from brtheory.study.provenance import Revision

End = TypeVar("End", int, float)
Ends = Annotated[list[End | None], Field(min_length=2, max_length=2)]
"""[least, most]; null where unknown or undefined."""


class GapFacts(Contract):
    """Distance of a value from an optimum that lies in [bound, incumbent]."""

    value: int = Field(description="Of the policy.")
    incumbent: int | None = Field(description="Best known, recomputed by the judge.")
    bound: int = Field(description="No assignment is below.")
    absolute: Ends[int] = Field(description="value - incumbent, value - bound.")
    relative: Ends[float] = Field(description="The same over incumbent and bound; null over 0.")
    proved: bool = Field(description="Whether incumbent and bound meet.")


class SameAdmissions(Contract):
    """Against the best replicas at the policy's own admission steps (case A)."""

    imbalance: GapFacts = Field(description="Total of G*max - sum, in tokens.")
    barrier_time: GapFacts = Field(description="p*steps + q*sum of peaks, p:q = b0:a0.")


class WorkConserving(Contract):
    """Against the fastest schedule in which nobody waits beside a free slot (case B)."""

    barrier_time: GapFacts = Field(description="p*steps + q*sum of peaks, p:q = b0:a0.")


class AnyAdmissions(Contract):
    """Against the fastest schedule of all, which may wait for every request (case B, any hold)."""

    barrier_time: GapFacts = Field(description="p*steps + q*sum of peaks, p:q = b0:a0.")


class RouterFacts(Contract):
    """One policy on one instance."""

    router: str
    same_admissions: SameAdmissions
    work_conserving: WorkConserving | None = Field(
        description="Null where no schedule obeys the rule. Below 0 where the policy waited."
    )
    any_admissions: AnyAdmissions


class Decomposition(Contract):
    """What each kind of decision costs, in the unit of barrier time; null where not measured."""

    br0_time: int | None = Field(description="Barrier time of BR-0, to compare with.")
    placement: Ends[int] | None = Field(
        description="BR-0 against the best replicas at its own admissions."
    )
    two_stage_rule: int | None = Field(description="BR-0 against the exact tick.")
    greedy_ticks: Ends[int] | None = Field(
        description="The exact tick against the best replicas at its own admissions."
    )
    online: Ends[int] | None = Field(
        description="The best replicas at the exact tick's admissions against the fastest schedule "
        "in which nobody waits beside a free slot."
    )
    holding: Ends[int] | None = Field(
        description="That schedule against the fastest of all, which may wait for every request."
    )
    perfect_prediction: int | None = Field(
        description="What BR-H with true lengths saves against BR-0."
    )
    prediction_error: int | None = Field(
        description="BR-H with the survival predictor against BR-H with true lengths."
    )


class HoldFacts(Contract):
    """The fastest schedule under one rule of waiting (case B)."""

    hold: int | None = Field(description="Most steps a request may wait; null: any number.")
    work_conserving: bool = Field(
        description="Whether no request may wait while a replica has room for it."
    )
    feasible: bool | None = Field(description="Null where the time limit came first.")
    incumbent: int | None
    bound: int | None
    proved: bool


class CaseFacts(Contract):
    """One instance."""

    name: str
    family: str = Field(description="Recipe, name of the trace, or 'file'.")
    synthetic: bool | None = Field(
        description="Whether the requests were generated; null if unknown."
    )
    requests: int
    replicas: int
    slots: int
    a0: float = Field(description="Seconds per token of the peak load.")
    b0: float = Field(description="Seconds per step.")
    unit_s: float = Field(description="Seconds that one unit of barrier time stands for.")
    routers: list[RouterFacts]
    decomposition: Decomposition
    hold_curve: list[HoldFacts] | None = Field(
        description="Null where the instance is too large for case B."
    )


class Spread(Contract):
    """Relative gaps of one policy over all instances on which they are defined."""

    defined: Annotated[list[int], Field(min_length=2, max_length=2)] = Field(
        description="Instances behind either end."
    )
    mean: Ends[float]
    largest: Ends[float]


class RouterSummary(Contract):
    """One policy over all instances."""

    router: str
    cases: int
    proved: int = Field(description="Instances whose optimum at the same admissions is proved.")
    same_admissions_time: Spread
    same_admissions_imbalance: Spread
    work_conserving_time: Spread
    any_admissions_time: Spread


class WorstFacts(Contract):
    """The worst observed ratio of a policy (not a competitive ratio), and a small witness."""

    router: str
    case: str
    ratio: float = Field(description="(value - incumbent)/incumbent of barrier time, case A.")
    shrunk_ratio: float = Field(description="The same on the shrunk instance.")
    instance: InstanceDocument = Field(description="The shrunk instance.")


class Settings(Contract):
    """What was asked for."""

    routers: list[str]
    seed: int = Field(description="Of the policies that draw.")
    time_limit_s: float = Field(description="For each solve.")
    free_requests: int = Field(description="Case B is solved up to so many requests.")
    notes: list[str] = Field(description="What reading a trace left out.")


class Provenance(Contract):
    """Which code made the numbers, when and how fast; not part of the result."""

    command: str
    started: str = Field(description="ISO 8601, UTC.")
    revision: Revision
    versions: dict[str, str]
    wall_s: float


class GapDocument(Contract):
    """``gap.json`` and ``brtheory gap --json``."""

    schema_: Literal["brtheory.gap/1"] = Field(alias="schema", description="Name of this contract.")
    settings: Settings
    summary: list[RouterSummary]
    worst_observed: list[WorstFacts]
    cases: list[CaseFacts]
    provenance: Provenance

    def to_text(self) -> str:
        """The JSON of ``gap.json``."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"


def json_schema_text() -> str:
    """JSON Schema of ``gap.json`` as published under docs/schemas."""
    return json.dumps(GapDocument.model_json_schema(by_alias=True), indent=2) + "\n"
