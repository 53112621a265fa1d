"""Smaller instances that stay as bad: requests are left out while a property holds."""

from collections.abc import Callable
from dataclasses import replace

from brtheory.offline.instance import Instance


def shrink(
    instance: Instance,
    holds: Callable[[Instance], bool],
    *,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Instance:
    """Leave out blocks of requests, then single ones, as long as ``holds`` stays true.

    Parameters
    ----------
    instance
        ``holds(instance)`` is true.
    holds
        The property, of instances with at least one request.
    may_go_on
        Asked before each attempt; False ends the search.

    Returns
    -------
    Instance
        ``holds`` is true of it; no single further request can be left out, unless ``may_go_on``
        ended the search.
    """
    size = max(1, len(instance.requests) // 2)
    while True:
        smaller = _without_one_block(instance, holds, size, may_go_on)
        if not may_go_on():
            return smaller or instance
        if smaller is not None:
            instance = smaller
            size = min(size, max(1, len(instance.requests) // 2))
        elif size == 1:
            return instance
        else:
            size = max(1, size // 2)


def _without_one_block(
    instance: Instance,
    holds: Callable[[Instance], bool],
    size: int,
    may_go_on: Callable[[], bool],
) -> Instance | None:
    requests = instance.requests
    for first in range(0, len(requests), size):
        if not may_go_on():
            return None
        kept = requests[:first] + requests[first + size :]
        if kept and holds(candidate := replace(instance, requests=kept)):
            return candidate
    return None
