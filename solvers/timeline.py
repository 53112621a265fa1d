"""Case A cut at its events: between two of them the same requests are active.

With t_i given, the request i weighs s_i + k - t_i at step k, so within a segment every request is
a line of slope 1 and every replica a line of slope n_g. Lower bounds on M(k), for any assignment:

    work          ceil(sum_i w_i(k) / G)
    largest       max_i w_i(k)
    pigeonhole    the q + 1 smallest of the q*G + 1 largest: some replica holds q + 1 of those
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from brtheory.offline.evaluate import Line, sum_of_peaks
from brtheory.offline.instance import OfflineRequest
from solvers.problem import FixedAdmissions


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps between two events.

    Parameters
    ----------
    start, length
        First step, and number of steps >= 1.
    ended, started
        Requests that completed before ``start``, and those admitted at it, by (step, id).
    active
        Requests active throughout; empty for idle steps, which are not executed.
    """

    start: int
    length: int
    ended: tuple[OfflineRequest, ...]
    started: tuple[OfflineRequest, ...]
    active: tuple[OfflineRequest, ...]


def timeline(problem: FixedAdmissions) -> tuple[Segment, ...]:
    """Segments in order; together they cover first admission to last completion."""
    starts: dict[int, list[OfflineRequest]] = {}
    ends: dict[int, list[OfflineRequest]] = {}
    for request in problem.ordered:
        step = problem.steps[request.id]
        starts.setdefault(step, []).append(request)
        ends.setdefault(step + request.output_tokens, []).append(request)
    active: dict[int, OfflineRequest] = {}
    segments = []
    for start, end in pairwise(sorted(starts.keys() | ends.keys())):
        for request in ends.get(start, ()):
            del active[request.id]
        active |= {request.id: request for request in starts.get(start, ())}
        segments.append(
            Segment(
                start,
                end - start,
                tuple(ends.get(start, ())),
                tuple(starts.get(start, ())),
                tuple(active.values()),
            )
        )
    return tuple(segments)


def weights(problem: FixedAdmissions, segment: Segment) -> list[int]:
    """w_i at the segment's first step, in the order of ``segment.active``."""
    return [r.prompt_tokens + segment.start - problem.steps[r.id] for r in segment.active]


def peak_bound(weights_now: Sequence[int], *, replicas: int) -> int:
    """Lower bound on M at one step, from the weights of its active requests; 0 if there are none.

    Examples
    --------
    >>> peak_bound([5, 5, 5], replicas=2)  # two of the three share a replica
    10
    """
    if not weights_now:
        return 0
    lines = _bound_lines(weights_now, replicas=replicas)
    return -(-max(load for load, _ in lines) // replicas)


def segment_bound(weights_first: Sequence[int], length: int, *, replicas: int) -> int:
    """Lower bound on the sum of M over a segment, from the weights at its first step."""
    if not weights_first:
        return 0
    lines = _bound_lines(weights_first, replicas=replicas)
    return -(-sum_of_peaks(lines, length) // replicas)


def _bound_lines(weights_first: Sequence[int], *, replicas: int) -> list[Line]:
    """Every bound as a line over the steps of a segment, times G."""
    ordered = sorted(weights_first, reverse=True)
    lines = [(sum(ordered), len(ordered)), (replicas * ordered[0], replicas)]
    for q in range(1, (len(ordered) - 1) // replicas + 1):
        among = ordered[q * replicas - q : q * replicas + 1]
        lines.append((replicas * sum(among), replicas * (q + 1)))
    return lines
