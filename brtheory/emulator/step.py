"""What goes into a decode group and what comes out of each of its steps."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """A sequence bound to a replica, with its true length.

    Parameters
    ----------
    id
        Unique among the requests in the group.
    replica
        0 <= replica < G.
    prompt_tokens, output_tokens
        s_i >= 1 and o_i >= 1.
    key
        What its speculative bursts are drawn by.
    """

    id: int
    replica: int
    prompt_tokens: int
    output_tokens: int
    key: int = 0


class Emission(NamedTuple):
    """What one request emitted in one step.

    Parameters
    ----------
    id
        The request.
    tokens
        Tokens of this step, >= 1.
    age
        Tokens so far.
    finished
        Whether these were the last.
    """

    id: int
    tokens: int
    age: int
    finished: bool


class Step(NamedTuple):
    """One step that has begun.

    Parameters
    ----------
    number
        Steps executed before it.
    loads
        L_g in KV tokens, one per replica.
    peak
        M.
    duration_s
        tau.
    ends_s
        Model time at its end.
    """

    number: int
    loads: tuple[int, ...]
    peak: int
    duration_s: float
    ends_s: float


@dataclass(slots=True)
class GroupTotals:
    """Exact sums over begun steps, and counts of requests.

    Parameters
    ----------
    steps
        Begun steps.
    sum_peak, sum_load
        Sums over steps of M and of sum_g L_g, token-steps.
    decoded_tokens
        Tokens emitted.
    submitted, completed, cancelled, refused
        Requests.
    """

    steps: int = 0
    sum_peak: int = 0
    sum_load: int = 0
    decoded_tokens: int = 0
    submitted: int = 0
    completed: int = 0
    cancelled: int = 0
    refused: int = 0
