"""Constraint families of the constraint programs, one function each."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

from solvers.cpsat.variables import ScheduleVariables, TickVariables
from solvers.model import ScheduleModel
from solvers.tick_model import TickModel

Terms = Iterable[tuple[IntVar, int]]


def place_once(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_t sum_g x_itg = 1 for every request i."""
    for i, steps in enumerate(model.starts):
        program.add_exactly_one(x.start[i, t, g] for t in steps for g in range(model.replicas))


def peak_covers_loads(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """M_b >= sum of w_it x_itg over the starts active in block b, for every b and g.

    With KV capacity the upper bound of M_b keeps every load below it.
    """
    for b, block in enumerate(model.blocks):
        for g in range(model.replicas):
            load = _sum((x.start[i, t, g], weight) for (i, t), weight in block.terms)
            program.add(load <= x.peak[b])


def slots(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Count the starts of each slot row on each g: sum of x_itg <= slots."""
    for row in model.slot_rows:
        for g in range(model.replicas):
            program.add(sum(x.start[i, t, g] for i, t in row) <= model.slots)


def peak_covers_work(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """G*M_b >= sum_g sum w_it x_itg, and M_b >= sum_g sum_t w_it x_itg for every request i.

    Redundant; in case B no constant bounds the peak of a step from below, so they guide the search.
    """
    for b, block in enumerate(model.blocks):
        everything: list[tuple[IntVar, int]] = []
        of_request: dict[int, list[tuple[IntVar, int]]] = defaultdict(list)
        for (i, t), weight in block.terms:
            terms = [(x.start[i, t, g], weight) for g in range(model.replicas)]
            everything.extend(terms)
            of_request[i].extend(terms)
        program.add(_sum(everything) <= model.replicas * x.peak[b])
        for terms in of_request.values():
            program.add(_sum(terms) <= x.peak[b])


def executed_steps(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_g sum of x_itg over the starts of i active at k <= y_k, and sum_k y_k >= least steps."""
    if not model.counts_steps:
        return
    for block in model.blocks:
        of_request: dict[int, list[IntVar]] = defaultdict(list)
        for (i, t), _ in block.terms:
            of_request[i].extend(x.start[i, t, g] for g in range(model.replicas))
        for active in of_request.values():
            program.add(sum(active) <= x.executed[block.step])
    program.add(sum(x.executed.values()) >= model.least_steps)


def no_late_gap(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """y_(k+1) <= y_k for every k >= the last ready step: idle steps there can be cut out.

    See ``FreeAdmissions.end``; it keeps one of the schedules that differ by such gaps only.
    """
    if not model.counts_steps:
        return
    last_ready = max(request.ready for request in model.requests)
    late = [block.step for block in model.blocks if block.step >= last_ready]
    for k, later in pairwise(late):
        program.add_implication(x.executed[later], x.executed[k])


def work_conserving(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """Bound waiting: slots*(i waits at k) <= active requests of g at k, for every i, k, g.

    With KV capacity, g may instead be too full to reserve the request:
    (i waits at k) <= f_gk + v_igk, slots*f_gk <= active_g(k),
    (kv_capacity - r_i + 1)*v_igk <= reserved_g(k).
    """
    if not model.work_conserving:
        return
    for i, k in model.may_wait():
        active, waiting = model.active(k), model.waiting(i, k)
        waits = sum(x.start[j, t, g] for j, t in waiting for g in range(model.replicas))
        for g in range(model.replicas):
            if model.kv_capacity is None:
                program.add(model.slots * waits <= sum(x.start[j, t, g] for j, t in active))
            elif model.reservation(i) <= model.kv_capacity:
                program.add(waits <= x.full[g, k] + x.heavy[i, g, k])
                held = _sum((x.start[j, t, g], model.reservation(j)) for j, t in active)
                least = model.kv_capacity - model.reservation(i) + 1
                program.add(least * x.heavy[i, g, k] <= held)
    for (g, k), full in x.full.items():
        program.add(model.slots * full <= sum(x.start[j, t, g] for j, t in model.active(k)))


def first_use_order(program: CpModel, model: ScheduleModel, x: ScheduleVariables) -> None:
    """sum_t x_itg <= sum over j < i of sum_t x_jt(g-1): replica g opens after replica g - 1."""
    for i, steps in enumerate(model.starts):
        for g in range(1, model.replicas):
            own = sum(x.start[i, t, g] for t in steps)
            before = sum(x.start[j, t, g - 1] for j in range(i) for t in model.starts[j])
            program.add(own <= before)


def tick_place_at_most_once(program: CpModel, model: TickModel, x: TickVariables) -> None:
    """sum_g x_ig <= 1 for every pooled request i."""
    for i in range(len(model.prompts)):
        program.add_at_most_one(x.place[i, g] for g in range(model.replicas) if (i, g) in x.place)


def tick_slots(program: CpModel, model: TickModel, x: TickVariables) -> None:
    """sum_i x_ig <= free slots of g, for every g that has some."""
    for g, free in enumerate(model.free_slots):
        if free > 0:
            program.add(sum(x.place[i, g] for i in range(len(model.prompts))) <= free)


def tick_room(program: CpModel, model: TickModel, x: TickVariables) -> None:
    """sum_i r_i x_ig <= KV room of g, for every g with slots, where room is limited."""
    for g, free in enumerate(model.free_slots):
        if free > 0 and model.room is not None:
            terms = [(x.place[i, g], r) for i, r in enumerate(model.reservations)]
            program.add(_sum(terms) <= model.room[g])


def tick_count(program: CpModel, x: TickVariables, count: int) -> None:
    """sum_i sum_g x_ig = count: as many as fit, no fewer."""
    program.add(sum(x.place.values()) == count)


def tick_cost_at_most(program: CpModel, cost: LinearExpr, most: int) -> None:
    """Bound the cost: peak * sum_h copies_h M_h - load * (H + 1) * sum_i s_i sum_g x_ig <= most."""
    program.add(cost <= most)


def tick_peak_covers_loads(program: CpModel, model: TickModel, x: TickVariables) -> None:
    """M_h >= L_g(h) + sum_i s_i x_ig, for every row h and every g with slots."""
    for h, row in enumerate(model.rows):
        for g, load in enumerate(row.loads):
            if model.free_slots[g] > 0:
                terms = [(x.place[i, g], prompt) for i, prompt in enumerate(model.prompts)]
                program.add(load + _sum(terms) <= x.peak[h])


def _sum(terms: Terms) -> LinearExpr:
    pairs = list(terms)
    return LinearExpr.weighted_sum([v for v, _ in pairs], [weight for _, weight in pairs])
