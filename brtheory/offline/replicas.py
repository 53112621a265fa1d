"""A file that describes replicas which differ: slots, speed, a_g and b_g of each.

Contract ``brtheory.replicas/1``: the same objects as ``unequal`` of an instance.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from brtheory.contracts import Contract, read_contract
from brtheory.core.unequal import FASTEST, LONGEST_S, MOST_SLOTS, SLOWEST, Replica

Seconds = Annotated[float, Field(ge=0, le=LONGEST_S)]


class ReplicaDocument(Contract):
    """One replica."""

    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    speed: Annotated[
        float, Field(ge=SLOWEST, le=FASTEST, description="Divides a0 and b0; 0.5 is half as fast.")
    ] = 1.0
    a0: Annotated[Seconds, Field(description="Own seconds per KV token.")] | None = None
    b0: Annotated[Seconds, Field(description="Own seconds per step.")] | None = None


class ReplicasDocument(Contract):
    """Contract ``brtheory.replicas/1``: replicas that differ, as ``simulate`` reads them."""

    schema_: Annotated[
        Literal["brtheory.replicas/1"], Field(alias="schema", description="Name of this contract.")
    ]
    replicas: Annotated[list[ReplicaDocument], Field(min_length=1)]


def read_replicas(path: Path) -> tuple[Replica, ...]:
    """Read a file of replicas.

    Raises
    ------
    InputError
        With ``file:line`` if it does not fit the contract.
    """
    return replicas_from_documents(read_contract(path, ReplicasDocument).replicas)


def replicas_from_documents(documents: Sequence[ReplicaDocument]) -> tuple[Replica, ...]:
    """Turn checked documents into replicas."""
    return tuple(Replica(d.slots, d.speed, d.a0, d.b0) for d in documents)
