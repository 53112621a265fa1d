"""Constraint families of the mixed-integer programs, one function each."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import pulp

from solvers.milp.variables import ScheduleVariables, TickVariables
from solvers.model import ScheduleModel
from solvers.tick_model import TickModel

Terms = Iterable[tuple[pulp.LpVariable, int]]


def place_once(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_t sum_g x_itg = 1 for every request i."""
    for i, steps in enumerate(model.starts):
        terms = [(x.start[i, t, g], 1) for t in steps for g in range(model.replicas)]
        program += _sum(terms) == 1


def peak_covers_loads(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """M_b >= sum of w_it x_itg over the starts active in block b, for every b and g.

    With KV capacity the upper bound of M_b keeps every load below it.
    """
    for b, block in enumerate(model.blocks):
        for g in range(model.replicas):
            terms = [(x.start[i, t, g], weight) for (i, t), weight in block.terms]
            program += _sum([*terms, (x.peak[b], -1)]) <= 0


def slots(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Sum of x_itg over the starts of a slot row <= slots, for every row and g."""
    for row in model.slot_rows:
        for g in range(model.replicas):
            program += _sum((x.start[i, t, g], 1) for i, t in row) <= model.slots


def peak_covers_work(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """G*M_b >= sum_g sum w_it x_itg, and M_b >= sum_g sum_t w_it x_itg for every request i.

    Cuts for case B, where no constant bounds the peak of a step from below.
    """
    for b, block in enumerate(model.blocks):
        everything = []
        of_request: dict[int, list[tuple[pulp.LpVariable, int]]] = defaultdict(list)
        for (i, t), weight in block.terms:
            terms = [(x.start[i, t, g], weight) for g in range(model.replicas)]
            everything.extend(terms)
            of_request[i].extend(terms)
        program += _sum([*everything, (x.peak[b], -model.replicas)]) <= 0
        for terms in of_request.values():
            program += _sum([*terms, (x.peak[b], -1)]) <= 0


def executed_steps(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_g sum of x_itg over the starts of i active at k <= y_k, and sum_k y_k >= least steps."""
    if not model.counts_steps:
        return
    for block in model.blocks:
        of_request: dict[int, list[tuple[pulp.LpVariable, int]]] = defaultdict(list)
        for (i, t), _ in block.terms:
            of_request[i].extend((x.start[i, t, g], 1) for g in range(model.replicas))
        for terms in of_request.values():
            program += _sum([*terms, (x.executed[block.step], -1)]) <= 0
    program += _sum((y, 1) for y in x.executed.values()) >= model.least_steps


def no_late_gap(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """y_(k+1) <= y_k for every k >= the last ready step: idle steps there can be cut out.

    See ``FreeAdmissions.end``; it keeps one of the schedules that differ by such gaps only.
    """
    if not model.counts_steps:
        return
    last_ready = max(request.ready for request in model.requests)
    late = [block.step for block in model.blocks if block.step >= last_ready]
    for k, later in pairwise(late):
        program += _sum([(x.executed[later], 1), (x.executed[k], -1)]) <= 0


def work_conserving(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Bound waiting: slots*(i waits at k) <= active requests of g at k, for every i, k, g.

    With KV capacity, g may instead be too full to reserve the request:
    (i waits at k) <= f_gk + v_igk, slots*f_gk <= active_g(k),
    (kv_capacity - r_i + 1)*v_igk <= reserved_g(k).
    """
    if not model.work_conserving:
        return
    for i, k in model.may_wait():
        active, waiting = model.active(k), model.waiting(i, k)
        waits = [(x.start[j, t, g], 1) for j, t in waiting for g in range(model.replicas)]
        for g in range(model.replicas):
            if model.kv_capacity is None:
                terms = [(variable, model.slots) for variable, _ in waits]
                program += _sum([*terms, *((x.start[j, t, g], -1) for j, t in active)]) <= 0
            elif model.reservation(i) <= model.kv_capacity:
                program += _sum([*waits, (x.full[g, k], -1), (x.heavy[i, g, k], -1)]) <= 0
                held = [(x.start[j, t, g], -model.reservation(j)) for j, t in active]
                least = model.kv_capacity - model.reservation(i) + 1
                program += _sum([(x.heavy[i, g, k], least), *held]) <= 0
    for (g, k), full in x.full.items():
        program += (
            _sum([(full, model.slots), *((x.start[j, t, g], -1) for j, t in model.active(k))]) <= 0
        )


def first_use_order(program: pulp.LpProblem, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_t x_itg <= sum over j < i of sum_t x_jt(g-1): replica g opens after replica g - 1."""
    for i, steps in enumerate(model.starts):
        for g in range(1, model.replicas):
            own = [(x.start[i, t, g], 1) for t in steps]
            before = [(x.start[j, t, g - 1], -1) for j in range(i) for t in model.starts[j]]
            program += _sum([*own, *before]) <= 0


def tick_place_at_most_once(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """sum_g x_ig <= 1 for every pooled request i."""
    for i in range(len(model.prompts)):
        terms = [(x.place[i, g], 1) for g in range(model.replicas) if (i, g) in x.place]
        program += _sum(terms) <= 1


def tick_slots(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """sum_i x_ig <= free slots of g, for every g that has some."""
    for g, free in enumerate(model.free_slots):
        if free > 0:
            program += _sum((x.place[i, g], 1) for i in range(len(model.prompts))) <= free


def tick_room(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """sum_i r_i x_ig <= KV room of g, for every g with slots, where room is limited."""
    for g, free in enumerate(model.free_slots):
        if free > 0 and model.room is not None:
            terms = [(x.place[i, g], r) for i, r in enumerate(model.reservations)]
            program += _sum(terms) <= model.room[g]


def tick_added(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """Delta_g = sum_i s_i x_ig, for every g with slots: one long row a replica, not one a row h."""
    for g, added in x.added.items():
        terms = [(x.place[i, g], prompt) for i, prompt in enumerate(model.prompts)]
        program += _sum([*terms, (added, -1)]) == 0


def tick_count(program: pulp.LpProblem, x: TickVariables, count: int) -> None:
    """sum_i sum_g x_ig = count: as many as fit, no fewer."""
    program += _sum((variable, 1) for variable in x.place.values()) == count


def tick_peak_covers_loads(program: pulp.LpProblem, model: TickModel, x: TickVariables) -> None:
    """M_h >= L_g(h) + Delta_g, for every row h and every g with slots."""
    for h, row in enumerate(model.rows):
        for g, added in x.added.items():
            program += _sum([(added, 1), (x.peak[h], -1)]) <= -row.loads[g]


def _sum(terms: Terms) -> pulp.LpAffineExpression:
    return pulp.LpAffineExpression(list(terms))
