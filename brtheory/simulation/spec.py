"""Arrivals as users write them: ``closed:1.25``, ``open:1.0``, ``open:rho=0.8``, ``all``."""

import math
from dataclasses import dataclass
from typing import Literal

from brtheory.errors import InputError

ArrivalKind = Literal["closed", "open", "rho", "all"]
SMALLEST, LARGEST = 1e-9, 1e9
"""Range of X and R: times and populations stay finite."""
EXPECTED = f"closed:X, open:X, open:rho=R or all, with X and R from {SMALLEST:g} to {LARGEST:g}"


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
    """

    kind: ArrivalKind
    value: float = 1.0

    def __str__(self) -> str:
        if self.kind == "all":
            return "all"
        return f"open:rho={self.value:g}" if self.kind == "rho" else f"{self.kind}:{self.value:g}"


def parse_arrivals(text: str) -> ArrivalSpec:
    """Parse the text of ``--arrivals``.

    Raises
    ------
    InputError
        If the text is none of the forms above or the number is not in their range.
    """
    if text == "all":
        return ArrivalSpec("all")
    kinds: tuple[tuple[str, ArrivalKind], ...] = (
        ("open:rho=", "rho"),
        ("open:", "open"),
        ("closed:", "closed"),
    )
    for prefix, kind in kinds:
        if text.startswith(prefix):
            return ArrivalSpec(kind, _factor(text.removeprefix(prefix), text))
    raise InputError("arrivals", EXPECTED, repr(text))


def _factor(number: str, text: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not SMALLEST <= value <= LARGEST:
        raise InputError("arrivals", EXPECTED, repr(text))
    return value
