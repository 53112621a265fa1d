"""Variables of the constraint programs."""

from dataclasses import dataclass

from ortools.sat.python.cp_model import CpModel, IntVar

from solvers.model import ScheduleModel
from solvers.tick_model import TickModel


@dataclass(frozen=True)
class ScheduleVariables:
    """Cases A and B.

    Parameters
    ----------
    start
        x_itg by (i, t, g), Boolean.
    peak
        M_b by block, integer.
    executed
        y_k by step, Boolean; empty where steps are given or cost nothing.
    full, heavy
        Work conservation with KV capacity: f_gk by (g, k), v_igk by (i, g, k), Boolean.
    """

    start: dict[tuple[int, int, int], IntVar]
    peak: list[IntVar]
    executed: dict[int, IntVar]
    full: dict[tuple[int, int], IntVar]
    heavy: dict[tuple[int, int, int], IntVar]


@dataclass(frozen=True)
class TickVariables:
    """Case C: x_ig by (i, g), Boolean, and a peak for each row."""

    place: dict[tuple[int, int], IntVar]
    peak: list[IntVar]


def schedule_variables(program: CpModel, model: ScheduleModel) -> ScheduleVariables:
    """Add the variables of cases A and B."""
    replicas = range(model.replicas)
    steps = [block.step for block in model.blocks] if model.counts_steps else []
    conserving = model.may_wait() if model.work_conserving and model.kv_capacity else []
    return ScheduleVariables(
        start={
            (i, t, g): program.new_bool_var(f"x_{i}_{t}_{g}")
            for i, t in model.all_starts
            for g in replicas
        },
        peak=[
            program.new_int_var(block.lower, block.upper, f"M_{b}")
            for b, block in enumerate(model.blocks)
        ],
        executed={k: program.new_bool_var(f"y_{k}") for k in steps},
        full={
            (g, k): program.new_bool_var(f"f_{g}_{k}")
            for k in sorted({k for _, k in conserving})
            for g in replicas
        },
        heavy={
            (i, g, k): program.new_bool_var(f"v_{i}_{g}_{k}")
            for i, k in conserving
            for g in replicas
        },
    )


def tick_variables(program: CpModel, model: TickModel) -> TickVariables:
    """Add the variables of case C."""
    return TickVariables(
        place={
            (i, g): program.new_bool_var(f"x_{i}_{g}")
            for i in range(len(model.prompts))
            for g in range(model.replicas)
            if model.free_slots[g] > 0
        },
        peak=[
            program.new_int_var(max(row.loads), model.largest_peak(row), f"M_{h}")
            for h, row in enumerate(model.rows)
        ],
    )
