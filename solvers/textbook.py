"""The textbook time-indexed model, to measure what the tight one is worth.

Same variables and the same optimum, without anything derived: one peak a step with trivial bounds,
a slot row at every step, the longest horizon, no cuts, no step bounds, no start from a router.
"""

from dataclasses import replace

from solvers.model import Block, ScheduleModel
from solvers.model_build import schedule_model
from solvers.problem import FixedAdmissions, FreeAdmissions


def textbook_model(problem: FixedAdmissions | FreeAdmissions) -> ScheduleModel:
    """Index model of cases A and B as a textbook would write it.

    KV capacity stays the upper bound of every peak: it is a constraint, not a derived constant.
    """
    tight = schedule_model(problem)
    capacity = problem.instance.kv_capacity
    blocks = tuple(
        _plain(block, offset, capacity) for block in tight.blocks for offset in range(block.length)
    )
    rows = tuple(tuple(start for start, _ in block.terms) for block in blocks)
    return replace(tight, blocks=blocks, slot_rows=rows, least_steps=0, tight=False)


def _plain(block: Block, offset: int, capacity: int | None) -> Block:
    terms = tuple((start, weight + offset) for start, weight in block.terms)
    upper = sum(weight for _, weight in terms)
    return Block(
        step=block.step + offset,
        length=1,
        slope=0,
        terms=terms,
        lower=0,
        upper=upper if capacity is None else min(upper, capacity),
    )
