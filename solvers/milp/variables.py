"""Variables of the mixed-integer programs."""

from dataclasses import dataclass

import pulp

from solvers.model import ScheduleModel
from solvers.tick_model import TickModel


@dataclass(frozen=True)
class ScheduleVariables:
    """Cases A and B.

    Parameters
    ----------
    start
        x_itg by (i, t, g), binary.
    peak
        M_b by block, continuous: integer data make the loads it covers integers.
    executed
        y_k by step, binary; empty where steps are given or cost nothing.
    full, heavy
        Work conservation with KV capacity: f_gk by (g, k), v_igk by (i, g, k), binary.
    """

    start: dict[tuple[int, int, int], pulp.LpVariable]
    peak: list[pulp.LpVariable]
    executed: dict[int, pulp.LpVariable]
    full: dict[tuple[int, int], pulp.LpVariable]
    heavy: dict[tuple[int, int, int], pulp.LpVariable]


@dataclass(frozen=True)
class TickVariables:
    """Case C: x_ig by (i, g), binary, the tokens Delta_g they add, and a peak for each row."""

    place: dict[tuple[int, int], pulp.LpVariable]
    added: dict[int, pulp.LpVariable]
    peak: list[pulp.LpVariable]


def schedule_variables(program: pulp.LpProblem, model: ScheduleModel) -> ScheduleVariables:
    """Add the variables of cases A and B."""
    replicas = range(model.replicas)
    steps = [block.step for block in model.blocks] if model.counts_steps else []
    conserving = model.may_wait() if model.work_conserving and model.kv_capacity else []
    return ScheduleVariables(
        start={
            (i, t, g): _binary(program, f"x_{i}_{t}_{g}")
            for i, t in model.all_starts
            for g in replicas
        },
        peak=[
            program.add_variable(f"M_{b}", block.lower, block.upper)
            for b, block in enumerate(model.blocks)
        ],
        executed={k: _binary(program, f"y_{k}") for k in steps},
        full={
            (g, k): _binary(program, f"f_{g}_{k}")
            for k in sorted({k for _, k in conserving})
            for g in replicas
        },
        heavy={
            (i, g, k): _binary(program, f"v_{i}_{g}_{k}") for i, k in conserving for g in replicas
        },
    )


def tick_variables(program: pulp.LpProblem, model: TickModel) -> TickVariables:
    """Add the variables of case C."""
    return TickVariables(
        place={
            (i, g): _binary(program, f"x_{i}_{g}")
            for i in range(len(model.prompts))
            for g in range(model.replicas)
            if model.free_slots[g] > 0
        },
        added={
            g: program.add_variable(f"D_{g}", 0, sum(model.prompts))
            for g in range(model.replicas)
            if model.free_slots[g] > 0
        },
        peak=[
            program.add_variable(f"M_{h}", max(row.loads), model.largest_peak(row))
            for h, row in enumerate(model.rows)
        ],
    )


def _binary(program: pulp.LpProblem, name: str) -> pulp.LpVariable:
    return program.add_variable(name, 0, 1, pulp.LpInteger)
