"""Limits of a solve, and what a method reports while it runs.

The clock and the stop request are arguments: tests pass their own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from solvers.result import Limit, Stop


@dataclass(frozen=True, slots=True)
class Progress:
    """A look at a running solve.

    Parameters
    ----------
    incumbent, bound
        As in the result; None when unknown.
    done, total
        Units of work for methods that know how much there is, else None.
    """

    incumbent: int | None = None
    bound: int | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Options:
    """How to search; none of it changes an optimum.

    Parameters
    ----------
    hint
        A known assignment to start from, None for none.
    symmetry
        Whether models forbid renumbered copies of an assignment; None where it was seen to pay:
        in case B without a rule on waiting.
    textbook
        Whether milp and cpsat build the textbook model instead of the tight one, to compare.
    seed, workers
        Of the solver backends.
    width
        Most states a beam keeps a step.
    milp_backend
        ``highs``, or ``cbc`` or ``scip`` where installed.
    canonical
        Case C by cpsat: of equally good choices the first in a fixed order, see
        ``solvers.cpsat.canonical``; it costs a second search.
    """

    hint: Assignment | None = None
    symmetry: bool | None = None
    textbook: bool = False
    seed: int = 0
    workers: int = 1
    width: int = 1000
    milp_backend: str = "highs"
    canonical: bool = False


@dataclass
class Budget:
    """Time, memory and a stop request.

    Parameters
    ----------
    time_limit_s, memory_limit_bytes
        None for unlimited.
    work_limit
        Limit that counts work instead of seconds, so that it ends the same search at the same
        point on every machine; None for unlimited. For each search of CP-SAT in its deterministic
        time (one unit is about a second), of HiGHS in 1,000 nodes a unit; other methods ignore it.
    should_stop
        Asked now and then; True ends the solve with what is known.
    clock
        Seconds, monotonic.
    on_progress
        Told about incumbents and bounds.

    Raises
    ------
    InputError
        If a limit is negative or not finite.
    """

    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    work_limit: float | None = None
    should_stop: Callable[[], bool] = field(default=lambda: False)
    clock: Callable[[], float] = time.monotonic
    on_progress: Callable[[Progress], None] = field(default=lambda _progress: None)

    def __post_init__(self) -> None:
        for name, value in (
            ("time_limit", self.time_limit_s),
            ("memory_limit", self.memory_limit_bytes),
            ("work_limit", self.work_limit),
        ):
            if value is not None and not 0 <= value < float("inf"):
                raise InputError(name, "a finite number >= 0", value)
        self._start = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the budget was made."""
        return self.clock() - self._start

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, >= 0; None if unlimited."""
        if self.time_limit_s is None:
            return None
        return max(0.0, self.time_limit_s - self.elapsed_s)

    def ended(self) -> tuple[Stop, Limit | None] | None:
        """Why to stop now, None to go on."""
        if self.should_stop():
            return Stop.INTERRUPTED, None
        if self.remaining_s == 0.0:
            return Stop.LIMIT, Limit.TIME
        return None

    def limit_reached(self) -> Limit:
        """Which limit a solver backend that stopped early has met: time, if that is up."""
        return Limit.WORK if self.work_limit is not None and self.remaining_s != 0 else Limit.TIME

    def fits(self, memory_bytes: int) -> bool:
        """Whether so much memory is allowed."""
        return self.memory_limit_bytes is None or memory_bytes <= self.memory_limit_bytes
