"""Objectives in integers: total imbalance, and barrier time as an exact ratio of its two weights.

    imbalance = G*sum_peak - sum_load            time ~ p*steps + q*sum_peak,  p:q = b0:a0

b0 and a0 are read as the decimal texts they were written as, so p and q are exact and coprime.
Minimising p*steps + q*sum_peak is minimising b0*steps + a0*sum_peak, without rounding.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from brtheory.errors import InputError
from brtheory.offline.evaluate import decimal_fraction

ObjectiveName = Literal["imbalance", "time"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The integer a solver minimises: step*steps + peak*sum_peak - load*sum_load.

    Parameters
    ----------
    step, peak, load
        Weights >= 0. In cases A and B sum_load is the constant W (T17).
    """

    step: int
    peak: int
    load: int

    def value(self, *, steps: int, sum_peak: int, sum_load: int) -> int:
        """The objective of an evaluated assignment."""
        return self.step * steps + self.peak * sum_peak - self.load * sum_load


def objective_cost(objective: ObjectiveName, *, replicas: int, a0: float, b0: float) -> Cost:
    """Integer weights of an objective.

    Raises
    ------
    InputError
        If there is no such objective.
    """
    check_objective(objective)
    if objective == "imbalance":
        return Cost(step=0, peak=replicas, load=1)
    p, q = time_weights(a0, b0)
    return Cost(step=p, peak=q, load=0)


def time_weights(a0: float, b0: float) -> tuple[int, int]:
    """The reduced ratio p:q of b0 to a0, from their shortest decimal texts.

    Parameters
    ----------
    a0
        Seconds per token of the peak load, >= 0.
    b0
        Seconds per step, >= 0; not both 0.

    Examples
    --------
    >>> time_weights(1e-7, 0.01)
    (100000, 1)
    >>> time_weights(1.005e-07, 0.009775)
    (19550000, 201)
    >>> time_weights(0.0, 0.25)
    (1, 0)
    """
    per_step, per_token = decimal_fraction(b0), decimal_fraction(a0)
    if per_token == 0:
        return 1, 0
    ratio = per_step / per_token
    return ratio.numerator, ratio.denominator


def check_objective(objective: str) -> None:
    """Refuse an unknown objective.

    Raises
    ------
    InputError
        If it is neither ``imbalance`` nor ``time``.
    """
    if objective not in get_args(ObjectiveName):
        raise InputError("objective", "one of imbalance, time", repr(objective))
