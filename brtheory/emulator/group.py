"""A decode group behind one barrier, without I/O: G replicas take every step together.

Rules. Each replica has ``slots`` places, an optional KV capacity and its own FIFO. At the start of
a step waiting requests are admitted while they fit; the step lasts

    tau = b0 + a0*M,   M = max_g L_g,   L_g = sum over g's active requests of (prompt + age)

and at its end every active request has emitted one token (up to ``burst`` with speculative
decoding), those that are done leave, and the others have grown by what they emitted. The clock of
a busy period is base + b0*steps + a0*sum_peak, in integers but for the two factors, exactly as in
``brtheory.simulation.engine``: the same admissions give the same loads and the same clock.

The engine knows each request's true length and reserves prompt + output tokens at admission, so
nothing is ever preempted.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from brtheory.core.cluster import Cluster, as_int_array
from brtheory.core.imbalance import imbalance
from brtheory.core.requests import Request
from brtheory.emulator.noise import mix
from brtheory.emulator.step import DecodeRequest, Emission, GroupTotals, Step
from brtheory.errors import InfeasibleError, InputError
from brtheory.simulation.workload import ClusterShape, StepTime


@dataclass(slots=True)
class _Active:
    request: DecodeRequest
    place: Request
    age: int = 0


Gate = Callable[[DecodeRequest], bool]


class DecodeGroup:
    """The one owner of the group's state.

    Parameters
    ----------
    shape
        G, slots, KV capacity.
    step_time
        b0 and a0.
    burst
        Most tokens a request emits in one step, >= 1; above 1 the number is drawn uniformly.
    seed
        Of the bursts.
    gate
        Asked at the moment a request would be admitted; False keeps it out (its KV is gone).
    """

    def __init__(
        self,
        shape: ClusterShape,
        *,
        step_time: StepTime,
        burst: int = 1,
        seed: int = 0,
        gate: Gate | None = None,
    ) -> None:
        if burst < 1:
            raise InputError("burst", "an integer >= 1", burst)
        self.shape = shape
        self.totals = GroupTotals()
        self.step_time = step_time
        self._burst = burst
        self._seed = seed
        self._gate = gate
        self._cluster = Cluster(
            replicas=shape.replicas, slots=shape.slots, kv_capacity=shape.kv_capacity
        )
        # Ordered: the first of a plain dict is slow to find once many before it are gone.
        self._waiting: tuple[OrderedDict[int, DecodeRequest], ...] = tuple(
            OrderedDict() for _ in range(shape.replicas)
        )
        self._active: dict[int, _Active] = {}
        self._replica: dict[int, int] = {}
        self._refused: list[int] = []
        self._base_s: float | None = None
        self._base_steps = self._base_peak = 0

    @property
    def loads(self) -> tuple[int, ...]:
        """L_g: KV tokens of the active requests, one per replica."""
        return tuple(self._cluster.loads.tolist())

    @property
    def active(self) -> tuple[int, ...]:
        """Requests decoding, one count per replica."""
        return tuple(self._cluster.active.tolist())

    @property
    def waiting(self) -> tuple[int, ...]:
        """Requests in each replica's own FIFO."""
        return tuple(map(len, self._waiting))

    @property
    def imbalance(self) -> int:
        """I = G*M - sum_g L_g now, in KV tokens."""
        return imbalance(self.loads)

    @property
    def imbalance_total(self) -> int:
        """Sum of I over begun steps, token-steps."""
        return self.shape.replicas * self.totals.sum_peak - self.totals.sum_load

    def age(self, request_id: int) -> int | None:
        """Tokens a request has emitted, None while it waits or when it is not here."""
        active = self._active.get(request_id)
        return None if active is None else active.age

    def submit(self, request: DecodeRequest) -> None:
        """Put a request at the end of its replica's FIFO.

        Raises
        ------
        InputError
            If the replica does not exist, a length is below 1, or the id is in the group.
        InfeasibleError
            If not even an empty replica could take it.
        """
        self._check(request)
        self._waiting[request.replica][request.id] = request
        self._replica[request.id] = request.replica
        self.totals.submitted += 1

    def cancel(self, request_id: int) -> bool:
        """Let a request leave at once, waiting or active; False if it is not here."""
        replica = self._replica.pop(request_id, None)
        if replica is None:
            return False
        if self._waiting[replica].pop(request_id, None) is None:
            self._retire(self._active.pop(request_id))
        self.totals.cancelled += 1
        return True

    def begin_step(self, now_s: float) -> Step | None:
        """Admit what fits and begin a step, None if nothing is active.

        Parameters
        ----------
        now_s
            Model time; it matters only when the group was idle, otherwise the step follows the
            one before it without a gap.
        """
        self._admit()
        if not self._active:
            self._base_s = None
            return None
        if self._base_s is None:
            self.rebase(now_s)
        loads = self.loads
        peak = max(loads)
        self.totals.steps += 1
        self.totals.sum_peak += peak
        self.totals.sum_load += sum(loads)
        tau = self.step_time.b0 + self.step_time.a0 * peak
        return Step(self.totals.steps - 1, loads, peak, tau, self._clock_s(now_s))

    def end_step(self) -> list[Emission]:
        """End the step: one emission for each active request, in order of admission."""
        growth = [0] * self.shape.replicas
        emissions = [self._emit(active, growth) for active in self._active.values()]
        self._cluster.loads += as_int_array(growth)
        for emission in emissions:
            if emission.finished:
                self._retire(self._active.pop(emission.id))
                del self._replica[emission.id]
                self.totals.completed += 1
        return emissions

    def take_refused(self) -> tuple[int, ...]:
        """Requests the gate kept out since the last call; they have left the group."""
        refused = tuple(self._refused)
        self._refused.clear()
        self.totals.refused += len(refused)
        return refused

    def rebase(self, now_s: float) -> None:
        """Let the next step begin at ``now_s``: after idling, or when time was lost."""
        self._base_s = now_s
        self._base_steps, self._base_peak = self.totals.steps, self.totals.sum_peak

    def _clock_s(self, now_s: float) -> float:
        base = now_s if self._base_s is None else self._base_s
        steps = self.totals.steps - self._base_steps
        peaks = self.totals.sum_peak - self._base_peak
        return base + self.step_time.b0 * steps + self.step_time.a0 * peaks

    def _check(self, request: DecodeRequest) -> None:
        if not 0 <= request.replica < self.shape.replicas:
            raise InputError("replica", f"0 .. {self.shape.replicas - 1}", request.replica)
        if min(request.prompt_tokens, request.output_tokens) < 1:
            raise InputError("request", "prompt and output tokens >= 1", request)
        if request.id in self._replica:
            raise InputError("request", "ids used once", f"id {request.id} twice")
        needed, capacity = _place(request).reserved_tokens, self.shape.kv_capacity
        if capacity is not None and needed > capacity:
            raise InfeasibleError(
                f"request {request.id} reserves {needed} KV tokens, kv_capacity is {capacity}"
            )

    def _admit(self) -> None:
        """Admit from the head of each FIFO while it fits; never overtake."""
        for waiting in self._waiting:
            while waiting:
                request = next(iter(waiting.values()))
                place = _place(request)
                if not self._cluster.fits(place, request.replica):
                    break
                del waiting[request.id]
                if self._gate is not None and not self._gate(request):
                    del self._replica[request.id]
                    self._refused.append(request.id)
                    continue
                self._cluster.admit(place, request.replica)
                self._active[request.id] = _Active(request, place)

    def _emit(self, active: _Active, growth: list[int]) -> Emission:
        request = active.request
        tokens = min(self._tokens_of_step(active), request.output_tokens - active.age)
        active.age += tokens
        growth[request.replica] += tokens
        self.totals.decoded_tokens += tokens
        return Emission(request.id, tokens, active.age, active.age == request.output_tokens)

    def _tokens_of_step(self, active: _Active) -> int:
        if self._burst == 1:
            return 1
        return 1 + mix(self._seed, active.request.key, active.age) % self._burst

    def _retire(self, active: _Active) -> None:
        self._cluster.retire(
            active.place, active.request.replica, tokens=active.request.prompt_tokens + active.age
        )


def _place(request: DecodeRequest) -> Request:
    """The request as the cluster's books see it."""
    return Request(
        id=request.id,
        prompt_tokens=request.prompt_tokens,
        reserved_tokens=request.prompt_tokens + request.output_tokens,
    )
