"""Known assignments to start from: what routers do, where the problem's rules allow it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.evaluate import Line
from brtheory.routers.baselines import LeastTokens, PoolFifo
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from brtheory.simulation.replay import replay
from solvers.budget import Budget
from solvers.certify import CertificationError, judged_value
from solvers.partition_search import PartitionSearch
from solvers.problem import (
    FixedAdmissions,
    FreeAdmissions,
    Problem,
    TickProblem,
    admission_steps,
)

BEAM_WIDTH = 50
MOST_REPLAY_STEPS = 10_000_000
"""Replays take time with every step; longer instances start without a router's assignment."""


def best_known(problem: Problem, hint: Assignment | None) -> tuple[Assignment, int] | None:
    """The cheapest of the hint and the routers' assignments, with its objective; None if none fits.

    A hint that breaks a rule of the problem is passed over, like a router's assignment.
    """
    candidates = [] if hint is None else [hint]
    candidates.extend(_router_assignments(problem))
    # In case C more admissions come first; in A and B all assignments have equally many.
    return min(
        obeying(problem, candidates), key=lambda pair: (-len(pair[0]), pair[1]), default=None
    )


def obeying(problem: Problem, candidates: Iterable[Assignment]) -> Iterator[tuple[Assignment, int]]:
    """Those candidates that obey every rule of the problem, with the objective."""
    for assignment in candidates:
        try:
            yield assignment, judged_value(problem, assignment)
        except CertificationError:
            continue


def _router_assignments(problem: Problem) -> Iterator[Assignment]:
    pooled = (PoolFifo(), BalanceRoute(BalanceRouteParams()))
    if isinstance(problem, TickProblem):
        # The routers of one step look at present loads only.
        state = replace(problem.state, loads=[[row[0]] for row in problem.state.loads])
        for router in pooled:
            yield tuple(Placement(a.id, a.replica, 0) for a in router.tick(state))
    elif isinstance(problem, FreeAdmissions) and _replayable(problem):
        for each in (*pooled, LeastTokens()):
            steps = admission_steps(assignment := replay(problem.instance, each))
            yield assignment
            yield from _with_good_replicas(problem, steps)
        yield from _with_good_replicas(problem, _longest_first(problem))
    elif isinstance(problem, FixedAdmissions):
        yield from _least_loaded(problem)


def _with_good_replicas(problem: FreeAdmissions, steps: Mapping[int, int]) -> Iterator[Assignment]:
    """The admission steps with the replicas of a narrow beam."""
    fixed = FixedAdmissions(problem.instance, problem.objective, steps)
    found = PartitionSearch(fixed, budget=Budget(), width=BEAM_WIDTH).run()
    if found.assignment is not None:
        yield found.assignment


def _longest_first(problem: FreeAdmissions) -> dict[int, int]:
    """Admission steps where the longest output starts first, in the slot that is free first."""
    instance, steps = problem.instance, {}
    free_from = [0] * (instance.replicas * instance.slots)
    for request in sorted(instance.requests, key=lambda r: -r.output_tokens):
        steps[request.id] = max(heappop(free_from), request.ready)
        heappush(free_from, steps[request.id] + request.output_tokens)
    return steps


def _replayable(problem: FreeAdmissions) -> bool:
    """Whether routers, which reserve prompt + output tokens, can run the instance in short time."""
    capacity = problem.instance.kv_capacity
    requests = problem.instance.requests
    if sum(r.output_tokens for r in requests) > MOST_REPLAY_STEPS:
        return False
    return bool(requests) and (
        capacity is None or all(r.prompt_tokens + r.output_tokens <= capacity for r in requests)
    )


def _least_loaded(problem: FixedAdmissions) -> Iterator[Assignment]:
    """Each request at its given step to the replica with the least load and a free slot."""
    replicas, slots = problem.instance.replicas, problem.instance.slots
    placed: list[list[tuple[int, Line]]] = [[] for _ in range(replicas)]
    chosen = []
    for request in problem.ordered:
        step = problem.steps[request.id]
        placed = [[(end, line) for end, line in active if end > step] for active in placed]
        open_replicas = [g for g in range(replicas) if len(placed[g]) < slots]
        if not open_replicas:
            return
        replica = min(open_replicas, key=lambda g: sum(c + n * step for _, (c, n) in placed[g]))
        line = (request.prompt_tokens - step, 1)
        placed[replica].append((step + request.output_tokens, line))
        chosen.append(Placement(request.id, replica, step))
    yield tuple(chosen)
