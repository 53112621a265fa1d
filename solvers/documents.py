"""Problems from files: an instance, or for case C also the state of one tick."""

from pathlib import Path

from brtheory.contracts import read_contract, schema_of
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.offline.assignment import read_assignment
from brtheory.offline.instance import read_instance
from brtheory.routers.tick_document import TickDocument
from solvers.objective import ObjectiveName
from solvers.problem import TickProblem, admission_steps, first_tick

TICK_SCHEMA = "brtheory.tick/1"


def read_tick_problem(path: Path, objective: ObjectiveName) -> TickProblem:
    """Case C from a tick state (``brtheory.tick/1``) or from the first tick of an instance.

    The router and the parameters that a tick state names are not looked at.

    Raises
    ------
    InputError
        With ``file:line`` if the file fits neither contract.
    """
    if schema_of(path) != TICK_SCHEMA:
        return first_tick(read_instance(path), objective)
    document = read_contract(path, TickDocument)
    try:
        return TickProblem(_state(document), objective)
    except InputError as error:
        raise InputError(f"{path}: {error.where}", error.expected, error.got) from error


def read_admission_steps(path: Path) -> dict[int, int]:
    """Admission step of each request of an assignment file.

    Raises
    ------
    InputError
        With the file if it does not fit the contract or admits a request twice.
    """
    assignment = read_assignment(path)
    try:
        return admission_steps(assignment)
    except InputError as error:
        raise InputError(f"{path}: {error.where}", error.expected, error.got) from error


def _state(document: TickDocument) -> TickState:
    tokens = [replica.free_tokens for replica in document.replicas]
    limited = [each for each in tokens if each is not None]
    if limited and len(limited) < len(tokens):
        raise InputError("replicas", "free_tokens on every replica or on none", "on some")
    return TickState(
        loads=[replica.loads for replica in document.replicas],
        free_slots=[replica.free_slots for replica in document.replicas],
        pool=[
            Request(r.id, r.prompt_tokens, ready_s=-r.wait, reserved_tokens=r.reserved_tokens)
            for r in document.pool
        ],
        free_tokens=limited or None,
    )
