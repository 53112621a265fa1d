"""The dynamic program of case B: over what has started, and what runs where since which step.

Two schedules that at a step have started the same requests and run the same ones in the same groups
since the same steps have the same future, so only the cheaper is kept. Groups carry no name:
replicas are equal. States are visited in order of time. Without a choice (all slots taken, or
nobody waits) a state leaps to its next event; where holding back is allowed it advances one step.

With W the work and S the output tokens that are left at a state, the rest costs at least

    step*max(ceil(S/(G*slots)), longest output left) + peak*ceil(W/G),

and a state that cannot beat the best known schedule is dropped. Work-conserving problems leave
few choices, there the program is far ahead of the models; with free holding it is not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.evaluate import sum_of_peaks
from solvers.budget import Budget, Progress
from solvers.problem import FreeAdmissions
from solvers.result import Claim, Limit, Stop

Known = tuple[Assignment, int] | None
Group = tuple[tuple[int, int], ...]
"""What runs on a replica: (index of the request, admission step), ascending."""
STATE_BYTES = 1500
"""Memory of a state with its key, measured roughly from above."""
LOOK_EVERY = 1024
"""States between two looks at the budget."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """An admission and those before it on the way to a state."""

    request: int
    replica: int
    step: int
    before: "_Admitted | None"


@dataclass(frozen=True, slots=True)
class _State:
    """A step before its admissions.

    Parameters
    ----------
    started
        Requests admitted so far, as bits.
    groups
        By replica.
    cost
        Of the executed steps, in the objective's unit.
    admitted
        The last admission.
    """

    started: int
    groups: tuple[Group, ...]
    cost: int
    admitted: _Admitted | None


class FreeSearch:
    """One run over the states of a problem without KV capacity.

    Parameters
    ----------
    problem
        Case B.
    budget
        Limits, looked at between states.
    known
        A schedule and its objective: states that cannot beat it are dropped.
    """

    def __init__(self, problem: FreeAdmissions, *, budget: Budget, known: Known) -> None:
        instance, cost = problem.instance, problem.cost
        self._problem, self._budget, self._known = problem, budget, known
        self._requests = problem.ordered
        self._replicas, self._slots = instance.replicas, instance.slots
        self._step, self._peak = cost.step, cost.peak
        self._constant = -cost.load * instance.total_work
        self._ceiling = None if known is None else known[1] - self._constant
        self._last_ready = max((r.ready for r in self._requests), default=0)
        self._layers: dict[int, dict[tuple[int, tuple[Group, ...]], _State]] = {}
        self._left: dict[int, tuple[int, int, int]] = {}
        self._steps: list[int] = []
        self._best: _State | None = None
        self._kept = 0

    def run(self) -> Claim:
        """Run until nothing is open, or to a limit."""
        self._keep(min(r.ready for r in self._requests), _State(0, ((),) * self._replicas, 0, None))
        visited = 0
        while self._steps:
            step = self._steps[0]
            layer = self._layers[step]
            while layer:
                if visited % LOOK_EVERY == 0 and (ended := self._ended()) is not None:
                    return self._claim(ended)
                visited += 1
                _, state = layer.popitem()
                self._kept -= 1
                for admitted in self._choices(state, step):
                    self._advance(admitted, step)
            del self._layers[heappop(self._steps)]
        return self._claim(None)

    # -- choices -----------------------------------------------------------------------------------

    def _choices(self, state: _State, step: int) -> Iterator[_State]:
        """The state after each set of admissions that the rules allow, up to renaming replicas."""
        waiting = self._waiting(state, step)
        if not waiting:
            yield state
            return
        free = self._replicas * self._slots - sum(map(len, state.groups))
        most = min(len(waiting), free)
        forced = most if self._problem.work_conserving else 0
        overdue = [i for i in waiting if self._held_out(i, step)]
        for count in range(forced, most + 1):
            for chosen in combinations(waiting, count):
                if set(overdue) <= set(chosen):
                    yield from self._placed(state, chosen, step)

    def _placed(self, state: _State, chosen: tuple[int, ...], step: int) -> Iterator[_State]:
        """Every way to place the chosen requests, one of each that differ by names only."""
        level = {_key(state): state}
        for request in chosen:
            level = {
                _key(placed): placed
                for one in level.values()
                for placed in self._with(one, request, step)
            }
        yield from level.values()

    def _with(self, state: _State, request: int, step: int) -> Iterator[_State]:
        seen: set[Group] = set()
        for replica, group in enumerate(state.groups):
            if group in seen or len(group) == self._slots:
                continue
            seen.add(group)
            groups = list(state.groups)
            groups[replica] = tuple(sorted((*group, (request, step))))
            yield _State(
                state.started | 1 << request,
                tuple(groups),
                state.cost,
                _Admitted(request, replica, step, state.admitted),
            )

    def _waiting(self, state: _State, step: int) -> list[int]:
        return [
            i
            for i, request in enumerate(self._requests)
            if request.ready <= step and not state.started >> i & 1
        ]

    def _held_out(self, request: int, step: int) -> bool:
        """Whether a request may not wait past this step."""
        hold = self._problem.hold
        return hold is not None and step - self._requests[request].ready >= hold

    # -- time --------------------------------------------------------------------------------------

    def _advance(self, state: _State, step: int) -> None:
        """Run until the next choice."""
        running = [pair for group in state.groups for pair in group]
        if not running and state.started == (1 << len(self._requests)) - 1:
            if self._ceiling is None or state.cost < self._ceiling:
                self._ceiling, self._best = state.cost, state
                self._budget.on_progress(Progress(incumbent=state.cost + self._constant))
            return
        then = self._next_choice(state, running, step)
        if then is None:
            return
        cost = state.cost
        if running:
            lines = [self._line(group, step) for group in state.groups if group]
            peaks = sum_of_peaks(lines, then - step)
            cost += self._step * (then - step) + self._peak * peaks
        groups = tuple(
            tuple(pair for pair in group if self._end(pair) > then) for group in state.groups
        )
        self._keep(then, _State(state.started, groups, cost, state.admitted))

    def _next_choice(self, state: _State, running: list[tuple[int, int]], step: int) -> int | None:
        """Step of the next choice; None where waiting on would only idle."""
        if self._waiting(state, step) and not self._problem.work_conserving:
            # Idling helps only to meet a request that comes later (see ``FreeAdmissions.end``).
            return step + 1 if running or step < self._last_ready else None
        events = [self._end(pair) for pair in running]
        events += [r.ready for r in self._requests if r.ready > step]
        return min(events)

    def _line(self, group: Group, step: int) -> tuple[int, int]:
        load = sum(self._requests[i].prompt_tokens + step - start for i, start in group)
        return load, len(group)

    def _end(self, pair: tuple[int, int]) -> int:
        return pair[1] + self._requests[pair[0]].output_tokens

    # -- states ------------------------------------------------------------------------------------

    def _keep(self, step: int, state: _State) -> None:
        """Keep a state unless it cannot win or an equal one is as cheap."""
        if self._ceiling is not None and self._bound(state, step) >= self._ceiling:
            return
        if step not in self._layers:
            self._layers[step] = {}
            heappush(self._steps, step)
        layer, key = self._layers[step], _key(state)
        old = layer.get(key)
        if old is None or state.cost < old.cost:
            self._kept += old is None
            layer[key] = state

    def _bound(self, state: _State, step: int) -> int:
        """Lower bound on what a schedule through this state costs."""
        work, tokens, longest = self._unstarted(state.started)
        for i, start in (pair for group in state.groups for pair in group):
            age, left = step - start, self._end((i, start)) - step
            work += left * (self._requests[i].prompt_tokens + age) + left * (left - 1) // 2
            tokens += left
            longest = max(longest, left)
        steps = max(longest, -(-tokens // (self._replicas * self._slots)))
        return state.cost + self._step * steps + self._peak * -(-work // self._replicas)

    def _unstarted(self, started: int) -> tuple[int, int, int]:
        """Work, output tokens and longest output of the requests yet to start; looked up often."""
        known = self._left.get(started)
        if known is None:
            rest = [r for i, r in enumerate(self._requests) if not started >> i & 1]
            outputs = [r.output_tokens for r in rest]
            known = sum(r.work for r in rest), sum(outputs), max(outputs, default=0)
            self._left[started] = known
        return known

    # -- answers -----------------------------------------------------------------------------------

    def _ended(self) -> tuple[Stop, Limit | None] | None:
        if not self._budget.fits(self._kept * STATE_BYTES):
            return Stop.LIMIT, Limit.MEMORY
        return self._budget.ended()

    def _claim(self, ended: tuple[Stop, Limit | None] | None) -> Claim:
        assignment = None if self._known is None else self._known[0]
        if self._best is not None:
            assignment = self._assignment(self._best)
        value = None if self._ceiling is None else self._ceiling + self._constant
        if ended is None:
            stop = Stop.INFEASIBLE if value is None else Stop.EXHAUSTED
            return Claim(assignment, value, value, stop)
        open_states = (
            self._bound(state, step)
            for step, layer in self._layers.items()
            for state in layer.values()
        )
        bound = min(open_states, default=self._ceiling or 0) + self._constant
        if value is not None:
            bound = min(bound, value)
        return Claim(assignment, value, bound, *ended)

    def _assignment(self, state: _State) -> Assignment:
        placements, link = [], state.admitted
        while link is not None:
            placements.append(Placement(self._requests[link.request].id, link.replica, link.step))
            link = link.before
        return tuple(placements)


def _key(state: _State) -> tuple[int, tuple[Group, ...]]:
    return state.started, tuple(sorted(state.groups))
