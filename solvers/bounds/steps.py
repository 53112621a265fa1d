"""Combinatorial bounds on the peak of every step, summed without a loop over steps.

With W_k the total load, n_k the active requests and w_(1) >= w_(2) >= .. their weights at step k,

    M(k) >= ceil(W_k / G)                                     the work, spread evenly
    M(k) >= w_(1)                                             the largest request sits somewhere
    M(k) >= w_(qG-q+1) + .. + w_(qG+1),  1 <= q <= (n_k-1)/G  some replica holds q + 1 of qG + 1

(the last: q + 1 of the qG + 1 largest share a replica, and weigh at least as much as the q + 1
smallest of them). Between two events all weights grow by 1 a step, so their order stays, every
bound is a line in the step, and the sum over the segment is the sum of an envelope of lines.
docs/certificates.md has the proofs.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.evaluate import Line
from brtheory.offline.instance import Instance


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive steps between two events, in which the active requests stay the same.

    Parameters
    ----------
    start, end
        First step and the step after the last.
    weights
        Weights in tokens of the active requests at ``start``, ascending.
    """

    start: int
    end: int
    weights: tuple[int, ...]

    def __len__(self) -> int:
        return self.end - self.start


def admission_steps(instance: Instance, assignment: Assignment | None = None) -> dict[int, int]:
    """The admission step of each request: the assignment's, or each request's ready step.

    Raises
    ------
    InputError
        If the assignment does not admit exactly the instance's requests, each once and not before
        it is ready.
    """
    if assignment is None:
        return {request.id: request.ready for request in instance.requests}
    steps = {placement.id: placement.step for placement in assignment}
    if len(steps) < len(assignment):
        raise InputError("admissions", "each request once", "a request admitted twice")
    for request in instance.requests:
        if request.id not in steps:
            raise InputError("admissions", f"request {request.id}", "no admission of it")
        if steps[request.id] < request.ready:
            raise InputError(
                f"admission of request {request.id}",
                f"a step >= ready step {request.ready}",
                steps[request.id],
            )
    if len(steps) > len(instance.requests):
        unknown = min(steps.keys() - {request.id for request in instance.requests})
        raise InputError("admissions", "requests of the instance", f"request {unknown}")
    return steps


def segments(instance: Instance, steps: Mapping[int, int]) -> Iterator[Segment]:
    """Segments with at least one active request, in order of time."""
    events: dict[int, list[tuple[int, bool]]] = {}
    for request in instance.requests:
        start = steps[request.id]
        at_zero = request.prompt_tokens - start  # weight at step k is at_zero + k
        events.setdefault(start, []).append((at_zero, True))
        events.setdefault(start + request.output_tokens, []).append((at_zero, False))
    active: list[int] = []
    for start, end in pairwise(sorted(events)):
        for at_zero, arrives in events[start]:
            if arrives:
                insort(active, at_zero)
            else:
                del active[bisect_left(active, at_zero)]
        if active:
            yield Segment(start, end, tuple(at_zero + start for at_zero in active))


def step_bound(instance: Instance, steps: Mapping[int, int]) -> int:
    """Lower bound on sum_peak: the best combinatorial bound of every step, summed.

    Parameters
    ----------
    instance
        The problem.
    steps
        Admission step of each request.
    """
    return sum(segment_bound(s, replicas=instance.replicas) for s in segments(instance, steps))


def segment_bound(segment: Segment, *, replicas: int) -> int:
    """Sum over the segment's steps of the best combinatorial bound of the step."""
    work = (sum(segment.weights), len(segment.weights))
    whole = [(replicas * load, replicas * slope) for load, slope in peak_lines(segment, replicas)]
    return sum_of_ceilings([work, *whole], len(segment), divisor=replicas)


def peak_lines(segment: Segment, replicas: int) -> list[Line]:
    """Largest-request (q = 0) and pigeonhole bounds as (tokens at the start, growth a step)."""
    prefix = [0, *accumulate(segment.weights)]
    last = len(segment.weights)
    lines = []
    for q in range((last - 1) // replicas + 1):
        smallest = last - (q * replicas + 1)  # position of the (qG + 1)-th largest
        lines.append((prefix[smallest + q + 1] - prefix[smallest], q + 1))
    return lines


def work_bound(instance: Instance) -> int:
    """ceil(W/G): what the LP, the Lagrangian and column generation give for the whole problem."""
    return -(-instance.total_work // instance.replicas)


def sum_of_ceilings(lines: Sequence[Line], length: int, *, divisor: int) -> int:
    """Sum over j = 0 .. length - 1 of ceil(max over lines (load + j*slope) / divisor)."""
    total, start = 0, 0
    while start < length:
        load, slope = max((line[0] + start * line[1], line[1]) for line in lines)
        end = min([length, *_overtakings(lines, start, load=load, slope=slope)])
        # ceil(x / d) = floor((x + d - 1) / d)
        total += floor_sum(end - start, divisor, slope=slope, offset=load + divisor - 1)
        start = end
    return total


def floor_sum(terms: int, divisor: int, *, slope: int, offset: int) -> int:
    """Sum over j = 0 .. terms - 1 of floor((slope*j + offset) / divisor), slope, offset >= 0.

    Euclid's algorithm: O(log) steps, whatever the number of terms.
    """
    total = 0
    while terms > 0:
        total += terms * (terms - 1) // 2 * (slope // divisor) + terms * (offset // divisor)
        slope, offset = slope % divisor, offset % divisor
        top = slope * terms + offset
        # Count lattice points by columns instead: the roles of slope and divisor swap.
        terms, offset, slope, divisor = top // divisor, top % divisor, divisor, slope
    return total


def _overtakings(lines: Sequence[Line], start: int, *, load: int, slope: int) -> Iterable[int]:
    """First steps at which a steeper line is strictly above the present peak line."""
    for other_load, other_slope in lines:
        if other_slope > slope:
            ahead = load - (other_load + start * other_slope)
            yield start + ahead // (other_slope - slope) + 1
