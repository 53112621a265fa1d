"""Contract ``brtheory.tick/1``: one tick as JSON, so that a decision can be asked for and checked.

The state names the router and its parameters; the answer lists the admissions in decision order.
Pooled routers decide on ``loads`` (H + 1 entries a replica), ``free_slots`` and the pool. Immediate
routers place the pool's requests one after the other, each into the replica's own FIFO, and read
``active``, ``queued`` and ``queued_tokens`` too.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from brtheory.contracts import Contract
from brtheory.core.admission import Admission
from brtheory.core.cluster import Cluster, as_int_array
from brtheory.core.fscore import LOAD_LIMIT
from brtheory.core.requests import Request
from brtheory.core.tick import TickState, check_state
from brtheory.errors import InputError
from brtheory.routers.params import params_from_json
from brtheory.routers.protocol import ForeseeingRouter, ImmediateRouter, following
from brtheory.routers.registry import find_router

Count = Annotated[int, Field(ge=0, le=2**31)]
Tokens = Annotated[int, Field(ge=0, le=LOAD_LIMIT)]


class ReplicaDocument(Contract):
    """One replica of a tick state."""

    loads: Annotated[
        list[Tokens],
        Field(min_length=1, description="Projected KV tokens at h = 0 .. H; H + 1 entries."),
    ]
    free_slots: Count
    free_tokens: Annotated[
        Tokens | None, Field(description="KV tokens not yet reserved; null: unlimited.")
    ] = None
    active: Annotated[Count, Field(description="Requests decoding (immediate routers).")] = 0
    queued: Annotated[Count, Field(description="Requests in its own FIFO.")] = 0
    queued_tokens: Annotated[Tokens, Field(description="Their prompt tokens.")] = 0


class PooledRequestDocument(Contract):
    """One waiting request of a tick state."""

    id: Annotated[int, Field(ge=0, le=2**63 - 1)]
    prompt_tokens: Annotated[int, Field(ge=1, le=LOAD_LIMIT)]
    wait: Annotated[float, Field(ge=0, description="Seconds since it became ready.")] = 0.0
    reserved_tokens: Annotated[
        Tokens, Field(description="KV tokens reserved at admission (prompt + length limit).")
    ] = 0
    steps_present: Annotated[
        Annotated[int, Field(ge=1, le=2**31)] | None,
        Field(
            description="Steps h = 0, 1, .. at which it counts if admitted now, for brh with "
            "score=exact; null: throughout the horizon."
        ),
    ] = None


class TickDocument(Contract):
    """Contract ``brtheory.tick/1``: the state one tick decides on."""

    schema_: Annotated[
        Literal["brtheory.tick/1"], Field(alias="schema", description="Name of this contract.")
    ]
    router: Annotated[str, Field(description="Name in the registry.")]
    params: Annotated[
        dict[str, Any], Field(default_factory=dict, description="Parameters of the router.")
    ]
    replicas: Annotated[list[ReplicaDocument], Field(min_length=1)]
    pool: Annotated[list[PooledRequestDocument], Field(description="Oldest first.")]
    seed: Annotated[int, Field(ge=0, description="For routers that draw.")] = 0


class AdmissionDocument(Contract):
    """One admission of an answer."""

    id: int
    replica: int
    stage: Annotated[int | None, Field(description="1 or 2; null for routers without stages.")]
    score: Annotated[
        int | None, Field(description="Integer F of the whole admitted set; null if unscored.")
    ]


class TickAnswerDocument(Contract):
    """Answer to ``brtheory.tick/1``: admissions in decision order, a set oldest first."""

    admissions: list[AdmissionDocument]


def answer_tick(document: TickDocument) -> dict[str, object]:
    """Decide one tick.

    Returns
    -------
    dict
        An object that fits ``TickAnswerDocument``.

    Raises
    ------
    InputError
        If router, parameters or state do not fit; ``where`` is the path inside the document.
    """
    return {
        "admissions": [
            {"id": a.id, "replica": a.replica, "stage": a.stage, "score": a.score}
            for a in decide(document)
        ]
    }


def decide(document: TickDocument) -> Sequence[Admission]:
    """Admissions of one tick; raises as ``answer_tick``."""
    spec = find_router(document.router)
    params: object = params_from_json(spec.params, document.params, where="params")
    router = spec.build(params, np.random.default_rng(document.seed))
    pool = [
        Request(r.id, r.prompt_tokens, ready_s=-r.wait, reserved_tokens=r.reserved_tokens)
        for r in document.pool
    ]
    if isinstance(router, ImmediateRouter):
        _check_immediate(pool, document.replicas)
        return _place_all(router, pool, document)
    if isinstance(router, ForeseeingRouter):
        steps = {r.id: r.steps_present for r in document.pool}
        router.foresee(lambda request: steps[request.id] or len(document.replicas[0].loads))
    follower = following(router)
    if follower is not None:
        follower.look_ahead(len(document.replicas[0].loads) - 1)  # the rows say how far
    return router.tick(
        TickState(
            loads=[replica.loads for replica in document.replicas],
            free_slots=[replica.free_slots for replica in document.replicas],
            pool=pool,
            free_tokens=_free_tokens(document.replicas),
        )
    )


def _free_tokens(replicas: Sequence[ReplicaDocument]) -> list[int] | None:
    given = [replica.free_tokens for replica in replicas]
    known = [tokens for tokens in given if tokens is not None]
    if not known:
        return None
    if len(known) < len(given):
        missing = given.index(None)
        raise InputError(
            f"replicas[{missing}].free_tokens", "a number on every replica or on none", "null"
        )
    return known


def _check_immediate(pool: Sequence[Request], replicas: Sequence[ReplicaDocument]) -> None:
    present = [[replica.loads[0]] for replica in replicas]
    slots = [replica.free_slots for replica in replicas]
    check_state(TickState(loads=present, free_slots=slots, pool=pool), horizon=0)
    pooled = sum(request.prompt_tokens for request in pool)
    for position, replica in enumerate(replicas):
        # All of the pool may go to one replica; int64 holds the sum.
        most = replica.loads[0] + replica.queued_tokens + pooled
        if most > LOAD_LIMIT:
            expected = f"at most {LOAD_LIMIT} tokens: its load, its FIFO's and the pool's prompts"
            raise InputError(f"replicas[{position}]", expected, most)


def _place_all(
    router: ImmediateRouter, pool: Sequence[Request], document: TickDocument
) -> list[Admission]:
    replicas = document.replicas
    cluster = Cluster(replicas=len(replicas), slots=1)
    cluster.loads = as_int_array([replica.loads[0] for replica in replicas])
    cluster.active = as_int_array([replica.active for replica in replicas])
    cluster.queued = as_int_array([replica.queued for replica in replicas])
    cluster.queued_tokens = as_int_array([replica.queued_tokens for replica in replicas])
    placed = []
    for request in pool:
        replica = router.place(request, cluster)
        cluster.enqueue(request, replica)
        placed.append(Admission(request.id, replica))
    return placed
