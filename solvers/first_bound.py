"""The bound that is known before any search, cases A and B: steps and work.

Case A: the executed steps are given, and each step's peak is at least its step bound
(``solvers.bounds.steps``). Case B: no schedule has fewer steps than ``fewest_steps``, and the sum
of peaks is at least W/G, since the work W is the same in every schedule (T17).
"""

from solvers.bounds.steps import step_bound
from solvers.model_build import fewest_steps
from solvers.problem import FixedAdmissions, Problem, TickProblem
from solvers.timeline import timeline


def first_bound(problem: Problem) -> int | None:
    """Lower bound on the objective of every assignment, in its integer unit; None in case C.

    A search that is stopped before it has proved anything still knows this much.
    """
    if isinstance(problem, TickProblem):
        return None
    work = problem.instance.total_work
    if isinstance(problem, FixedAdmissions):
        steps = sum(segment.length for segment in timeline(problem) if segment.active)
        sum_peak = step_bound(problem.instance, problem.steps)
    else:
        steps = fewest_steps(problem)
        sum_peak = -(-work // problem.instance.replicas)
    return problem.cost.value(steps=steps, sum_peak=sum_peak, sum_load=work)
