"""THE JUDGE: recomputes feasibility and every objective of an assignment, without a solver.

Whoever made an assignment, its numbers are the ones computed here, in exact integers:

    sum_peak = sum_k M(k)           sum_load = sum_k sum_g L_g(k) = W (conservation, T17)
    imbalance_total = G*sum_peak - sum_load           time = b0*steps + a0*sum_peak

Where replicas differ in speed, time = u * sum_k max_g T_g(k) instead, with the integer
T_g = B_g + A_g*L_g (``brtheory.core.unequal``), and what they wait at the barrier, summed, is

    idle = u * sum_k (G*max_g T_g(k) - sum_g T_g(k)).

Steps with nothing active are skipped and not counted. Between two events (an admission or a
completion) each replica's load is a line with slope n_g, so M is the upper envelope of G lines and
its sum needs no step-by-step loop (nor does that of max T): instances of any length are judged.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.core.unequal import Paces
from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.instance import Instance, OfflineRequest

Line = tuple[int, int]
"""(load at the segment's first step, active requests): load after j steps is load + j*active."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the judge found.

    ``violations`` is empty exactly if the assignment is feasible. The figures are None where some
    request has no valid place, so that loads are not defined; they are given for assignments that
    only break a capacity.
    """

    violations: tuple[str, ...]
    steps: int | None
    sum_peak: int | None
    sum_load: int | None
    imbalance_total: int | None
    time_exact_s: Fraction | None
    idle_exact_s: Fraction | None = None

    @property
    def feasible(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations

    @property
    def time_s(self) -> float | None:
        """Barrier time in seconds: b0*steps + a0*sum_peak, or the sum of max_g (b_g + a_g*L_g)."""
        return None if self.time_exact_s is None else float(self.time_exact_s)

    def to_json(self) -> dict[str, object]:
        """As printed by ``brtheory judge --json``."""
        idle = {} if self.idle_exact_s is None else {"barrier_idle_s": float(self.idle_exact_s)}
        return {
            "feasible": self.feasible,
            "violations": list(self.violations),
            "steps": self.steps,
            "sum_peak": self.sum_peak,
            "sum_load": self.sum_load,
            "imbalance_total": self.imbalance_total,
            "time_s": self.time_s,
            **idle,
        }


class EvaluationDocument(Contract):
    """Verdict of the judge as JSON; figures are null where some request has no valid place."""

    feasible: bool
    violations: list[str]
    steps: int | None = Field(description="Executed steps.")
    sum_peak: int | None = Field(description="Sum over steps of the peak load, token-steps.")
    sum_load: int | None = Field(description="Sum over steps and replicas of the load.")
    imbalance_total: int | None = Field(description="replicas * sum_peak - sum_load.")
    time_s: float | None = Field(description="Barrier time, seconds.")
    barrier_idle_s: float | None = Field(
        default=None,
        description="Where replicas differ in speed: seconds they wait at the barrier, summed.",
    )


def evaluate(instance: Instance, assignment: Assignment) -> Evaluation:
    """Judge an assignment.

    Parameters
    ----------
    instance
        The problem, with true output lengths.
    assignment
        Any placements; nothing is assumed about them.

    Returns
    -------
    Evaluation
        Violations of: every request placed exactly once, known ids, existing replicas, no
        admission before ready, at most ``slots`` active requests and at most ``kv_capacity`` KV
        tokens on each replica at each step.
    """
    violations = list(_placement_violations(instance, assignment))
    if violations:
        return Evaluation(tuple(violations), None, None, None, None, None)
    requests = {request.id: request for request in instance.requests}
    paces, slots, kv_capacity = instance.paces, instance.replica_slots, instance.kv_capacity
    steps = sum_peak = sum_load = sum_longest = sum_times = 0
    capacity: dict[tuple[str, int], str] = {}
    for start, length, lines in _segments(requests, assignment):
        steps += length
        sum_peak += sum_of_peaks(list(lines.values()), length)
        sum_load += sum(_sum_of_line(line, length) for line in lines.values())
        if paces is not None:
            timed = _time_lines(lines, paces)
            sum_longest += sum_of_peaks(timed, length)
            sum_times += sum(_sum_of_line(line, length) for line in timed)
        broken = _capacity_violations(start, length, lines, slots=slots, kv_capacity=kv_capacity)
        for key, message in broken:
            capacity.setdefault(key, message)
    figures = (steps, sum_peak, sum_load, instance.replicas * sum_peak - sum_load)
    if paces is not None:
        idle = instance.replicas * sum_longest - sum_times
        times = (paces.unit_s * sum_longest, paces.unit_s * idle)
        return Evaluation(tuple(capacity.values()), *figures, *times)
    time_s = decimal_fraction(instance.b0) * steps + decimal_fraction(instance.a0) * sum_peak
    return Evaluation(tuple(capacity.values()), *figures, time_s)


def decimal_fraction(value: float) -> Fraction:
    """The exact value of a float's shortest decimal text: 1e-7 is 1/10^7, not its binary twin."""
    return Fraction(repr(value))


def sum_of_peaks(lines: Sequence[Line], length: int) -> int:
    """Sum over j = 0 .. length - 1 of max over lines (load + j*slope), in exact integers."""
    total, start = 0, 0
    while start < length:
        load, slope = max((line[0] + start * line[1], line[1]) for line in lines)
        end = length
        for other_load, other_slope in lines:
            if other_slope > slope:
                # First j at which the steeper line is strictly above the present peak line.
                ahead = load - (other_load + start * other_slope)
                end = min(end, start + ahead // (other_slope - slope) + 1)
        total += _sum_of_line((load, slope), end - start)
        start = end
    return total


def _time_lines(lines: dict[int, Line], paces: Paces) -> list[Line]:
    """T_g of every replica, the idle ones too: they run dummy steps."""
    idle = (0, 0)
    loads = [lines.get(g, idle) for g in range(len(paces.per_step))]
    return [
        (b + a * load, a * slope)
        for (load, slope), b, a in zip(loads, paces.per_step, paces.per_token, strict=True)
    ]


def _sum_of_line(line: Line, length: int) -> int:
    load, slope = line
    return length * load + slope * (length * (length - 1) // 2)


def _placement_violations(instance: Instance, assignment: Assignment) -> Iterator[str]:
    requests = {request.id: request for request in instance.requests}
    for request_id, times in Counter(p.id for p in assignment).items():
        if request_id not in requests:
            yield f"request {request_id}: not in the instance"
        elif times > 1:
            yield f"request {request_id}: admitted {times} times"
    placed = {p.id for p in assignment}
    for request in instance.requests:
        if request.id not in placed:
            yield f"request {request.id}: never admitted"
    for p in assignment:
        if not 0 <= p.replica < instance.replicas:
            yield f"request {p.id}: replica {p.replica} is not in 0 .. {instance.replicas - 1}"
        known = requests.get(p.id)
        if known is not None and p.step < known.ready:
            yield f"request {p.id}: admitted at step {p.step}, ready at step {known.ready}"


def _segments(
    requests: dict[int, OfflineRequest], assignment: Assignment
) -> Iterator[tuple[int, int, dict[int, Line]]]:
    """Yield (first step, number of steps, line of each active replica) between events."""
    events: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for p in assignment:
        for step, change in _events(requests[p.id], p):
            events[step].append(change)
    lines: dict[int, Line] = {}
    for start, end in pairwise(sorted(events)):
        for replica, tokens_at_zero, count in events[start]:
            intercept, active = lines.pop(replica, (0, 0))
            if active + count:
                lines[replica] = (intercept + tokens_at_zero, active + count)
        if lines:
            yield start, end - start, {g: (c + start * n, n) for g, (c, n) in lines.items()}


def _events(request: OfflineRequest, p: Placement) -> Iterator[tuple[int, tuple[int, int, int]]]:
    # At absolute step k an active request weighs (prompt - admission step) + k.
    tokens_at_zero = request.prompt_tokens - p.step
    yield p.step, (p.replica, tokens_at_zero, 1)
    yield p.step + request.output_tokens, (p.replica, -tokens_at_zero, -1)


def _capacity_violations(
    start: int,
    length: int,
    lines: dict[int, Line],
    *,
    slots: Sequence[int],
    kv_capacity: int | None,
) -> Iterator[tuple[tuple[str, int], str]]:
    for replica, (load, active) in sorted(lines.items()):
        if active > slots[replica]:
            yield (
                ("slots", replica),
                (
                    f"replica {replica}: {active} active requests at step {start}, "
                    f"slots {slots[replica]}"
                ),
            )
        top = load + (length - 1) * active
        if kv_capacity is not None and top > kv_capacity:
            over = max(0, (kv_capacity - load) // active + 1)
            yield (
                ("kv", replica),
                (
                    f"replica {replica}: {load + over * active} KV tokens at step {start + over}, "
                    f"capacity {kv_capacity}"
                ),
            )
