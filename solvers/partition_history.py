"""How a run over partitions is remembered: the way back to the best state, and lanes in use."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.partitions import Parents


@dataclass
class Layer:
    """One move that changed which rows there are: parent row of each, and the group chosen."""

    parents: Parents | None = None
    choices: NDArray[np.uint8] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.parents, self.choices) if a is not None)


@dataclass
class History:
    """Layers in order, to walk back from the best final row."""

    layers: list[Layer] = field(default_factory=list)
    nbytes: int = 0

    def add(self, layer: Layer) -> None:
        """Append a layer."""
        self.layers.append(layer)
        self.nbytes += layer.nbytes

    def choices(self, row: int) -> Iterator[int | None]:
        """Group chosen at each admission, from the last back; None where there was no choice."""
        for layer in reversed(self.layers):
            if layer.choices is not None:
                yield int(layer.choices[row])
            elif layer.parents is None:
                yield None
            if layer.parents is not None:
                row = int(layer.parents[row])


class Lanes:
    """Which lane each active request is in; the lowest free lane is taken first."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self._free: list[int] = []

    @property
    def active(self) -> int:
        """How many lanes are taken."""
        return len(self.of)

    def take(self, request_id: int) -> int:
        """Give a request a lane."""
        lane = heapq.heappop(self._free) if self._free else len(self.of)
        self.of[request_id] = lane
        return lane

    def release(self, request_id: int) -> int:
        """Take the lane back and return it."""
        lane = self.of.pop(request_id)
        heapq.heappush(self._free, lane)
        return lane
