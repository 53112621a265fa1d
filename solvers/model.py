"""Index models: sets, coefficients and derived constants of the integer programs, solver-free.

Cases A and B share one model over starts (i, t), "request i is admitted at step t":

    x_itg = 1 if request i starts at t on replica g      M_b >= 0 the peak of block b
    y_k = 1 if step k is executed (only where steps cost and are not given)

A block is one step, or several that are merged where it is exact: with every slot taken, with one
active request, or on one replica, all loaded replicas have one slope n in any assignment, so the
same replica stays the heaviest and sum M = length*M(first) + n*length*(length - 1)/2.

Case C has x_ig and a peak for each row h; rows that differ by the same constant on all replicas
are merged, because the same replica is the heaviest in both.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import OfflineRequest
from solvers.objective import Cost
from solvers.problem import FixedAdmissions, FreeAdmissions, TickProblem
from solvers.timeline import Segment, peak_bound, timeline, weights

MOST_TERMS = 5_000_000
"""Coefficients of a model for one replica: beyond, building it would take all memory."""

Start = tuple[int, int]
"""(index of the request in ``ScheduleModel.requests``, admission step)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Steps that share one peak variable.

    Parameters
    ----------
    step, length
        First step, and number of steps.
    slope
        Growth of the peak a step; 0 for a single step.
    terms
        (start, weight at the first step) of each start that is active in the block.
    lower, upper
        Bounds of the peak in every optimal assignment.
    """

    step: int
    length: int
    slope: int
    terms: tuple[tuple[Start, int], ...]
    lower: int
    upper: int

    @property
    def growth(self) -> int:
        """What the sum of M over the block exceeds length*M(first) by."""
        return self.slope * (self.length * (self.length - 1) // 2)


@dataclass(frozen=True)
class ScheduleModel:
    """Cases A and B.

    Parameters
    ----------
    requests, starts
        Requests in order, and the admission steps to consider for each.
    replicas, slots, kv_capacity, cost
        Of the problem.
    blocks
        One for each peak variable.
    slot_rows
        Sets of starts of which at most ``slots`` may be on one replica: maximal cliques in case A.
    fixed_steps
        Executed steps where given (case A); None where the model decides.
    least_steps
        Lower bound on the executed steps.
    work_conserving
        Whether waiting beside room is forbidden.
    tight
        Whether cuts and late-gap rows belong to the model.
    """

    requests: tuple[OfflineRequest, ...]
    starts: tuple[tuple[int, ...], ...]
    replicas: int
    slots: int
    kv_capacity: int | None
    cost: Cost
    blocks: tuple[Block, ...]
    slot_rows: tuple[tuple[Start, ...], ...]
    fixed_steps: int | None
    least_steps: int
    work_conserving: bool = False
    tight: bool = True

    @property
    def counts_steps(self) -> bool:
        """Whether the model has y_k: steps cost something and are not given."""
        return self.fixed_steps is None and self.cost.step > 0

    @property
    def impossible(self) -> bool:
        """Whether the constants alone show that nothing is feasible."""
        return any(block.lower > block.upper for block in self.blocks) or not all(self.starts)

    @property
    def total_work(self) -> int:
        """W."""
        return sum(request.work for request in self.requests)

    @property
    def constant(self) -> int:
        """The part of the objective that no variable moves."""
        growth = self.cost.peak * sum(block.growth for block in self.blocks)
        steps = self.cost.step * (self.fixed_steps or 0)
        return growth + steps - self.cost.load * self.total_work

    @cached_property
    def all_starts(self) -> tuple[Start, ...]:
        """Every (i, t)."""
        return tuple((i, t) for i, steps in enumerate(self.starts) for t in steps)

    def active(self, step: int) -> list[Start]:
        """Starts that are active at a step."""
        return [
            (i, t) for i, t in self.all_starts if t <= step < t + self.requests[i].output_tokens
        ]

    def waiting(self, index: int, step: int) -> list[Start]:
        """Starts of a request that leave it waiting at a step."""
        return [(index, t) for t in self.starts[index] if t > step]

    def may_wait(self) -> list[tuple[int, int]]:
        """(request, step) at which it is ready and may still be waiting."""
        return [
            (i, k)
            for i, request in enumerate(self.requests)
            if self.starts[i]
            for k in range(request.ready, self.starts[i][-1])
        ]

    def reservation(self, index: int) -> int:
        """KV tokens the engine reserves for a request."""
        request = self.requests[index]
        return request.prompt_tokens + request.output_tokens


@dataclass(frozen=True)
class TickRow:
    """Rows h that share one peak variable.

    Parameters
    ----------
    loads
        Load of each replica in the first of them.
    copies
        How many there are.
    offset
        Sum over them of what their loads exceed the first's by.
    """

    loads: tuple[int, ...]
    copies: int
    offset: int


@dataclass(frozen=True)
class TickModel:
    """Case C.

    Parameters
    ----------
    prompts, reservations
        s_i and reserved KV tokens of the pooled requests.
    free_slots, room
        Slots and KV tokens (None where unlimited) of each replica.
    rows
        Peaks.
    most
        min(pool, total free slots).
    horizon_rows
        H + 1: how often an admitted prompt counts in the sum of loads.
    constant
        The part of the objective that no variable moves.
    cost
        Of the problem.
    """

    prompts: tuple[int, ...]
    reservations: tuple[int, ...]
    free_slots: tuple[int, ...]
    room: tuple[int, ...] | None
    rows: tuple[TickRow, ...]
    most: int
    horizon_rows: int
    constant: int
    cost: Cost

    @property
    def replicas(self) -> int:
        """G."""
        return len(self.free_slots)

    def largest_peak(self, row: TickRow) -> int:
        """Upper bound of a row's peak: the largest prompts that have slots, on any replica."""
        largest = sorted(self.prompts, reverse=True)
        return max(
            load + sum(largest[:free])
            for load, free in zip(row.loads, self.free_slots, strict=True)
        )


def schedule_model(
    problem: FixedAdmissions | FreeAdmissions, *, incumbent: int | None = None
) -> ScheduleModel:
    """Index model of cases A and B.

    Parameters
    ----------
    problem
        The problem.
    incumbent
        Objective of a known assignment: no schedule longer than it allows is modelled (case B).

    Raises
    ------
    InputError
        If the model would be too large to build.
    """
    if isinstance(problem, FixedAdmissions):
        return _fixed_model(problem)
    return _free_model(problem, incumbent)


def tick_model(problem: TickProblem) -> TickModel:
    """Index model of case C."""
    state, cost = problem.state, problem.cost
    rows = _merged_rows(list(zip(*state.loads, strict=True)))
    present = sum(map(sum, state.loads))
    return TickModel(
        prompts=tuple(r.prompt_tokens for r in state.pool),
        reservations=tuple(r.reserved_tokens for r in state.pool),
        free_slots=tuple(state.free_slots),
        room=None if state.free_tokens is None else tuple(state.free_tokens),
        rows=rows,
        most=problem.most_admissions,
        horizon_rows=problem.rows,
        constant=cost.step * problem.rows
        - cost.load * present
        + cost.peak * sum(row.offset for row in rows),
        cost=cost,
    )


def canonical(assignment: Assignment, order: Iterable[int]) -> dict[int, int]:
    """Replica of each request with replicas renumbered by first use in ``order`` (request ids).

    Replicas of cases A and B are interchangeable, so this changes no objective.
    """
    replica = {p.id: p.replica for p in assignment}
    number: dict[int, int] = {}
    return {i: number.setdefault(replica[i], len(number)) for i in order if i in replica}


def fewest_steps(problem: FreeAdmissions) -> int:
    """Lower bound on executed steps: longest output, slot and KV energy of each ready suffix."""
    instance = problem.instance
    bound = max((r.output_tokens for r in instance.requests), default=0)
    slot_energy = kv_energy = 0
    for request in reversed(problem.ordered):
        slot_energy += request.output_tokens
        kv_energy += request.work
        bound = max(bound, -(-slot_energy // (instance.replicas * instance.slots)))
        if instance.kv_capacity is not None:
            bound = max(bound, -(-kv_energy // (instance.replicas * instance.kv_capacity)))
    return bound


def _check_terms(terms: int) -> None:
    if terms > MOST_TERMS:
        raise InputError("instance", f"a model of at most {MOST_TERMS} terms a replica", terms)


# -- case A ------------------------------------------------------------------------------------


def _fixed_model(problem: FixedAdmissions) -> ScheduleModel:
    index = {request.id: i for i, request in enumerate(problem.ordered)}
    segments = [s for s in timeline(problem) if s.active]
    _check_terms(
        sum(
            len(s.active) * (1 if _common_slope(problem, s) is not None else s.length)
            for s in segments
        )
    )
    blocks = [block for s in segments for block in _segment_blocks(problem, s, index)]
    return ScheduleModel(
        requests=problem.ordered,
        starts=tuple((problem.steps[r.id],) for r in problem.ordered),
        replicas=problem.instance.replicas,
        slots=problem.instance.slots,
        kv_capacity=problem.instance.kv_capacity,
        cost=problem.cost,
        blocks=tuple(blocks),
        slot_rows=_slot_cliques(problem, index),
        fixed_steps=sum(s.length for s in segments),
        least_steps=sum(s.length for s in segments),
    )


def _segment_blocks(
    problem: FixedAdmissions, segment: Segment, index: Mapping[int, int]
) -> list[Block]:
    instance = problem.instance
    starts = [(index[r.id], problem.steps[r.id]) for r in segment.active]
    now = weights(problem, segment)
    slope = _common_slope(problem, segment)
    lengths = [segment.length] if slope is not None else [1] * segment.length
    blocks = []
    for offset, length in enumerate(lengths):
        then = [weight + offset for weight in now]
        growth = slope or 0
        upper = sum(sorted(then)[-instance.slots :])
        if instance.kv_capacity is not None:
            upper = min(upper, instance.kv_capacity - growth * (length - 1))
        blocks.append(
            Block(
                step=segment.start + offset,
                length=length,
                slope=growth,
                terms=tuple(zip(starts, then, strict=True)),
                lower=peak_bound(then, replicas=instance.replicas),
                upper=upper,
            )
        )
    return blocks


def _common_slope(problem: FixedAdmissions, segment: Segment) -> int | None:
    """Slope of every loaded replica in any assignment, None if it depends on the assignment."""
    instance, active = problem.instance, len(segment.active)
    if active == 1 or instance.replicas == 1:
        return active
    return instance.slots if active == instance.replicas * instance.slots else None


def _slot_cliques(
    problem: FixedAdmissions, index: Mapping[int, int]
) -> tuple[tuple[Start, ...], ...]:
    """Active sets after the last admission before a completion, where slots can bind."""
    segments = timeline(problem)
    rows = []
    for position, segment in enumerate(segments):
        final = position + 1 == len(segments) or bool(segments[position + 1].ended)
        if final and len(segment.active) > problem.instance.slots:
            rows.append(tuple((index[r.id], problem.steps[r.id]) for r in segment.active))
    return tuple(rows)


# -- case B ------------------------------------------------------------------------------------


def _free_model(problem: FreeAdmissions, incumbent: int | None) -> ScheduleModel:
    instance = problem.instance
    end = _schedule_end(problem, incumbent)
    windows = [problem.window(r, end=end) for r in problem.ordered]
    _check_terms(
        sum(
            max(0, w.stop - w.start) * r.output_tokens
            for w, r in zip(windows, problem.ordered, strict=True)
        )
    )
    starts = tuple(tuple(window) for window in windows)
    active = _active_starts(problem, starts)
    blocks = [_free_block(problem, step, terms) for step, terms in sorted(active.items())]
    return ScheduleModel(
        requests=problem.ordered,
        starts=starts,
        replicas=instance.replicas,
        slots=instance.slots,
        kv_capacity=instance.kv_capacity,
        cost=problem.cost,
        blocks=tuple(blocks),
        slot_rows=tuple(
            tuple(start for start, _ in block.terms)
            for block in blocks
            if len({i for (i, _), _ in block.terms}) > instance.slots
        ),
        fixed_steps=None,
        least_steps=fewest_steps(problem),
        work_conserving=problem.work_conserving,
    )


def _schedule_end(problem: FreeAdmissions, incumbent: int | None) -> int:
    """No schedule as good as the incumbent has more steps than its price allows.

    step*steps + peak*sum_peak - load*W <= incumbent and sum_peak >= ceil(W/G) bound the steps;
    after the last ready step every step up to the end is executed.
    """
    cost, instance = problem.cost, problem.instance
    if incumbent is None or cost.step == 0:
        return problem.end
    work = instance.total_work
    least_peaks = -(-work // instance.replicas)
    most_steps = (incumbent + cost.load * work - cost.peak * least_peaks) // cost.step
    last_ready = max((r.ready for r in instance.requests), default=0)
    return min(problem.end, last_ready + most_steps)


def _active_starts(
    problem: FreeAdmissions, starts: tuple[tuple[int, ...], ...]
) -> dict[int, list[tuple[Start, int]]]:
    """(start, weight) of what may be active at each step."""
    active: dict[int, list[tuple[Start, int]]] = defaultdict(list)
    for i, request in enumerate(problem.ordered):
        for t in starts[i]:
            for age in range(request.output_tokens):
                active[t + age].append(((i, t), request.prompt_tokens + age))
    return active


def _free_block(problem: FreeAdmissions, step: int, terms: list[tuple[Start, int]]) -> Block:
    instance = problem.instance
    heaviest: dict[int, int] = {}
    for (i, _), weight in terms:
        heaviest[i] = max(heaviest.get(i, 0), weight)
    upper = sum(sorted(heaviest.values())[-instance.slots :])
    if instance.kv_capacity is not None:
        upper = min(upper, instance.kv_capacity)
    return Block(step=step, length=1, slope=0, terms=tuple(terms), lower=0, upper=upper)


# -- case C ------------------------------------------------------------------------------------


def _merged_rows(columns: list[tuple[int, ...]]) -> tuple[TickRow, ...]:
    """Columns (loads of all replicas at one h) with equal differences become one."""
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for column in columns:
        groups.setdefault(tuple(load - column[0] for load in column), []).append(column)
    return tuple(
        TickRow(
            loads=same[0],
            copies=len(same),
            offset=sum(column[0] - same[0][0] for column in same),
        )
        for same in groups.values()
    )
