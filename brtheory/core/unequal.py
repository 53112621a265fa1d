"""Replicas that differ in speed: their loads as integers of time, exact whatever the decimals.

Model, beyond the paper: replica g spends b_g seconds a step and a_g seconds per KV token,

    tau(k) = max_g (b_g + a_g*L_g(k)),

over all replicas. In lockstep one without a request runs a dummy step, so its b_g counts too.
All a_g and b_g are rational (decimals, or decimals over a decimal speed): with u the largest unit
of which each is a multiple, b_g = u*B_g and a_g = u*A_g, and

    T_g = B_g + A_g*L_g         tau = u*max_g T_g         I_T = G*max_g T_g - sum_g T_g

are integers. u*I_T is the time the replicas wait at the barrier, summed over them. Placing Delta
tokens on g adds A_g*Delta to T_g and nothing elsewhere, so with m_g = max T - T_g

    F_g(Q) = -(change of I_T) = A_g*Delta - G*(A_g*Delta - m_g)_+      (``time_f_score``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from brtheory.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SLOWEST, FASTEST = 1e-6, 1e6
LONGEST_S = 1e9
MOST_SLOTS = 2**20


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a cluster in which they differ.

    Parameters
    ----------
    slots
        Requests it can decode at once, 1 .. 2^20.
    speed
        Divides both of its step-time coefficients, 1e-6 .. 1e6; 0.5 takes twice as long.
    a0, b0
        Its own seconds per KV token and per step, 0 .. 1e9; None for the cluster's.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    slots: int
    speed: float = 1.0
    a0: float | None = None
    b0: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= MOST_SLOTS:
            raise InputError("replica slots", f"an integer from 1 to {MOST_SLOTS}", self.slots)
        if not SLOWEST <= self.speed <= FASTEST:
            raise InputError("replica speed", f"{SLOWEST:g} to {FASTEST:g}", self.speed)
        for name in ("a0", "b0"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= LONGEST_S:
                raise InputError(f"replica {name}", f"0 to {LONGEST_S:g} seconds", value)


@dataclass(frozen=True)
class Paces:
    """A_g and B_g in a common unit of time.

    Parameters
    ----------
    per_step, per_token
        B_g and A_g >= 0, one entry per replica, in units.
    unit_s
        u: seconds of one unit, > 0.
    """

    per_step: tuple[int, ...]
    per_token: tuple[int, ...]
    unit_s: Fraction

    @cached_property
    def arrays(self) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """B_g and A_g, each of shape (G, 1).

        Raises
        ------
        OverflowError
            If one does not fit 64 bits.
        """
        # Instances come through here, and those who check a certificate have no use for NumPy.
        import numpy as np  # noqa: PLC0415

        step = np.array(self.per_step, dtype=np.int64)
        return step[:, None], np.array(self.per_token, dtype=np.int64)[:, None]

    def times(self, tokens: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """T_g of loads in tokens, shape (G, n), in units."""
        per_step, per_token = self.arrays
        return per_step + per_token * tokens


def time_loads(
    loads: Sequence[int], *, per_step: Sequence[int], per_token: Sequence[int]
) -> list[int]:
    """T_g = B_g + A_g*L_g for every replica, in units of time."""
    return [b + a * load for load, b, a in zip(loads, per_step, per_token, strict=True)]


def reduce_paces(per_step_s: Sequence[Fraction], per_token_s: Sequence[Fraction]) -> Paces:
    """B_g, A_g and the largest unit u with b_g = u*B_g and a_g = u*A_g.

    Parameters
    ----------
    per_step_s, per_token_s
        b_g and a_g >= 0 in seconds, one entry per replica; not all 0.
    """
    values = [*per_step_s, *per_token_s]
    common = math.lcm(*(value.denominator for value in values))
    whole = [int(value * common) for value in values]
    divisor = math.gcd(*whole)
    reduced = tuple(value // divisor for value in whole)
    replicas = len(per_step_s)
    return Paces(reduced[:replicas], reduced[replicas:], Fraction(divisor, common))


def paces_of(replicas: Sequence[Replica], *, a0: float, b0: float) -> Paces | None:
    """Paces of replicas in a cluster with a0 and b0; None where every one has just these.

    Raises
    ------
    InputError
        If a_g and b_g of a replica are both 0.
    """
    per_token = [_seconds(r.a0, a0) / _decimal(r.speed) for r in replicas]
    per_step = [_seconds(r.b0, b0) / _decimal(r.speed) for r in replicas]
    for g in range(len(replicas)):
        if per_token[g] == per_step[g] == 0:
            raise InputError(f"replica {g}", "a0 and b0 not both 0", "both 0")
    if {*per_token} == {_decimal(a0)} and {*per_step} == {_decimal(b0)}:
        return None
    return reduce_paces(per_step, per_token)


def slots_of(replicas: Sequence[Replica] | None, *, count: int, slots: int) -> tuple[int, ...]:
    """Slots of each of ``count`` replicas: their own, or ``slots`` each where they do not differ.

    Raises
    ------
    InputError
        If another number of replicas is described, or ``slots`` is not the largest of theirs.
    """
    if replicas is None:
        return (slots,) * count
    own = tuple(replica.slots for replica in replicas)
    if len(own) != count:
        raise InputError("unequal", f"{count} replicas", len(own))
    if max(own) != slots:
        raise InputError("slots", f"{max(own)}, the most of any replica", slots)
    return own


def _seconds(own: float | None, shared: float) -> Fraction:
    return _decimal(shared if own is None else own)


def _decimal(value: float) -> Fraction:
    """The exact value of the shortest decimal text: 1e-7 is 1/10^7, not its binary twin."""
    return Fraction(repr(value))
