"""The document of a study: rows, summaries over seeds, growth with G, findings, provenance.

``results.json`` is one ``StudyDocument``; ``results.parquet`` holds its rows, one a run and scope.
Everything but ``provenance`` depends on the configuration, the trace and the code alone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from brtheory.contracts import Contract
from brtheory.files import write_text_atomic
from brtheory.study.provenance import Revision
from brtheory.traces.table_file import write_parquet

Scope = Literal["loaded_window", "all_steps"]
SCOPES: tuple[Scope, ...] = ("loaded_window", "all_steps")
Number = float | int | None


class TraceFacts(Contract):
    """The requests of a study."""

    name: str = Field(description="File name or workload name.")
    source: str = Field(description="Where the data comes from.")
    synthetic: bool = Field(description="Whether the requests were generated.")
    requests: int = Field(description="Requests a run plays.")
    digests: list[str] = Field(description="SHA-256 of times and lengths, one a seed.")
    prompt_tokens_mean: float = Field(description="Under seed 0.")
    output_tokens_mean: float = Field(description="Under seed 0.")
    notes: list[str] = Field(description="What reading it left out, repeated or assumed.")


class Conditions(Contract):
    """What all runs have in common."""

    replicas: int
    slots: int
    kv_capacity: int | None
    arrivals: str
    scaling_arrivals: str
    a0: float = Field(description="Seconds per token of the peak load.")
    b0: float = Field(description="Seconds per step.")
    seeds: list[int]
    predictor: str = Field(
        description="Predictor beside the oracle, which is told true output lengths."
    )


class RouterFacts(Contract):
    """One router of the study."""

    label: str
    title: str
    router: str
    family: Literal["immediate", "pooled"]
    params: dict[str, Any]
    oracle: bool = Field(description="Whether it is told true output lengths: an upper bound.")
    predictor: str | None = Field(
        default=None, description="Where its knowledge of output lengths comes from; null: none."
    )
    automatic_horizon: bool = Field(description="H = the time between completions on a replica.")
    outputs_within_horizon: float | None = Field(
        description="Share of requests whose output is at most H tokens; null without a horizon."
    )


class Row(Contract):
    """Metrics of one run over one scope; null where the scope is empty."""

    section: Literal["routers", "scaling"]
    label: str
    seed: int
    replicas: int
    requests_offered: int
    scope: Scope
    metrics: dict[str, Number]


class Estimate(Contract):
    """Mean over seeds with a 95 % Student interval, and the ratio to JSQ with Fieller's."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    ratio_to_jsq: float | None
    ratio_low: float | None
    ratio_high: float | None


class Summary(Contract):
    """One router over one scope."""

    section: Literal["routers", "scaling"]
    label: str
    replicas: int
    scope: Scope
    metrics: dict[str, Estimate | None]


class IndependentLoads(Contract):
    """Monte Carlo of G independent stationary replica loads."""

    replicas: int
    excess_tokens: float = Field(description="Mean of max - mean: compare with imbalance / G.")
    standard_error_tokens: float


class Finding(Contract):
    """A sentence computed from the numbers."""

    kind: str
    text: str


class Provenance(Contract):
    """Which code made the numbers, when and how fast; not part of the result."""

    command: str
    started: str = Field(description="ISO 8601, UTC.")
    revision: Revision
    versions: dict[str, str]
    workers: int
    scheduler: str | None = Field(
        default=None, description="Where Dask ran the cells; null: processes of the study itself."
    )
    wall_s: float = Field(description="Of this invocation.")
    cell_wall_s: float = Field(description="Summed over cells, cached ones as first measured.")
    cells_computed: int
    cells_reused: int


class StudyDocument(Contract):
    """``results.json`` and ``brtheory study --json``."""

    schema_: Literal["brtheory.study/1"] = Field(
        alias="schema", description="Name of this contract."
    )
    trace: TraceFacts
    conditions: Conditions
    routers: list[RouterFacts]
    findings: list[Finding]
    summaries: list[Summary]
    independent_loads: list[IndependentLoads]
    rows: list[Row]
    provenance: Provenance

    @property
    def main_scope(self) -> Scope:
        """The loaded window, or all steps where that is empty (``--arrivals all``, short runs)."""
        loaded = any(
            s.metrics
            for s in self.summaries
            if (s.section, s.scope) == ("routers", "loaded_window")
        )
        return "loaded_window" if loaded else "all_steps"

    def estimate(self, label: str, metric: str, *, scope: Scope | None = None) -> Estimate | None:
        """One number of the comparison over the main scope or another; None where there is none."""
        wanted = ("routers", label, scope or self.main_scope)
        for summary in self.summaries:
            if (summary.section, summary.label, summary.scope) == wanted:
                return summary.metrics.get(metric)
        return None

    def values(self, label: str, metric: str) -> list[float]:
        """One value a seed over the main scope; empty if one is missing."""
        rows = [r for r in self.rows if (r.section, r.label) == ("routers", label)]
        return all_known(r.metrics.get(metric) for r in rows if r.scope == self.main_scope)

    def router(self, label: str) -> RouterFacts | None:
        """A router of the study by label."""
        return next((facts for facts in self.routers if facts.label == label), None)


def all_known(values: Iterable[Number]) -> list[float]:
    """The values as floats; none at all if one is unknown."""
    known = list(values)
    return [float(value) for value in known if value is not None] if None not in known else []


def write_results(document: StudyDocument, folder: Path) -> None:
    """Write results.json and results.parquet into ``folder``, each whole or not at all."""
    text = document.model_dump_json(by_alias=True, indent=1)
    write_text_atomic(folder / "results.json", text + "\n")
    frame = rows_frame(document.rows, document.routers)
    write_parquet(frame, folder / "results.parquet")


def rows_frame(rows: Sequence[Row], routers: Sequence[RouterFacts]) -> pl.DataFrame:
    """Rows as a table, one column a metric; parameters are a column of JSON."""
    facts = {router.label: router for router in routers}
    records = [
        {
            "section": row.section,
            "label": row.label,
            "router": facts[row.label].router,
            "params": json.dumps(facts[row.label].params, sort_keys=True),
            "seed": row.seed,
            "replicas": row.replicas,
            "requests_offered": row.requests_offered,
            "scope": row.scope,
            **_padded(row.metrics, rows),
        }
        for row in rows
    ]
    return pl.DataFrame(records, infer_schema_length=None)


def _padded(metrics: Mapping[str, Number], rows: Sequence[Row]) -> dict[str, Number]:
    """The metrics of a row, None for those an empty window does not have."""
    names = max((row.metrics for row in rows), key=len)
    return {name: metrics.get(name) for name in names}
