"""Where requests may be held without limit their ready steps do not matter: all may be the last.

Keep of any schedule the executed steps only, and let them follow one another from the last ready
step on. Every request is ready by then and runs for as long beside the same others, so slots, KV
loads, the number of steps and every peak stay what they were. Some optimum is therefore one of the
problem in which all requests are ready together: with far fewer admission steps to consider.
"""

from dataclasses import replace

from brtheory.offline.assignment import Assignment
from solvers.problem import FreeAdmissions


def ready_together(problem: FreeAdmissions) -> FreeAdmissions:
    """The problem with every request ready when the last one is, where that changes no optimum.

    Under a rule on waiting ready steps matter: the problem is returned as it is.
    """
    if problem.restricted:
        return problem
    instance = problem.instance
    last = max((r.ready for r in instance.requests), default=0)
    requests = tuple(replace(r, ready=last) for r in instance.requests)
    return replace(problem, instance=replace(instance, requests=requests))


def without_idle_steps(problem: FreeAdmissions, assignment: Assignment) -> Assignment:
    """The assignment's executed steps, one after the other from the last ready step on.

    An assignment of requests that the instance does not have stays as it is, for the judge to name.
    """
    outputs = {r.id: r.output_tokens for r in problem.instance.requests}
    if any(p.id not in outputs for p in assignment):
        return assignment
    # Busy up to ``end``, where what comes next may start.
    moved, end, idle = [], 0, -max((r.ready for r in problem.instance.requests), default=0)
    for p in sorted(assignment, key=lambda p: p.step):
        idle += max(0, p.step - end)
        end = max(end, p.step + outputs[p.id])
        moved.append(replace(p, step=p.step - idle))
    return tuple(moved)


def as_early_as_ready(problem: FreeAdmissions, assignment: Assignment) -> Assignment:
    """The whole assignment moved to the earliest step at which every request is ready."""
    ready = {r.id: r.ready for r in problem.instance.requests}
    slack = min((p.step - ready[p.id] for p in assignment), default=0)
    return tuple(replace(p, step=p.step - slack) for p in assignment)
