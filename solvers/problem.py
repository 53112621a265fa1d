"""The three exact problems: (A) admission steps given, (B) admission steps free, (C) one tick.

A problem is checked when it is made: a request that fits nowhere, or a step at which more requests
are active than there are slots, is named at once. KV capacity here is the judge's: actual loads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from brtheory.core.requests import Request
from brtheory.core.tick import TickState, check_state
from brtheory.errors import InfeasibleError, InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.objective import Cost, ObjectiveName, check_objective, objective_cost

Case = Literal["A", "B", "C"]


@dataclass(frozen=True)
class FixedAdmissions:
    """Case A: each request starts at a given step; only its replica is free.

    Parameters
    ----------
    instance
        The requests and the cluster.
    objective
        Both objectives have the same minimisers here (T17).
    admissions
        Step of each request id; None starts each request at its ready step.

    Raises
    ------
    InputError
        If the admissions do not name exactly the requests, or start one before it is ready.
    InfeasibleError
        If a request fits no empty replica, or more than G*slots requests are active at once.
    """

    case: ClassVar[Case] = "A"
    instance: Instance
    objective: ObjectiveName
    admissions: Mapping[int, int] | None = None
    steps: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        given = self.admissions
        requests = self.instance.requests
        steps = {r.id: r.ready for r in requests} if given is None else dict(given)
        object.__setattr__(self, "steps", steps)
        check_objective(self.objective)
        _check_alone(self.instance)
        _check_admissions(self.instance, steps)
        _check_slots(self.instance, steps)

    @property
    def cost(self) -> Cost:
        """Integer weights of the objective."""
        return _instance_cost(self.instance, self.objective)

    @cached_property
    def ordered(self) -> tuple[OfflineRequest, ...]:
        """Requests by (admission step, id)."""
        return tuple(sorted(self.instance.requests, key=lambda r: (self.steps[r.id], r.id)))


@dataclass(frozen=True)
class FreeAdmissions:
    """Case B: step and replica are free; a request may be held back.

    Parameters
    ----------
    instance
        The requests and the cluster.
    objective
        Imbalance alone rewards holding back; barrier time is the honest one.
    hold
        Most steps between ready and admission, None for unlimited.
    work_conserving
        Whether no request may wait while a replica has a free slot and room to reserve its
        prompt + output tokens.

    Raises
    ------
    InputError
        If ``hold`` is negative.
    InfeasibleError
        If a request fits no empty replica.
    """

    case: ClassVar[Case] = "B"
    instance: Instance
    objective: ObjectiveName
    hold: int | None = None
    work_conserving: bool = False

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.hold is not None and self.hold < 0:
            raise InputError("hold", "steps >= 0, or none for unlimited", self.hold)
        _check_alone(self.instance)

    @property
    def cost(self) -> Cost:
        """Integer weights of the objective."""
        return _instance_cost(self.instance, self.objective)

    @cached_property
    def ordered(self) -> tuple[OfflineRequest, ...]:
        """Requests by ready step, the most work first."""
        return tuple(sorted(self.instance.requests, key=lambda r: (r.ready, -r.work, r.id)))

    @property
    def restricted(self) -> bool:
        """Whether a rule says how long, or when, a request may wait."""
        return self.hold is not None or self.work_conserving

    @property
    def end(self) -> int:
        """A step before which some optimal schedule ends: last ready step + sum of outputs.

        Once everything is ready, an idle step can be cut out by moving all later admissions one
        step earlier: neither objective, no capacity and no rule notices. So from the last ready
        step on at least one request is active in each step until the end.
        """
        requests = self.instance.requests
        return max((r.ready for r in requests), default=0) + sum(r.output_tokens for r in requests)

    def window(self, request: OfflineRequest, *, end: int | None = None) -> range:
        """Admission steps to consider for a request of a schedule that ends before ``end``."""
        last = (self.end if end is None else end) - request.output_tokens
        if self.hold is not None:
            last = min(last, request.ready + self.hold)
        return range(request.ready, last + 1)


@dataclass(frozen=True)
class TickProblem:
    """Case C: one tick. Admit as many requests as fit, and of those choices the cheapest.

    An admitted request adds its prompt to the replica's whole projected row; the objective is
    taken over the rows h = 0 .. H: sum_h (G*max_g - sum_g), or the time of these H + 1 steps.

    Parameters
    ----------
    state
        Loads (H + 1 entries a replica), free slots, pool, KV room.
    objective
        ``imbalance`` or ``time``.
    a0, b0
        Step-time weights; with both None ``time`` is the sum of peaks.
    """

    case: ClassVar[Case] = "C"
    state: TickState
    objective: ObjectiveName
    a0: float | None = None
    b0: float | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if not self.state.loads:
            raise InputError("replicas", "at least one replica", 0)
        check_state(self.state, horizon=len(self.state.loads[0]) - 1)
        if self.state.paces is not None:
            raise InputError("replicas", "replicas that are alike in speed", "unequal ones")

    @property
    def rows(self) -> int:
        """H + 1."""
        return len(self.state.loads[0])

    @property
    def cost(self) -> Cost:
        """Integer weights of the objective."""
        if self.objective == "time" and (self.a0 is None or self.b0 is None):
            return Cost(step=0, peak=1, load=0)
        return objective_cost(
            self.objective,
            replicas=len(self.state.loads),
            a0=0.0 if self.a0 is None else self.a0,
            b0=0.0 if self.b0 is None else self.b0,
        )

    @property
    def most_admissions(self) -> int:
        """min(pool, total free slots): what slots alone allow."""
        return min(len(self.state.pool), sum(self.state.free_slots))


Problem = FixedAdmissions | FreeAdmissions | TickProblem


def admission_steps(assignment: Assignment) -> dict[int, int]:
    """Admission step of each request of an assignment (its replicas are ignored).

    Raises
    ------
    InputError
        If a request is admitted twice.
    """
    steps: dict[int, int] = {}
    for placement in assignment:
        if placement.id in steps:
            raise InputError("admissions", "each request once", f"request {placement.id} twice")
        steps[placement.id] = placement.step
    return steps


def first_tick(instance: Instance, objective: ObjectiveName) -> TickProblem:
    """The first tick of an instance: empty replicas, and the requests ready first as the pool."""
    instance.check_alike()
    first = min((r.ready for r in instance.requests), default=0)
    pool = [
        Request(r.id, r.prompt_tokens, reserved_tokens=r.prompt_tokens + r.output_tokens)
        for r in sorted(instance.requests, key=lambda r: r.id)
        if r.ready == first
    ]
    capacity = instance.kv_capacity
    state = TickState(
        loads=[[0]] * instance.replicas,
        free_slots=[instance.slots] * instance.replicas,
        pool=pool,
        free_tokens=None if capacity is None else [capacity] * instance.replicas,
    )
    return TickProblem(state, objective, a0=instance.a0, b0=instance.b0)


def _instance_cost(instance: Instance, objective: ObjectiveName) -> Cost:
    return objective_cost(objective, replicas=instance.replicas, a0=instance.a0, b0=instance.b0)


def _check_alone(instance: Instance) -> None:
    instance.check_alike()
    capacity = instance.kv_capacity
    for request in instance.requests:
        largest = request.prompt_tokens + request.output_tokens - 1
        if capacity is not None and largest > capacity:
            raise InfeasibleError(
                f"request {request.id}: grows to {largest} KV tokens, kv_capacity {capacity}"
            )


def _check_admissions(instance: Instance, steps: Mapping[int, int]) -> None:
    requests = {r.id: r for r in instance.requests}
    for request in instance.requests:
        if request.id not in steps:
            raise InputError("admissions", f"a step for request {request.id}", "none")
    for request_id, step in steps.items():
        if request_id not in requests:
            raise InputError("admissions", "requests of the instance", f"request {request_id}")
        if step < requests[request_id].ready:
            ready = requests[request_id].ready
            raise InputError(f"admissions: request {request_id}", f"step >= ready {ready}", step)


def _check_slots(instance: Instance, steps: Mapping[int, int]) -> None:
    """Completions come before admissions of the same step."""
    events = sorted(
        event
        for r in instance.requests
        for event in ((steps[r.id], 1, r.id), (steps[r.id] + r.output_tokens, 0, r.id))
    )
    most, active = instance.replicas * instance.slots, 0
    for step, starts, request_id in events:
        active += 1 if starts else -1
        if active > most:
            raise InfeasibleError(
                f"request {request_id}: admitted at step {step} as active request {active}, "
                f"replicas*slots {instance.replicas}*{instance.slots}; other admission steps may "
                "do (--admissions, or case B, which finds them)"
            )
