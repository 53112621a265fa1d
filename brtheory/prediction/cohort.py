"""The most recent admissions and what is known of each: finished, cut short or still running.

The window is a cohort by admission, not by completion: each of the last W admitted requests is
either finished or censored at its present age, so a Kaplan-Meier estimate over them is unbiased
and follows drift. A window of the last completions would mix ages of entry (left truncation), and
adding running requests to it would count them twice as often as they deserve.

A cohort hardly larger than the number of requests running at once has lost its longest requests
before they end, and knows nothing of great lengths: the window widens with what runs.
"""

from collections import deque
from collections.abc import Mapping

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError

PER_RUNNING = 8


class Cohort:
    """A rolling window of admitted requests; its length is the number kept.

    At most max(window, per_running * running requests among them) are kept; the oldest admission
    leaves first, whatever its state.

    Parameters
    ----------
    window
        Requests kept where few are running, >= 1.
    per_running
        Requests kept for each that runs, >= 0.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    def __init__(self, window: int, *, per_running: int = PER_RUNNING) -> None:
        if window < 1:
            raise InputError("window", "at least 1 request", window)
        if per_running < 0:
            raise InputError("per_running", "an integer >= 0", per_running)
        self._window = window
        self._per_running = per_running
        self._order: deque[int] = deque()
        self._running: set[int] = set()
        self._finished: dict[int, int] = {}
        self._cut: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._order)

    @property
    def finished(self) -> int:
        """Number of finished requests in the window."""
        return len(self._finished)

    def admit(self, request_id: int) -> None:
        """Add a request that starts to decode.

        Raises
        ------
        InputError
            If the id is in the window already.
        """
        if request_id in self._running or request_id in self._finished or request_id in self._cut:
            raise InputError("admitted request", "an id not admitted before", request_id)
        self._order.append(request_id)
        self._running.add(request_id)
        while len(self._order) > max(self._window, self._per_running * len(self._running)):
            self._forget(self._order.popleft())

    def finish(self, request_id: int, *, output_tokens: int) -> None:
        """Set a request's length; nothing happens if it has left the window.

        Raises
        ------
        InputError
            If the length is below 1 token or the request has ended before.
        """
        if output_tokens < 1:
            raise InputError(f"output tokens of request {request_id}", "at least 1", output_tokens)
        if self._end(request_id):
            self._finished[request_id] = output_tokens

    def cut_short(self, request_id: int, *, output_tokens: int) -> None:
        """Censor a request for good at the tokens it had made (>= 0).

        Its length is at least that number, so it is known to exceed one token less.
        """
        if output_tokens < 0:
            raise InputError(f"output tokens of request {request_id}", "at least 0", output_tokens)
        if self._end(request_id):
            self._cut[request_id] = max(0, output_tokens - 1)

    def samples(self, ages: Mapping[int, int]) -> tuple[IntArray, IntArray]:
        """Known lengths and ages known to be exceeded, as ``kaplan_meier`` takes them.

        Parameters
        ----------
        ages
            Present age of the running requests, by id; one without an age counts as just begun.
        """
        censored = [*self._cut.values(), *(ages.get(request, 0) for request in self._running)]
        finished = np.array(list(self._finished.values()), dtype=np.int64)
        return finished, np.array(censored, dtype=np.int64)

    def _end(self, request_id: int) -> bool:
        """Take a request out of the running ones; False if it has left the window."""
        if request_id in self._finished or request_id in self._cut:
            raise InputError("finished request", "an id that has not ended before", request_id)
        if request_id not in self._running:
            return False
        self._running.remove(request_id)
        return True

    def _forget(self, request_id: int) -> None:
        self._running.discard(request_id)
        self._finished.pop(request_id, None)
        self._cut.pop(request_id, None)
