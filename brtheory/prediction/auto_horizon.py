"""A horizon that follows the load: the steps between two completions on a replica.

Look-ahead is worth what it sees: requests that leave. On one replica a request completes once in

    gap = steps * replicas / completions        (steps; mean output / slots where slots are full)

steps. A horizon much longer than that plans over completions and admissions it cannot know, one
much shorter sees no departure at all: H = clip(round(factor * gap), shortest, longest).
"""

from collections import deque

from brtheory.errors import InputError

DEFAULT_FACTOR = 1.0
SHORTEST, LONGEST = 1, 512
FIRST_HORIZON = 80
"""Horizon until enough completions have been seen."""


def completion_gap(*, steps: int, completions: int, replicas: int) -> float | None:
    """Mean steps between two completions on one replica, None without completions.

    Parameters
    ----------
    steps
        Executed steps, >= 0.
    completions
        Requests completed on all replicas in these steps, >= 0.
    replicas
        G >= 1.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> completion_gap(steps=100, completions=40, replicas=8)
    20.0
    """
    for name, value, least in (
        ("steps", steps, 0),
        ("completions", completions, 0),
        ("replicas", replicas, 1),
    ):
        if value < least:
            raise InputError(name, f"an integer >= {least}", value)
    return steps * replicas / completions if completions else None


def horizon_for_gap(
    gap: float,
    *,
    factor: float = DEFAULT_FACTOR,
    shortest: int = SHORTEST,
    longest: int = LONGEST,
) -> int:
    """Horizon for a measured gap between completions.

    Parameters
    ----------
    gap
        Steps between completions on a replica, >= 0.
    factor
        Gaps looked ahead, > 0.
    shortest, longest
        Ends of the range of H, 1 <= shortest <= longest.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> horizon_for_gap(6.6)  # outputs of 211 tokens, 32 slots
    7
    """
    if not gap >= 0:
        raise InputError("gap", "steps >= 0", gap)
    if not factor > 0:
        raise InputError("factor", "a number > 0", factor)
    if not 1 <= shortest <= longest:
        raise InputError("shortest", f"1 to {longest} steps", shortest)
    return round(min(max(factor * gap, shortest), longest))


class HorizonEstimator:
    """Measures the gap over the last completions and proposes a horizon that seldom changes.

    Parameters
    ----------
    replicas
        G >= 1.
    initial
        Horizon until ``least`` completions have been seen.
    window
        Completions the gap is measured over, >= 2.
    least
        Completions from which on it is measured, 2 .. window.
    slack
        The horizon stays while the proposed one is within this share of it, >= 0: a change means
        new projections.
    factor, shortest, longest
        As ``horizon_for_gap``.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    def __init__(
        self,
        *,
        replicas: int,
        initial: int = FIRST_HORIZON,
        window: int = 512,
        least: int = 64,
        slack: float = 0.25,
        factor: float = DEFAULT_FACTOR,
        shortest: int = SHORTEST,
        longest: int = LONGEST,
    ) -> None:
        if replicas < 1:
            raise InputError("replicas", "an integer >= 1", replicas)
        if not 2 <= least <= window:
            raise InputError("least", f"2 to {window} completions", least)
        if not slack >= 0:
            raise InputError("slack", "a share >= 0", slack)
        horizon_for_gap(0.0, factor=factor, shortest=shortest, longest=longest)
        if not shortest <= initial <= longest:
            raise InputError("initial", f"{shortest} to {longest} steps", initial)
        self._replicas = replicas
        self._least = least
        self._slack = slack
        self._factor, self._shortest, self._longest = factor, shortest, longest
        self._steps: deque[int] = deque(maxlen=window)
        self._horizon = initial

    @property
    def horizon(self) -> int:
        """The horizon to use now."""
        return self._horizon

    @property
    def gap(self) -> float | None:
        """Steps between completions on a replica, None before ``least`` completions."""
        if len(self._steps) < self._least:
            return None
        return completion_gap(
            steps=self._steps[-1] - self._steps[0],
            completions=len(self._steps) - 1,
            replicas=self._replicas,
        )

    def observe(self, completions: int, *, step: int) -> bool:
        """Note completions at an executed step; whether the horizon changed.

        Parameters
        ----------
        completions
            Requests that completed on all replicas, >= 0.
        step
            Count of executed steps so far (idle ones left out), never falling.

        Raises
        ------
        InputError
            If the number is negative or the step lies before the last one.
        """
        if completions < 0:
            raise InputError("completions", "an integer >= 0", completions)
        if self._steps and step < self._steps[-1]:
            raise InputError("step", f"at least {self._steps[-1]}, the last one", step)
        self._steps.extend([step] * min(completions, self._steps.maxlen or completions))
        gap = self.gap
        if gap is None or not completions:
            return False
        proposed = horizon_for_gap(
            gap, factor=self._factor, shortest=self._shortest, longest=self._longest
        )
        if abs(proposed - self._horizon) <= self._slack * self._horizon:
            return False
        self._horizon = proposed
        return True
