"""The judge of case C: recomputes slots, KV room and rows of one tick, without a solver."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.offline.assignment import Assignment


@dataclass(frozen=True, slots=True)
class TickEvaluation:
    """What the tick judge found.

    Parameters
    ----------
    violations
        Empty exactly if every admission is allowed and no waiting request still fits.
    sum_peak, sum_load
        sum_h max_g and sum_h sum_g of the projected rows after the tick; None where an
        admission names no pooled request or no replica.
    """

    violations: tuple[str, ...]
    sum_peak: int | None
    sum_load: int | None


def evaluate_tick(state: TickState, admissions: Assignment) -> TickEvaluation:
    """Judge the admissions of one tick (their ``step`` is ignored)."""
    pool = {request.id: request for request in state.pool}
    violations = list(_name_violations(state, admissions, pool))
    if violations:
        return TickEvaluation(tuple(violations), None, None)
    rows = [list(row) for row in state.loads]
    slots = list(state.free_slots)
    room = None if state.free_tokens is None else list(state.free_tokens)
    for admission in admissions:
        request, g = pool.pop(admission.id), admission.replica
        rows[g] = [load + request.prompt_tokens for load in rows[g]]
        slots[g] -= 1
        if room is not None:
            room[g] -= request.reserved_tokens
    return TickEvaluation(
        violations=tuple(_room_violations(slots, room, pool)),
        sum_peak=sum(max(column) for column in zip(*rows, strict=True)),
        sum_load=sum(map(sum, rows)),
    )


def _name_violations(
    state: TickState, admissions: Assignment, pool: dict[int, Request]
) -> Iterator[str]:
    for request_id, times in Counter(a.id for a in admissions).items():
        if request_id not in pool:
            yield f"request {request_id}: not in the pool"
        elif times > 1:
            yield f"request {request_id}: admitted {times} times"
    for a in admissions:
        if not 0 <= a.replica < len(state.loads):
            yield f"request {a.id}: replica {a.replica} is not in 0 .. {len(state.loads) - 1}"


def _room_violations(
    slots: list[int], room: list[int] | None, waiting: dict[int, Request]
) -> Iterator[str]:
    for g, free in enumerate(slots):
        if free < 0:
            yield f"replica {g}: {-free} requests more than free slots"
        if room is not None and room[g] < 0:
            yield f"replica {g}: {-room[g]} KV tokens more than free"
        for request in waiting.values():
            if free > 0 and (room is None or request.reserved_tokens <= room[g]):
                yield f"request {request.id}: left waiting while replica {g} has room"
                return
