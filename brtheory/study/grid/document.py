"""The document of a grid study: means over seeds by labels, derived numbers, tables, findings.

``results.json`` is one ``GridDocument``; ``results.parquet`` holds its runs. Everything but
``provenance`` depends on the plan, the requests and the code alone.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.study.results import Finding, Provenance, Scope

Value = str | int | float


class AxisValue(Contract):
    """One value of an axis and how it is called."""

    value: Value
    title: str


class Axis(Contract):
    """What varies over the cells."""

    name: str
    title: str
    values: list[AxisValue]


class Baseline(Contract):
    """Ratios are against the cell with this value on this axis and the same on all others."""

    axis: str
    value: Value


class Source(Contract):
    """Requests that were played."""

    name: str
    source: str
    synthetic: bool
    requests: list[int] = Field(description="Numbers of requests a run played, each once.")


class GridEstimate(Contract):
    """Mean over seeds with a 95 % Student interval, and the paired ratio with Fieller's."""

    mean: float
    low: float | None
    high: float | None
    values: list[float] = Field(description="One a seed, in the order of the seeds.")
    ratio: float | None = Field(description="Against the baseline; null where there is none.")
    ratio_low: float | None
    ratio_high: float | None


class GridSummary(Contract):
    """All metrics under one set of labels."""

    labels: dict[str, Value]
    scope: Scope = Field(description="Loaded window, or all steps where that is empty.")
    metrics: dict[str, GridEstimate | None]


class Derived(Contract):
    """A number computed from the others, or one that somebody else reported."""

    name: str
    labels: dict[str, Value]
    value: float
    low: float | None = None
    high: float | None = None
    unit: str
    source: str = Field(description="How it was computed, or who reported it.")


class Entry(Contract):
    """One cell of a table for people."""

    text: str
    detail: str = ""
    best: bool = False


class Line(Contract):
    """One line of a table."""

    title: str
    entries: list[Entry]


class Table(Contract):
    """A table as the terminal, the page and RESULTS.md show it."""

    title: str
    corner: str = Field(description="Heading of the first column.")
    columns: list[str]
    lines: list[Line]
    caption: str = ""


class GridDocument(Contract):
    """``results.json`` of a grid study, and what it prints with ``--json``."""

    schema_: Literal["brtheory.grid-study/1"] = Field(
        alias="schema", description="Name of this contract."
    )
    study: str
    title: str
    question: str
    axes: list[Axis]
    baseline: Baseline
    conditions: dict[str, str]
    seeds: list[int]
    sources: list[Source]
    notes: list[str]
    summaries: list[GridSummary]
    derived: list[Derived]
    tables: list[Table]
    findings: list[Finding]
    provenance: Provenance

    def axis(self, name: str) -> Axis:
        """An axis by name; KeyError if there is none."""
        return {axis.name: axis for axis in self.axes}[name]

    def values(self, name: str) -> list[Value]:
        """Values of an axis."""
        return [entry.value for entry in self.axis(name).values]

    def title_of(self, name: str, value: Value) -> str:
        """How a value of an axis is called."""
        return {entry.value: entry.title for entry in self.axis(name).values}[value]

    def estimate(self, metric: str, labels: Mapping[str, Value]) -> GridEstimate | None:
        """One number under a full set of labels, None where there is none."""
        for summary in self.summaries:
            if summary.labels == labels:
                return summary.metrics.get(metric)
        return None

    def having(self, labels: Mapping[str, Value]) -> Iterator[GridSummary]:
        """Summaries that have these labels, whatever the others are."""
        for summary in self.summaries:
            if labels.items() <= summary.labels.items():
                yield summary

    def derivation(self, name: str, labels: Mapping[str, Value]) -> Derived | None:
        """A derived number, None where there is none."""
        for derived in self.derived:
            if derived.name == name and derived.labels == labels:
                return derived
        return None
