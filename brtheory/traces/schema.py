"""A trace: arrival times and token counts of a sequence of requests, validated once.

Rules: arrival times never go back and start at 0 or later; every request has at least one prompt
token and one output token; a trace has at least one request. Arrays are read-only, so a trace can
be shared without copies.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError

MAX_TOKENS = 10_000_000
"""More tokens than this in one prompt or output is taken for a defect of the file."""

MAX_SPAN_S = 1e9
"""A request more seconds (31 years) after the first one is taken for a defect of the file too."""

MAX_REQUESTS = 100_000_000
"""Requests of a trace in memory; the largest public one has 27 million."""
RATES = (1e-9, 1e9)
"""Smallest and largest factor of an arrival rate."""


@dataclass(frozen=True)
class Trace:
    """Requests in arrival order.

    Parameters
    ----------
    name
        File name or workload name.
    source
        Where the data comes from, with its licence when known; for a generated trace the
        published statistics it is calibrated to.
    synthetic
        True for generated workloads; shown wherever the numbers are shown.
    arrival_s
        Shape (n,), float64, seconds, nondecreasing, >= 0.
    prompt_tokens
        Shape (n,), int64, tokens, 1 to `MAX_TOKENS`.
    output_tokens
        Shape (n,), int64, tokens, 1 to `MAX_TOKENS`.
    prefix_id
        Shape (n,), int64: first hash block of each prompt, -1 where a row has none; None where
        the format has no such thing.

    Raises
    ------
    InputError
        If a column breaks one of the rules above; the message names the first offending row.

    Examples
    --------
    >>> trace = Trace("two", "by hand", False, np.array([0.0, 2.0]),
    ...               np.array([10, 20]), np.array([3, 4]))
    >>> len(trace.repeat(5)), float(trace.scaled(2.0).arrival_s[1])
    (5, 1.0)
    """

    name: str
    source: str
    synthetic: bool
    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_id: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        rows = len(self.arrival_s)
        if rows == 0:
            raise InputError(self.name, "at least one request", "none")
        self._freeze("arrival_s", np.float64)
        for field in ("prompt_tokens", "output_tokens"):
            self._freeze(field, np.int64)
        if self.prefix_id is not None:
            self._freeze("prefix_id", np.int64)
        self._check_times()
        _check_tokens(f"{self.name}: prompt_tokens", self.prompt_tokens)
        _check_tokens(f"{self.name}: output_tokens", self.output_tokens)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    def head(self, requests: int) -> "Trace":
        """Return the first ``requests`` requests (all of them if there are fewer)."""
        if requests < 1:
            raise InputError("requests", "at least 1", requests)
        return self._with_rows(np.arange(min(requests, len(self))), self.arrival_s[:requests])

    def repeat(self, requests: int) -> "Trace":
        """Return exactly ``requests`` requests, the trace played again and again.

        Each round starts one mean gap after the last arrival of the round before, so that the
        arrival rate does not change at the seam.
        """
        check_requests(requests)
        rounds, rows = np.divmod(np.arange(requests), len(self))
        mean_gap = self.span_s / (len(self) - 1) if len(self) > 1 else 0.0
        return self._with_rows(rows, self.arrival_s[rows] + rounds * (self.span_s + mean_gap))

    def scaled(self, rate: float) -> "Trace":
        """Return the trace with its arrival rate multiplied by ``rate`` (within `RATES`)."""
        check_rate(rate)
        return replace(self, arrival_s=self.arrival_s / rate)

    def _with_rows(self, rows: NDArray[np.int64], arrival_s: NDArray[np.float64]) -> "Trace":
        return replace(
            self,
            arrival_s=arrival_s,
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            prefix_id=None if self.prefix_id is None else self.prefix_id[rows],
        )

    def _freeze(self, field: str, dtype: type[np.generic]) -> None:
        """Store a read-only copy of a column in its own dtype; refuse casts that lose something."""
        given = np.asarray(getattr(self, field))
        if given.shape != (len(self.arrival_s),):
            expected = f"shape ({len(self.arrival_s)},) like arrival_s"
            raise InputError(f"{self.name}: {field}", expected, given.shape)
        if not np.can_cast(given.dtype, dtype, casting="safe"):
            raise InputError(f"{self.name}: {field}", f"dtype {np.dtype(dtype)}", given.dtype)
        column = given.astype(dtype)
        column.setflags(write=False)
        object.__setattr__(self, field, column)

    def _check_times(self) -> None:
        times = self.arrival_s
        wrong = ~(np.isfinite(times) & (times >= 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(f"{self.name}: arrival_s[{row}]", "seconds >= 0", times[row])
        back = np.diff(times) < 0
        if back.any():
            row = int(back.argmax()) + 1
            expected = f"no time before {times[row - 1]}"
            raise InputError(f"{self.name}: arrival_s[{row}]", expected, times[row])


def check_requests(requests: int) -> None:
    """Refuse a number of requests outside 1 .. `MAX_REQUESTS`."""
    if not 1 <= requests <= MAX_REQUESTS:
        raise InputError("requests", f"1 to {MAX_REQUESTS:,}", requests)


def check_rate(rate: float) -> None:
    """Refuse a factor of the arrival rate outside `RATES`."""
    if not RATES[0] <= rate <= RATES[1]:
        raise InputError("rate", f"a number from {RATES[0]:g} to {RATES[1]:g}", rate)


def _check_tokens(where: str, tokens: NDArray[np.int64]) -> None:
    wrong = (tokens < 1) | (tokens > MAX_TOKENS)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{where}[{row}]", f"1 to {MAX_TOKENS:,} tokens", tokens[row])
