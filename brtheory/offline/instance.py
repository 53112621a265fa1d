"""An offline instance: replicas, requests with true output lengths, and the step-time model.

Contract ``brtheory.instance/1``. Steps are absolute integers; the step lasts b0 + a0*M seconds,
or max_g (b_g + a_g*L_g) where replicas differ (``brtheory.core.unequal``).
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from brtheory.contracts import Contract, at_line, parse_contract, read_text
from brtheory.core.unequal import Paces, Replica, paces_of, slots_of
from brtheory.errors import InputError
from brtheory.offline.replicas import ReplicaDocument, replicas_from_documents

TOKEN_LIMIT = 2**40
"""Largest token count of one request; also the largest step."""
REPLICA_LIMIT = 2**20
SECONDS_LIMIT = 1e9
"""Largest a0 and b0: the time of every schedule is a finite float."""

Tokens = Annotated[int, Field(ge=1, le=TOKEN_LIMIT)]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_LIMIT)]
Step = Annotated[int, Field(ge=0, le=TOKEN_LIMIT)]


@dataclass(frozen=True, slots=True)
class OfflineRequest:
    """One request of an instance.

    Parameters
    ----------
    id
        Unique within the instance.
    ready
        First step at which it may be admitted, >= 0.
    prompt_tokens
        s_i >= 1.
    output_tokens
        o_i >= 1: it occupies its replica for o_i steps and weighs s_i + a at age a = 0 .. o_i - 1.
    """

    id: int
    ready: int
    prompt_tokens: int
    output_tokens: int

    @property
    def work(self) -> int:
        """Token-steps it adds to the sum of loads: o*s + o*(o - 1)/2, wherever it runs (T17)."""
        o = self.output_tokens
        return o * self.prompt_tokens + o * (o - 1) // 2


@dataclass(frozen=True, slots=True)
class Instance:
    """A complete offline problem.

    Parameters
    ----------
    replicas, slots
        G >= 1 and B >= 1.
    kv_capacity
        KV tokens one replica can hold, None for unlimited.
    a0, b0
        Seconds per token of the peak load, and seconds per step; 0 .. SECONDS_LIMIT, not
        both 0.
    requests
        In any order; ids unique.
    unequal
        Where replicas differ: slots and speed of each; ``slots`` is then the most of any.

    Raises
    ------
    InputError
        If sizes or ids do not fit.
    """

    replicas: int
    slots: int
    kv_capacity: int | None
    a0: float
    b0: float
    requests: tuple[OfflineRequest, ...]
    unequal: tuple[Replica, ...] | None = None

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.slots < 1:
            raise InputError(
                "instance", "replicas >= 1 and slots >= 1", (self.replicas, self.slots)
            )
        if self.kv_capacity is not None and self.kv_capacity < 1:
            raise InputError("instance", "kv_capacity >= 1 or null", self.kv_capacity)
        if min(self.a0, self.b0) < 0 or self.a0 + self.b0 <= 0:
            raise InputError("instance", "a0 >= 0 and b0 >= 0, not both 0", (self.a0, self.b0))
        if not (self.a0 <= SECONDS_LIMIT and self.b0 <= SECONDS_LIMIT):  # NaN is refused too
            raise InputError("instance", f"a0 and b0 <= {SECONDS_LIMIT:g}", (self.a0, self.b0))
        if self.unequal is not None:
            slots_of(self.unequal, count=self.replicas, slots=self.slots)
            paces_of(self.unequal, a0=self.a0, b0=self.b0)
        seen: set[int] = set()
        for position, request in enumerate(self.requests):
            _check_request(request, position)
            if request.id in seen:
                raise InputError(f"requests[{position}].id", "ids used once", f"{request.id} twice")
            seen.add(request.id)

    @property
    def replica_slots(self) -> tuple[int, ...]:
        """Slots of each replica."""
        return slots_of(self.unequal, count=self.replicas, slots=self.slots)

    @property
    def paces(self) -> Paces | None:
        """Units of time a step and a token take on each replica, None where all are alike."""
        if self.unequal is None:
            return None
        return paces_of(self.unequal, a0=self.a0, b0=self.b0)

    def check_alike(self) -> None:
        """Refuse replicas that differ, for methods that hold only where they are alike.

        Raises
        ------
        InputError
            If they do.
        """
        if self.unequal is not None:
            raise InputError("unequal", "replicas that are alike, for this method", "unequal ones")

    @property
    def total_work(self) -> int:
        """W: the sum of loads over all steps and replicas of every complete schedule (T17)."""
        return sum(request.work for request in self.requests)


class _RequestDocument(Contract):
    id: Annotated[int, Field(ge=0, le=TOKEN_LIMIT)]
    ready: Step
    prompt_tokens: Tokens
    output_tokens: Tokens


class InstanceDocument(Contract):
    """Contract ``brtheory.instance/1``: an offline problem as JSON."""

    schema_: Annotated[
        Literal["brtheory.instance/1"], Field(alias="schema", description="Name of this contract.")
    ]
    replicas: Annotated[int, Field(ge=1, le=REPLICA_LIMIT)]
    slots: Annotated[int, Field(ge=1, le=REPLICA_LIMIT)]
    kv_capacity: Annotated[int, Field(ge=1)] | None = None
    a0: Annotated[
        float, Field(ge=0, le=SECONDS_LIMIT, description="Seconds per token of the peak load.")
    ]
    b0: Annotated[Seconds, Field(description="Seconds per step.")]
    requests: list[_RequestDocument]
    unequal: (
        Annotated[
            list[ReplicaDocument],
            Field(description="Replicas that differ, one entry each; slots is the most of any."),
        ]
        | None
    ) = None


def read_instance(path: Path) -> Instance:
    """Read an instance file.

    Raises
    ------
    InputError
        With ``file:line`` if it does not fit the contract.
    """
    text = read_text(path)
    document = parse_contract(text, InstanceDocument, name=str(path))
    try:
        return instance_from_document(document)
    except InputError as error:
        raise at_line(error, text, name=str(path)) from error


def instance_from_document(document: InstanceDocument) -> Instance:
    """Turn a checked document into an instance."""
    return Instance(
        replicas=document.replicas,
        slots=document.slots,
        kv_capacity=document.kv_capacity,
        a0=document.a0,
        b0=document.b0,
        requests=tuple(
            OfflineRequest(r.id, r.ready, r.prompt_tokens, r.output_tokens)
            for r in document.requests
        ),
        unequal=None if document.unequal is None else replicas_from_documents(document.unequal),
    )


def instance_to_json(instance: Instance) -> dict[str, object]:
    """Turn an instance into a plain JSON object that fits the contract."""
    unequal = {} if instance.unequal is None else {"unequal": [asdict(r) for r in instance.unequal]}
    return {
        "schema": "brtheory.instance/1",
        "replicas": instance.replicas,
        "slots": instance.slots,
        "kv_capacity": instance.kv_capacity,
        "a0": instance.a0,
        "b0": instance.b0,
        "requests": [
            {
                "id": r.id,
                "ready": r.ready,
                "prompt_tokens": r.prompt_tokens,
                "output_tokens": r.output_tokens,
            }
            for r in instance.requests
        ],
        **unequal,
    }


def _check_request(request: OfflineRequest, position: int) -> None:
    where = f"requests[{position}]"
    if request.ready < 0:
        raise InputError(f"{where}.ready", "a step >= 0", request.ready)
    for name in ("prompt_tokens", "output_tokens"):
        value = getattr(request, name)
        if not 1 <= value <= TOKEN_LIMIT:
            raise InputError(f"{where}.{name}", f"1 .. {TOKEN_LIMIT}", value)
