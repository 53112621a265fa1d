"""Index model of cases A and B: sets, coefficients and derived constants, solver-free.

Cases A and B share one model over starts (i, t), "request i is admitted at step t":

    x_itg = 1 if request i starts at t on replica g      M_b >= 0 the peak of block b
    y_k = 1 if step k is executed (only where steps cost and are not given)

A block is one step, or several that are merged where it is exact: with every slot taken, with one
active request, or on one replica, all loaded replicas have one slope n in any assignment, so the
same replica stays the heaviest and sum M = length*M(first) + n*length*(length - 1)/2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import OfflineRequest
from solvers.objective import Cost

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


def canonical(assignment: Assignment, order: Iterable[int]) -> dict[int, int]:
    """Replica of each request with replicas renumbered by first use in ``order`` (request ids).

    Replicas of cases A and B are interchangeable, so this changes no objective.
    """
    replica = {p.id: p.replica for p in assignment}
    number: dict[int, int] = {}
    return {i: number.setdefault(replica[i], len(number)) for i in order if i in replica}
