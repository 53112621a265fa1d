"""The gate before the prefill leg: back-pressure, first come first served, bounded.

A request passes when the pool has room for it and a prefill node takes its prompt. Those that must
wait stand in a bounded line; who finds the line full is told when to try again.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from brtheory.proxy.faults import RequestError

LONGEST_RETRY_S = 60
RATE_MEMORY = 0.05


@dataclass(eq=False, slots=True)
class Ticket:
    """A request in the line.

    Parameters
    ----------
    tokens, size
        Estimated prompt tokens and bytes of the body.
    on_pass
        Called when it may go on.
    """

    tokens: int
    size: int
    on_pass: Callable[[], None]


class Gate:
    """The line.

    Parameters
    ----------
    longest
        Most requests that stand in it, >= 0.
    """

    def __init__(self, *, longest: int) -> None:
        self.longest = longest
        self._line: deque[Ticket] = deque()
        self._interval_s: float | None = None
        self._last_pass_s: float | None = None

    def __len__(self) -> int:
        return len(self._line)

    def enter(self, ticket: Ticket) -> None:
        """Stand in line.

        Raises
        ------
        RequestError
            429 with a time to retry if the line is full.
        """
        if len(self._line) >= self.longest:
            raise RequestError(
                429,
                "the queue is full, try again later",
                code="queue_full",
                retry_after_s=self.retry_after_s(),
            )
        self._line.append(ticket)

    def come_back(self, ticket: Ticket) -> None:
        """Stand at the front, whatever the length: for a request that has passed before."""
        self._line.appendleft(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Leave the line, if still in it."""
        if ticket in self._line:
            self._line.remove(ticket)

    def pump(self, may_pass: Callable[[Ticket], bool], *, now_s: float) -> int:
        """Let requests pass from the front while they may; returns how many did.

        The front is never overtaken: a large prompt is not starved by small ones.
        """
        passed = 0
        while self._line and may_pass(self._line[0]):
            ticket = self._line.popleft()
            self._learn(now_s)
            passed += 1
            ticket.on_pass()
        return passed

    def retry_after_s(self) -> int:
        """Whole seconds until the line will probably have moved on, 1 .. 60."""
        if self._interval_s is None:
            return 1
        expected = math.ceil(self._interval_s * (len(self._line) + 1))
        return min(max(1, expected), LONGEST_RETRY_S)

    def _learn(self, now_s: float) -> None:
        if self._last_pass_s is not None:
            gap = now_s - self._last_pass_s
            known = gap if self._interval_s is None else self._interval_s
            self._interval_s = known + RATE_MEMORY * (gap - known)
        self._last_pass_s = now_s
