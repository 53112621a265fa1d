"""Every assignment of a tiny instance with given admission steps: the tests' root of trust."""

from collections.abc import Iterator
from itertools import product

from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance


def every_assignment(instance: Instance, steps: dict[int, int]) -> Iterator[Assignment]:
    ids = [request.id for request in instance.requests]
    for replicas in product(range(instance.replicas), repeat=len(ids)):
        yield tuple(Placement(i, g, steps[i]) for i, g in zip(ids, replicas, strict=True))


def smallest_sum_peak(instance: Instance, steps: dict[int, int]) -> int:
    """Smallest sum of peaks; capacities are ignored, which can only make it smaller."""
    sums = (evaluate(instance, a).sum_peak for a in every_assignment(instance, steps))
    return min(value for value in sums if value is not None)
