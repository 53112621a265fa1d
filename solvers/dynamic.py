"""Dynamic programs: of case A over partitions of the active requests, of case B over all states.

Case A goes event by event. Two assignments that agree on which active requests share a replica have
the same future, so only the cheaper is kept. Replicas are equal and start empty, so groups carry no
name. Work is events times partitions, independent of the number of requests and of steps: exact on
arbitrarily long instances of small width. With a limited ``width`` it is a beam: an upper bound
with a lower bound.

Bounds: from every state on, the rest of the steps costs at least the sum of the segment bounds of
``timeline``; a state that cannot beat a known assignment is dropped. Case B: ``free_search``.
"""

from brtheory.errors import InputError
from solvers.answers import trivial
from solvers.budget import Budget, Options, Progress
from solvers.free_search import FreeSearch
from solvers.incumbents import best_known
from solvers.partition_search import PartitionSearch
from solvers.partitions import MOST_GROUPS
from solvers.problem import FixedAdmissions, FreeAdmissions, Problem
from solvers.result import Claim

FIRST_WIDTH = 300
"""Beam that gives the exact search its first incumbent."""
MOST_WORK = 1 << 62
"""Sums of peaks are below the total work, so they fit 64 bits."""


def solve(problem: Problem, *, budget: Budget, options: Options) -> Claim:
    """Run the exact dynamic program.

    Parameters
    ----------
    problem
        Case A, or case B without KV capacity.
    budget
        At a limit the first incumbent (case A: of a beam, case B: of the routers) is returned, with
        the bound reached so far.
    options
        ``hint`` in case B.

    Raises
    ------
    InputError
        If the problem is of another case, or too large for 64-bit sums.
    """
    if isinstance(problem, FreeAdmissions):
        return _solve_free(problem, budget=budget, options=options)
    fixed = _case_a(problem)
    first = PartitionSearch(fixed, width=FIRST_WIDTH, budget=budget).run()
    if first.exhausted or first.ended is not None:
        return first.claim(fixed)
    found = PartitionSearch(fixed, budget=budget, ceiling=first.sum_peak).run()
    return found.beside(first).claim(fixed)


def solve_beam(problem: Problem, *, budget: Budget, options: Options) -> Claim:
    """Run the dynamic program with ``options.width`` states; arguments and errors as ``solve``."""
    fixed = _case_a(problem)
    return PartitionSearch(fixed, width=options.width, budget=budget).run().claim(fixed)


def _solve_free(problem: FreeAdmissions, *, budget: Budget, options: Options) -> Claim:
    capacity = problem.instance.kv_capacity
    if capacity is not None:
        raise InputError("kv_capacity", "none for the dynamic program of case B", capacity)
    if (nothing := trivial(problem)) is not None:
        return nothing
    known = best_known(problem, options.hint)
    if known is not None:
        budget.on_progress(Progress(incumbent=known[1]))
    return FreeSearch(problem, budget=budget, known=known).run()


def _case_a(problem: Problem) -> FixedAdmissions:
    if not isinstance(problem, FixedAdmissions):
        raise InputError("case", "case A for the dynamic program", problem.case)
    if problem.instance.total_work >= MOST_WORK:
        raise InputError("instance", "total work below 2^62", problem.instance.total_work)
    if problem.instance.replicas > MOST_GROUPS:
        raise InputError("replicas", f"at most {MOST_GROUPS}", problem.instance.replicas)
    return problem
