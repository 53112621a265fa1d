"""Arrivals as users write them: ``closed:1.25``, ``open:1.0``, ``open:rho=0.8``, ``all``.

``open:rho=0.8:burst=4:cycle=60`` comes in bursts: Poisson at 4 times the mean rate while on and
nothing while off, on and off for exponential times that last 60 seconds together on average.
"""

import math
from dataclasses import dataclass
from typing import Literal

from brtheory.errors import InputError

ArrivalKind = Literal["closed", "open", "rho", "all"]
SMALLEST, LARGEST = 1e-9, 1e9
"""Range of X and R: times and populations stay finite."""
EXPECTED = (
    "closed:X, open:X, open:rho=R, open:rho=R:burst=B:cycle=S or all, "
    f"with X and R from {SMALLEST:g} to {LARGEST:g}"
)
LARGEST_BURST = 1e6
DEFAULT_CYCLE_S = 60.0
EXPECTED_BURST = (
    f"open:rho=R:burst=B[:cycle=S], B from 1 to {LARGEST_BURST:g}, "
    f"S from {SMALLEST:g} to {LARGEST:g} seconds"
)


@dataclass(frozen=True, slots=True)
class ArrivalSpec:
    """How requests arrive.

    Parameters
    ----------
    kind
        ``closed``: round(value*G*slots) requests in the system; ``open``: the trace's own times at
        ``value`` times its rate; ``rho``: Poisson at ``value`` times BR-0's saturated request rate
        (closed:3); ``all``: everything is ready at the start.
    value
        The factor; 1 for ``all``.
    burst
        For ``rho``: the rate while requests come, over the mean rate; 1 is plain Poisson.
    cycle_s
        For ``burst`` > 1: mean seconds of one time with and one without requests.
    """

    kind: ArrivalKind
    value: float = 1.0
    burst: float = 1.0
    cycle_s: float = DEFAULT_CYCLE_S

    def __str__(self) -> str:
        if self.kind == "all":
            return "all"
        if self.kind != "rho":
            return f"{self.kind}:{self.value:g}"
        text = f"open:rho={self.value:g}"
        return text if self.burst == 1 else f"{text}:burst={self.burst:g}:cycle={self.cycle_s:g}"


def parse_arrivals(text: str) -> ArrivalSpec:
    """Parse the text of ``--arrivals``.

    Raises
    ------
    InputError
        If the text is none of the forms above or the number is not in their range.
    """
    if text == "all":
        return ArrivalSpec("all")
    if text.startswith("open:rho=") and ":burst=" in text:
        return _bursts(text)
    kinds: tuple[tuple[str, ArrivalKind], ...] = (
        ("open:rho=", "rho"),
        ("open:", "open"),
        ("closed:", "closed"),
    )
    for prefix, kind in kinds:
        if text.startswith(prefix):
            return ArrivalSpec(kind, _factor(text.removeprefix(prefix), text))
    raise InputError("arrivals", EXPECTED, repr(text))


def _bursts(text: str) -> ArrivalSpec:
    mean, _, rest = text.removeprefix("open:rho=").partition(":burst=")
    burst, given, cycle = rest.partition(":cycle=")
    factor, cycle_s = _number(burst), _number(cycle) if given else DEFAULT_CYCLE_S
    if not (1 <= factor <= LARGEST_BURST and SMALLEST <= cycle_s <= LARGEST):
        raise InputError("arrivals", EXPECTED_BURST, repr(text))
    return ArrivalSpec("rho", _factor(mean, text), factor, cycle_s)


def _factor(number: str, text: str) -> float:
    value = _number(number)
    if not SMALLEST <= value <= LARGEST:
        raise InputError("arrivals", EXPECTED, repr(text))
    return value


def _number(text: str) -> float:
    """The number a text stands for, NaN if it is none: in no range."""
    try:
        return float(text)
    except ValueError:
        return math.nan
