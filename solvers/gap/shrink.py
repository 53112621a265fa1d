"""Smaller instances that stay as bad: requests are left out while a property holds."""

from collections.abc import Callable
from dataclasses import replace

from brtheory.offline.instance import Instance


def shrink(instance: Instance, holds: Callable[[Instance], bool]) -> Instance:
    """Leave out blocks of requests, then single ones, as long as ``holds`` stays true.

    Parameters
    ----------
    instance
        ``holds(instance)`` is true.
    holds
        The property, of instances with at least one request.

    Returns
    -------
    Instance
        No single further request can be left out.
    """
    size = max(1, len(instance.requests) // 2)
    while True:
        smaller = _without_one_block(instance, holds, size)
        if smaller is not None:
            instance = smaller
            size = min(size, max(1, len(instance.requests) // 2))
        elif size == 1:
            return instance
        else:
            size = max(1, size // 2)


def _without_one_block(
    instance: Instance, holds: Callable[[Instance], bool], size: int
) -> Instance | None:
    requests = instance.requests
    for first in range(0, len(requests), size):
        kept = requests[:first] + requests[first + size :]
        if kept and holds(candidate := replace(instance, requests=kept)):
            return candidate
    return None
