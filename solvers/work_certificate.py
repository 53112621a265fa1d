"""The plain checker of bounds that hold for every admission: integers only, nothing trusted.

The claim: whoever serves all requests of an instance, admitting them in any order and at any step
from their ready step on, executes at least ``steps`` steps with a sum of peaks of at least
``sum_peak``; so barrier time is at least b0*steps + a0*sum_peak.

    steps     >= the longest output: its steps differ and all are executed
    steps     >= ceil(sum of o_i over requests ready from step r on / (G*slots)), for every r
    steps     >= ceil(their work / (G*kv_capacity)), where capacity is limited
    sum_peak  >= ceil(W/G), W the sum of loads over all steps, equal in every schedule (T17)
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.offline.instance import Instance
from solvers.certificate import Count, RefutedError, subject_digest

WORK_SCHEMA = "brtheory.work-certificate/1"


class WorkCertificate(Contract):
    """Contract ``brtheory.work-certificate/1``: least steps and sum of peaks of any admissions."""

    schema_: Annotated[Literal["brtheory.work-certificate/1"], Field(alias="schema")]
    subject: Annotated[str, Field(description="Digest of the instance.")]
    steps: Count
    sum_peak: Count


def work_certificate(instance: Instance) -> WorkCertificate:
    """The strongest claim of this kind for an instance.

    Raises
    ------
    InputError
        If its replicas differ in speed or slots.
    """
    instance.check_alike()
    return WorkCertificate.model_validate(
        {
            "schema": WORK_SCHEMA,
            "subject": subject_digest(instance, {}),
            "steps": max(_step_bounds(instance), default=0),
            "sum_peak": _least_sum_peak(instance),
        }
    )


def check_work(instance: Instance, claim: WorkCertificate) -> None:
    """Verify a claim from the instance alone.

    Raises
    ------
    RefutedError
        If it is about another instance, or claims more than is proved.
    """
    if claim.subject != subject_digest(instance, {}):
        raise RefutedError("another instance")
    if claim.sum_peak > _least_sum_peak(instance):
        raise RefutedError(
            f"claims sum of peaks {claim.sum_peak}, proved {_least_sum_peak(instance)}"
        )
    if claim.steps > max(_step_bounds(instance), default=0):
        raise RefutedError(f"claims {claim.steps} steps, proved {max(_step_bounds(instance))}")


def _least_sum_peak(instance: Instance) -> int:
    return -(-sum(r.work for r in instance.requests) // instance.replicas)


def _step_bounds(instance: Instance) -> Iterator[int]:
    places = instance.replicas * instance.slots
    outputs = work = 0
    for request in sorted(instance.requests, key=lambda r: -r.ready):
        outputs, work = outputs + request.output_tokens, work + request.work
        yield request.output_tokens
        yield -(-outputs // places)
        if instance.kv_capacity is not None:
            yield -(-work // (instance.replicas * instance.kv_capacity))
