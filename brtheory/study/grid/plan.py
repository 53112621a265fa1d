"""What a grid study runs: cells under labels, one an axis, and what they are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from brtheory.errors import InputError
from brtheory.simulation.run import RunConfig
from brtheory.study.choices import BASELINE
from brtheory.study.grid.document import Axis, AxisValue, Baseline, Value
from brtheory.study.supply import Supply
from brtheory.study.tasks import RunTask, Task

ROUTER = "router"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One task of the grid.

    Parameters
    ----------
    labels
        Value of every axis; cells that differ in the seed alone are averaged.
    task
        What is computed: mostly a ``RunTask``.
    supply, requests, seed
        On which requests.
    """

    labels: Mapping[str, Value]
    task: Task
    supply: Supply
    requests: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A grid study before it has run.

    Parameters
    ----------
    name
        Name of the subcommand and of the result file.
    title, question
        Heading, and what the study asks, for people.
    axes
        Axes with the titles of their values, in the order of tables.
    cells
        What is run.
    baseline
        Ratios are quoted against the cell that differs in this axis alone and has this value there.
    conditions
        What all cells have in common, as name and text.
    notes
        What a reader of the numbers should know.
    """

    name: str
    title: str
    question: str
    axes: Sequence[Axis]
    cells: Sequence[Cell]
    baseline: Baseline = field(default_factory=lambda: Baseline(axis=ROUTER, value=BASELINE))
    conditions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = {axis.name for axis in self.axes}
        for cell in self.cells:
            if set(cell.labels) != names:
                raise InputError(f"study {self.name}", f"labels {sorted(names)}", dict(cell.labels))


def run_cells(
    labels: Mapping[str, Value], config: RunConfig, supply: Supply, *, requests: int, seeds: int
) -> list[Cell]:
    """A simulated run under seeds 0 .. seeds - 1, each on the requests of its seed."""
    return [
        Cell(
            labels=labels,
            task=RunTask(replace(config, seed=seed)),
            supply=supply,
            requests=requests,
            seed=seed,
        )
        for seed in range(seeds)
    ]


def axis(name: str, title: str, values: Mapping[Any, str] | Sequence[Value]) -> Axis:
    """An axis from values, or from values and how they are called."""
    titles = values if isinstance(values, Mapping) else {value: str(value) for value in values}
    return Axis(
        name=name,
        title=title,
        values=[AxisValue(value=value, title=text) for value, text in titles.items()],
    )
