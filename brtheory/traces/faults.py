"""Which rows of a batch are unusable, and why: the first fault of a row is its reason.

A fault is either bad input (an error in strict mode, a counted drop otherwise) or a known kind of
failed request in a known format, which is dropped and counted in both modes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import InputError


@dataclass(frozen=True)
class FaultKind:
    """One way a row can be unusable: ``got(row)`` says what stood there instead."""

    reason: str
    expected: str
    got: Callable[[int], object]
    is_error: bool = True


@dataclass
class Faults:
    """Faults of the rows of one batch.

    Parameters
    ----------
    where
        Names a row of the batch for a message, e.g. ``azure.csv:1207``.
    code
        Shape (rows,), int64: 0 for a sound row, else 1 + index into ``kinds``.
    """

    where: Callable[[int], str]
    code: NDArray[np.int64]
    kinds: list[FaultKind] = field(default_factory=list)

    @property
    def sound(self) -> NDArray[np.bool_]:
        """Rows without a fault so far, shape (rows,)."""
        return np.equal(self.code, 0)

    def mark(self, rows: NDArray[np.bool_], kind: FaultKind) -> None:
        """Give ``rows`` this fault unless they have an earlier one."""
        fresh = rows & self.sound
        if fresh.any():
            self.kinds.append(kind)
            self.code[fresh] = len(self.kinds)

    def raise_first(self, *, before: int) -> None:
        """Raise InputError for the first bad row among the first ``before`` rows, if any."""
        errors = [index for index, kind in enumerate(self.kinds, start=1) if kind.is_error]
        bad = np.isin(self.code[:before], errors)
        if bad.any():
            row = int(bad.argmax())
            kind = self.kinds[int(self.code[row]) - 1]
            raise InputError(self.where(row), kind.expected, kind.got(row))

    def count(self, *, before: int) -> dict[str, int]:
        """Return the number of faulty rows among the first ``before`` rows, by reason."""
        counts = np.bincount(self.code[:before], minlength=len(self.kinds) + 1)[1:]
        total: dict[str, int] = {}
        for kind, rows in zip(self.kinds, counts, strict=True):
            if rows:
                total[kind.reason] = total.get(kind.reason, 0) + int(rows)
        return total
