"""An assignment: for each request its replica and the absolute step at which it is admitted.

Contract ``brtheory.assignment/1``. An assignment carries no claim; ``evaluate`` judges it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from brtheory.contracts import Contract, read_contract


@dataclass(frozen=True, slots=True)
class Placement:
    """Request ``id`` is admitted to ``replica`` at absolute ``step``."""

    id: int
    replica: int
    step: int


Assignment = tuple[Placement, ...]


class _PlacementDocument(Contract):
    id: int
    replica: int
    step: int


class AssignmentDocument(Contract):
    """Contract ``brtheory.assignment/1``: admissions as JSON."""

    schema_: Annotated[
        Literal["brtheory.assignment/1"],
        Field(alias="schema", description="Name of this contract."),
    ]
    admissions: list[_PlacementDocument]


def read_assignment(path: Path) -> Assignment:
    """Read an assignment file.

    Values that no instance allows (a replica of -1) are the judge's to refuse, not the reader's.

    Raises
    ------
    InputError
        With ``file:line`` if it does not fit the contract.
    """
    document = read_contract(path, AssignmentDocument)
    return tuple(Placement(p.id, p.replica, p.step) for p in document.admissions)


def assignment_to_json(placements: Iterable[Placement]) -> dict[str, object]:
    """Turn an assignment into a plain JSON object that fits the contract."""
    return {
        "schema": "brtheory.assignment/1",
        "admissions": [{"id": p.id, "replica": p.replica, "step": p.step} for p in placements],
    }
