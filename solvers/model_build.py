"""Builds the index model of cases A and B: windows, blocks, slot rows, derived constants."""

from collections import defaultdict
from collections.abc import Mapping

from brtheory.errors import InputError
from solvers.model import Block, ScheduleModel, Start
from solvers.problem import FixedAdmissions, FreeAdmissions
from solvers.timeline import Segment, peak_bound, timeline, weights

MOST_TERMS = 5_000_000
"""Coefficients of a model for one replica: beyond, building it would take all memory."""


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


def fewest_steps(problem: FreeAdmissions) -> int:
    """Lower bound on executed steps.

    Executed steps serve slots like machines: their number is at least the slots' even share, the
    longest output, and the sum of any q + 1 outputs that some slot must serve in turn
    (``peak_bound``). KV capacity bounds the work a step can do. Where nobody waits beside a free
    slot a step is executed whenever a request is ready and not done: for as many steps as its
    output at least.
    """
    instance = problem.instance
    outputs = [r.output_tokens for r in instance.requests]
    bound = peak_bound(outputs, replicas=instance.replicas * instance.slots)
    if instance.kv_capacity is not None:
        bound = max(bound, -(-instance.total_work // (instance.replicas * instance.kv_capacity)))
    return max(bound, _busy_steps(problem)) if problem.work_conserving else bound


def _busy_steps(problem: FreeAdmissions) -> int:
    """Steps in the union of [ready, ready + output), without requests that no replica reserves."""
    capacity, busy, end = problem.instance.kv_capacity, 0, 0
    for request in problem.ordered:
        if capacity is None or request.prompt_tokens + request.output_tokens <= capacity:
            done = request.ready + request.output_tokens
            busy += max(0, done - max(end, request.ready))
            end = max(end, done)
    return busy


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
