"""What a problem asks of an assignment beyond the judge: given steps, hold, work conservation.

Work-conserving: at no step does a request wait while a replica has, after the admissions of that
step, a free slot and room to reserve the request's prompt + output tokens (as the engine does).
"""

from collections.abc import Iterator

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.problem import FixedAdmissions, FreeAdmissions


def rule_violations(
    problem: FixedAdmissions | FreeAdmissions, assignment: Assignment
) -> Iterator[str]:
    """Name what breaks the rules, given an assignment of every request."""
    if isinstance(problem, FixedAdmissions):
        for p in assignment:
            if p.step != problem.steps[p.id]:
                yield f"request {p.id}: admitted at step {p.step}, given {problem.steps[p.id]}"
        return
    requests = {r.id: r for r in problem.instance.requests}
    for p in assignment:
        held = p.step - requests[p.id].ready
        if problem.hold is not None and held > problem.hold:
            yield f"request {p.id}: held {held} steps, hold {problem.hold}"
    if problem.work_conserving:
        yield from _idle_room(problem.instance, assignment)


def _idle_room(instance: Instance, assignment: Assignment) -> Iterator[str]:
    """Only starts, ends and ready steps change anything, so only they are looked at."""
    requests = {r.id: r for r in instance.requests}
    placed = [(requests[p.id], p) for p in assignment]
    looks = {r.ready for r, _ in placed} | {p.step for _, p in placed}
    looks |= {p.step + r.output_tokens for r, p in placed}
    for step in sorted(looks):
        for request, p in placed:
            if request.ready <= step < p.step:
                for g in range(instance.replicas):
                    if _has_room(instance, placed, step=step, replica=g, request=request):
                        yield f"request {request.id}: waits at step {step}, replica {g} has room"
                        return


def _has_room(
    instance: Instance,
    placed: list[tuple[OfflineRequest, Placement]],
    *,
    step: int,
    replica: int,
    request: OfflineRequest,
) -> bool:
    active = [
        r for r, p in placed if p.replica == replica and p.step <= step < p.step + r.output_tokens
    ]
    if len(active) >= instance.slots:
        return False
    if instance.kv_capacity is None:
        return True
    reserved = sum(r.prompt_tokens + r.output_tokens for r in (*active, request))
    return reserved <= instance.kv_capacity
