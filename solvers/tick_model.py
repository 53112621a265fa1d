"""Index model of case C: x_ig, "request i goes to replica g", and a peak for each row h.

Rows that differ by the same constant on all replicas are merged, because the same replica is the
heaviest in both: exact, and it leaves few peaks where loads merely grow.
"""

from dataclasses import dataclass

from solvers.objective import Cost
from solvers.problem import TickProblem


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
