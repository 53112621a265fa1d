"""The last values of a quantity, for quantiles a person watches; histograms are for scrapers."""

import math
from collections import deque
from collections.abc import Callable, Sequence

WINDOW_S = 30.0
MOST = 4096


class RecentValues:
    """Values noted within a window of time, at most so many of them.

    Parameters
    ----------
    clock
        Seconds.
    window_s
        How long a value counts, > 0.
    most
        Beyond that many the oldest is forgotten, >= 1.
    """

    def __init__(
        self, clock: Callable[[], float], *, window_s: float = WINDOW_S, most: int = MOST
    ) -> None:
        self._clock = clock
        self._window_s = window_s
        self._noted: deque[tuple[float, float]] = deque(maxlen=most)

    def __len__(self) -> int:
        self._forget()
        return len(self._noted)

    def add(self, value: float) -> None:
        """Note a value now."""
        self._noted.append((self._clock(), value))

    def quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """The smallest noted value that is not below a share of all, for each share in (0, 1].

        None where nothing has been noted within the window.
        """
        self._forget()
        values = sorted(value for _, value in self._noted)
        if not values:
            return [None] * len(shares)
        return [values[math.ceil(share * len(values)) - 1] for share in shares]

    def _forget(self) -> None:
        oldest_s = self._clock() - self._window_s
        while self._noted and self._noted[0][0] < oldest_s:
            self._noted.popleft()
