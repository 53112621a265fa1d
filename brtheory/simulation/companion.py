"""The companion paper's published simulator program, re-enacted as a mode of its own.

It exists for parity with published figures; its conventions are not this project's (those are the
barrier-step engine's). The order is: tick, then repeat (step, growth, completions, sample, tick).

* A tick sees the next min(4G, rest) requests in file order and admits while any slot is free, loads
  updated after each. What it does not admit waits for the next tick.
* A step takes tau = b0 + a0 * M seconds, M the largest load before growth. Its b0 is that of 72
  slots whatever ``slots`` is, as published.
* Growth adds a token to every admitted request, then requests that made all their tokens leave,
  then I = G * max - sum is sampled.
* Averages run over the first K steps, K the number of steps before the last tick that admitted:
  mean imbalance = sum I / K, throughput = sum of active requests / sum of tau. The makespan runs
  over all steps.

Reference: the program published with Chen et al. (2026), arXiv:2601.17855.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from brtheory.analysis.arguments import IntegerArray, checked_count, checked_lengths
from brtheory.core.cluster import as_int_array
from brtheory.core.still_horizon import StillHorizonState
from brtheory.errors import InputError
from brtheory.routers.bf_io import BalanceFuture
from brtheory.routers.fast_arrays import TickArrays
from brtheory.routers.params import BalanceFutureParams

CompanionPolicy = Literal["least-tokens", "round-robin", "bf-io"]

STEP_BASE_S = (72 * 0.6e-3 + 35e-3) / 16
"""b0, seconds a step."""

STEP_S_PER_TOKEN = 1.5 * 2 * 576 * 61e-6 / 2**20
"""a0, seconds a step per KV token on the heaviest replica."""

WINDOW_PER_REPLICA = 4
"""A tick looks at this many waiting requests per replica."""

FUTURE = BalanceFutureParams()
_Place = tuple[int, int]


@dataclass(frozen=True)
class CompanionResult:
    """What the program prints.

    Parameters
    ----------
    makespan_s
        Duration of all steps, seconds.
    imbalance_mean_tokens
        Mean of G * max - sum after completions over the first K steps, tokens; None if K = 0.
    throughput_tokens_per_s
        Tokens made in the first K steps over their duration; None if K = 0.
    steps
        Steps executed.
    steps_before_last_admission
        K, the steps executed before the last tick that admitted a request.
    """

    makespan_s: float
    imbalance_mean_tokens: float | None
    throughput_tokens_per_s: float | None
    steps: int
    steps_before_last_admission: int


def run_companion(
    prompt_tokens: ArrayLike,
    output_tokens: ArrayLike,
    *,
    policy: CompanionPolicy,
    replicas: int,
    slots: int,
) -> CompanionResult:
    """Run the program on requests in file order, all of them ready at the start.

    Parameters
    ----------
    prompt_tokens, output_tokens
        Integers, shape (n,) with n >= 1, tokens, >= 1; entry i of both is request i.
    policy
        ``least-tokens``: the smallest load among replicas with a free slot, ties to the lowest
        index. ``round-robin``: in turn from replica 0 at every tick, full replicas skipped.
        ``bf-io``: the router of that name with its default parameters and true lengths; it looks
        no further than the longest output that is left.
    replicas, slots
        G >= 1 and slots per replica >= 1.

    Raises
    ------
    InputError
        If the lengths or a count are out of range or the policy is unknown.

    Examples
    --------
    One replica with one slot: steps at loads 10, 11 and 5, the last admission before the third.

    >>> result = run_companion([10, 5], [2, 1], policy="least-tokens", replicas=1, slots=1)
    >>> result.steps, result.steps_before_last_admission, round(1000 * result.makespan_s, 4)
    (3, 2, 14.6651)
    """
    prompts, outputs = checked_lengths(prompt_tokens, output_tokens)
    fleet = _Fleet(checked_count("replicas", replicas), checked_count("slots", slots))
    choose = _CHOICES.get(policy)
    if choose is None:
        raise InputError("policy", f"one of {', '.join(_CHOICES)}", policy)
    waiting = _Waiting(prompts, outputs)
    log = _Log()
    waiting.tick(fleet, choose)
    while any(fleet.active):
        log.step(fleet)
        if waiting.tick(fleet, choose):
            log.steps_before_last_admission = len(log.peaks)
    return log.result()


class _Fleet:
    """The one owner of loads and active requests; its clock counts executed steps."""

    def __init__(self, replicas: int, slots: int) -> None:
        self.loads = [0] * replicas
        self.active = [0] * replicas
        self.future = StillHorizonState(replicas=replicas, horizon=FUTURE.horizon)
        self._slots = slots
        self._clock = 0
        self._leaving: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)

    def with_free_slot(self) -> list[int]:
        return [replica for replica, count in enumerate(self.active) if count < self._slots]

    def free_slots(self) -> list[int]:
        return [self._slots - count for count in self.active]

    def longest_left(self) -> int:
        """Steps until the last active request leaves, 0 without one."""
        return max(self._leaving, default=self._clock) - self._clock

    def admit(self, replica: int, request: "_Request") -> None:
        self.loads[replica] += request.prompt
        self.active[replica] += 1
        end = self._clock + request.output
        self._leaving[end].append((request.id, replica, request.prompt + request.output))
        self.future.admit(request.id, replica, tokens=request.prompt, finish=end)

    def grow(self) -> None:
        self._clock += 1
        self.loads = [load + count for load, count in zip(self.loads, self.active, strict=True)]

    def complete(self) -> None:
        for number, replica, weight in self._leaving.pop(self._clock, ()):
            self.loads[replica] -= weight
            self.active[replica] -= 1
            self.future.retire(number)
        self.future.advance(1)


class _Request(NamedTuple):
    id: int
    prompt: int
    output: int


def _least_tokens(fleet: _Fleet, window: Sequence[_Request], _longest: int) -> Iterator[_Place]:
    for position in range(len(window)):
        if free := fleet.with_free_slot():
            yield position, min(free, key=fleet.loads.__getitem__)


def _round_robin(fleet: _Fleet, window: Sequence[_Request], _longest: int) -> Iterator[_Place]:
    position = 0
    while position < len(window) and (free := fleet.with_free_slot()):
        for replica in free[: len(window) - position]:
            yield position, replica
            position += 1


def _bf_io(fleet: _Fleet, window: Sequence[_Request], longest: int) -> Iterator[_Place]:
    if not window or not fleet.with_free_slot():
        return
    horizon = min(FUTURE.horizon, max(longest, fleet.longest_left()))
    decisions = BalanceFuture(replace(FUTURE, horizon=horizon)).decide(
        TickArrays(
            columns=fleet.future.rows(),
            free_slots=as_int_array(fleet.free_slots()),
            prompt_tokens=as_int_array([request.prompt for request in window]),
        )
    )
    yield from zip(decisions.positions, decisions.replicas, strict=True)


_Choice = Callable[[_Fleet, Sequence[_Request], int], Iterator[_Place]]

# A tick starts a fresh iterator, so the round-robin pointer restarts at replica 0; iterators are
# lazy, so that each choice sees the loads left by the admission before it. A round over the free
# replicas admits at most one request to each, so none of them fills up before its turn.
_CHOICES: dict[str, _Choice] = {
    "least-tokens": _least_tokens,
    "round-robin": _round_robin,
    "bf-io": _bf_io,
}


class _Waiting:
    """The requests not yet admitted, in file order."""

    def __init__(self, prompts: IntegerArray, outputs: IntegerArray) -> None:
        rows = zip(prompts.tolist(), outputs.tolist(), strict=True)
        self._requests = [_Request(number, *row) for number, row in enumerate(rows)]
        # The longest output from each request on.
        self._longest: list[int] = np.maximum.accumulate(outputs[::-1])[::-1].tolist()
        self._window: list[_Request] = []
        self._next = 0

    def tick(self, fleet: _Fleet, choose: _Choice) -> int:
        """Admit from the window while a slot is free; return how many were admitted."""
        end = self._next + WINDOW_PER_REPLICA * len(fleet.loads) - len(self._window)
        self._window += self._requests[self._next : end]
        self._next = min(end, len(self._requests))
        longest = max((request.output for request in self._window), default=0)
        if self._next < len(self._requests):
            longest = max(longest, self._longest[self._next])
        admitted = set()
        for position, replica in choose(fleet, self._window, longest):
            fleet.admit(replica, self._window[position])
            admitted.add(position)
        self._window = [r for i, r in enumerate(self._window) if i not in admitted]
        return len(admitted)


class _Log:
    """What is sampled at each step, as integers; the clock is b0 * steps + a0 * sum of peaks."""

    def __init__(self) -> None:
        self.peaks: list[int] = []
        self.steps_before_last_admission = 0
        self._active: list[int] = []
        self._imbalances: list[int] = []

    def step(self, fleet: _Fleet) -> None:
        """Execute one step of the fleet: step, growth, completions, sample."""
        self.peaks.append(max(fleet.loads))
        self._active.append(sum(fleet.active))
        fleet.grow()
        fleet.complete()
        self._imbalances.append(len(fleet.loads) * max(fleet.loads) - sum(fleet.loads))

    def result(self) -> CompanionResult:
        until = self.steps_before_last_admission
        imbalance = throughput = None
        if until > 0:
            imbalance = sum(self._imbalances[:until]) / until
            throughput = sum(self._active[:until]) / _duration_s(self.peaks[:until])
        return CompanionResult(
            makespan_s=_duration_s(self.peaks),
            imbalance_mean_tokens=imbalance,
            throughput_tokens_per_s=throughput,
            steps=len(self.peaks),
            steps_before_last_admission=until,
        )


def _duration_s(peaks: list[int]) -> float:
    return STEP_BASE_S * len(peaks) + STEP_S_PER_TOKEN * sum(peaks)
