"""Brute force, the root of trust: every admission step and every replica, cases A, B and C.

A depth-first search places one request after the other. Adding a request can only raise each M(k)
and the number of active steps, so a partial schedule that already costs as much as the incumbent
is left; nothing else is clever. Replicas of cases A and B start empty and equal, so a request may
open only the first unused one.
"""

from collections import defaultdict
from collections.abc import Iterator

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.offline.assignment import Placement
from brtheory.offline.instance import OfflineRequest
from solvers.budget import Budget, Options, Progress
from solvers.problem import FixedAdmissions, FreeAdmissions, Problem, TickProblem
from solvers.result import Claim, Limit, Stop
from solvers.rules import rule_violations

LOOK_EVERY = 1 << 12
"""Search nodes between two looks at the clock."""
MOST_REQUESTS = 200
"""Depth of the search, one request a level."""
MOST_OUTPUT_TOKENS = 100_000
"""Placing a request touches each of its steps."""


def solve(problem: Problem, *, budget: Budget, options: Options) -> Claim:
    """Search everything.

    Parameters
    ----------
    problem
        Cases A, B or C.
    budget
        Limits; a search cut short keeps its incumbent and claims no bound.
    options
        Not used: there is nothing to tune.

    Raises
    ------
    InputError
        If the problem is far too large for brute force.
    """
    del options
    _check_size(problem)
    search: _ScheduleSearch | _TickSearch
    if isinstance(problem, TickProblem):
        search = _TickSearch(problem, budget)
    else:
        search = _ScheduleSearch(problem, budget)
    try:
        search.run()
    except _EndedError as ended:
        return Claim(search.best, search.value, None, ended.stop, ended.limit)
    if search.best is None:
        return Claim(None, None, None, Stop.INFEASIBLE)
    return Claim(search.best, search.value, search.value, Stop.EXHAUSTED)


def _check_size(problem: Problem) -> None:
    if isinstance(problem, TickProblem):
        count, tokens = len(problem.state.pool), 0
    else:
        requests = problem.instance.requests
        count, tokens = len(requests), sum(r.output_tokens for r in requests)
    if count > MOST_REQUESTS:
        raise InputError("method brute", f"at most {MOST_REQUESTS} requests", count)
    if tokens > MOST_OUTPUT_TOKENS:
        raise InputError("method brute", f"at most {MOST_OUTPUT_TOKENS} output tokens", tokens)


class _EndedError(Exception):
    def __init__(self, stop: Stop, limit: Limit | None) -> None:
        super().__init__(stop)
        self.stop = stop
        self.limit = limit


class _Search:
    """Incumbent and clock, shared by both searches."""

    def __init__(self, budget: Budget) -> None:
        self.best: tuple[Placement, ...] | None = None
        self.value: int | None = None
        self._budget = budget
        self._nodes = 0

    def _look(self) -> None:
        self._nodes += 1
        if self._nodes % LOOK_EVERY == 0 and (ended := self._budget.ended()) is not None:
            raise _EndedError(*ended)

    def _keep(self, placements: tuple[Placement, ...], value: int) -> None:
        self.best, self.value = placements, value
        self._budget.on_progress(Progress(incumbent=value))


class _ScheduleSearch(_Search):
    """Cases A and B."""

    def __init__(self, problem: FixedAdmissions | FreeAdmissions, budget: Budget) -> None:
        super().__init__(budget)
        self._problem = problem
        self._instance = problem.instance
        self._constant = problem.cost.load * problem.instance.total_work
        self._placed: list[Placement] = []
        self._loads: list[dict[int, int]] = [
            defaultdict(int) for _ in range(problem.instance.replicas)
        ]
        self._active: list[dict[int, int]] = [
            defaultdict(int) for _ in range(problem.instance.replicas)
        ]
        self._peaks: dict[int, int] = defaultdict(int)

    def run(self) -> None:
        """Search from the empty schedule."""
        self._extend(0, used=0, cost=-self._constant)

    def _extend(self, position: int, *, used: int, cost: int) -> None:
        self._look()
        if self.value is not None and cost >= self.value:
            return
        if position == len(self._problem.ordered):
            placements = tuple(self._placed)
            if not any(rule_violations(self._problem, placements)):
                self._keep(placements, cost)
            return
        request = self._problem.ordered[position]
        for step in self._starts(request):
            for g in range(min(used + 1, self._instance.replicas)):
                if self._fits(request, step, g):
                    raised, before = self._place(request, step, g)
                    self._extend(position + 1, used=max(used, g + 1), cost=cost + raised)
                    self._take_back(request, step, g, before)

    def _starts(self, request: OfflineRequest) -> Iterator[int]:
        if isinstance(self._problem, FixedAdmissions):
            yield self._problem.steps[request.id]
        else:
            yield from self._problem.window(request)

    def _fits(self, request: OfflineRequest, step: int, g: int) -> bool:
        capacity = self._instance.kv_capacity
        for age in range(request.output_tokens):
            if self._active[g][step + age] >= self._instance.slots:
                return False
            tokens = self._loads[g][step + age] + request.prompt_tokens + age
            if capacity is not None and tokens > capacity:
                return False
        return True

    def _place(self, request: OfflineRequest, step: int, g: int) -> tuple[int, list[int]]:
        """Add the request; return what it adds to the cost, and the peaks before."""
        steps = range(step, step + request.output_tokens)
        before = [self._peaks[k] for k in steps]
        for age, k in enumerate(steps):
            self._loads[g][k] += request.prompt_tokens + age
            self._active[g][k] += 1
            self._peaks[k] = max(self._peaks[k], self._loads[g][k])
        self._placed.append(Placement(request.id, g, step))
        weights = self._problem.cost
        raised = sum(self._peaks[k] for k in steps) - sum(before)
        return weights.peak * raised + weights.step * before.count(0), before

    def _take_back(self, request: OfflineRequest, step: int, g: int, before: list[int]) -> None:
        self._placed.pop()
        for age, peak in enumerate(before):
            self._loads[g][step + age] -= request.prompt_tokens + age
            self._active[g][step + age] -= 1
            self._peaks[step + age] = peak


class _TickSearch(_Search):
    """Case C: for each pooled request every replica, or waiting; most admissions first."""

    def __init__(self, problem: TickProblem, budget: Budget) -> None:
        super().__init__(budget)
        state = problem.state
        self._problem = problem
        self._pool = list(state.pool)
        self._rows = [list(row) for row in state.loads]
        self._slots = list(state.free_slots)
        self._room = None if state.free_tokens is None else list(state.free_tokens)
        self._placed: list[Placement] = []

    def run(self) -> None:
        """Search from the untouched tick."""
        self._extend(0)

    def _extend(self, position: int) -> None:
        self._look()
        if position == len(self._pool):
            self._compare()
            return
        request = self._pool[position]
        for g in range(len(self._rows)):
            if self._fits(request, g):
                self._place(request, g, sign=1)
                self._placed.append(Placement(request.id, g, 0))
                self._extend(position + 1)
                self._placed.pop()
                self._place(request, g, sign=-1)
        self._extend(position + 1)

    def _fits(self, request: Request, g: int) -> bool:
        if self._slots[g] == 0:
            return False
        return self._room is None or request.reserved_tokens <= self._room[g]

    def _place(self, request: Request, g: int, *, sign: int) -> None:
        self._rows[g] = [load + sign * request.prompt_tokens for load in self._rows[g]]
        self._slots[g] -= sign
        if self._room is not None:
            self._room[g] -= sign * request.reserved_tokens

    def _compare(self) -> None:
        value = self._problem.cost.value(
            steps=self._problem.rows,
            sum_peak=sum(max(column) for column in zip(*self._rows, strict=True)),
            sum_load=sum(map(sum, self._rows)),
        )
        count = len(self._placed)
        if (
            self.best is None
            or self.value is None
            or (-count, value) < (-len(self.best), self.value)
        ):
            self._keep(tuple(self._placed), value)
