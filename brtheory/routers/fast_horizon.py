"""``HorizonState`` by compiled code: the same calls, and many changes in one."""

from collections.abc import Sequence

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError
from brtheory.routers.fast_horizon_kernels import (
    ADMIT,
    ADVANCE,
    REFRESH,
    RETIRE,
    apply_changes,
    update,
)
from brtheory.routers.fast_horizon_memory_kernels import make_memory, view_of

Change = tuple[int, int, int, int, int]
"""Kind, slot (or steps), replica, tokens now, predicted finish; unused entries are 0."""


class CompiledHorizonState:
    """The projected loads of a running cluster; equals ``core.horizon.HorizonState``.

    Parameters
    ----------
    replicas, horizon
        G >= 1 and H >= 0.
    slots
        Most requests active at once, G times the slots of a replica.
    """

    def __init__(self, *, replicas: int, horizon: int, slots: int) -> None:
        self.replicas = replicas
        self.horizon = horizon
        self._sizes = (replicas, horizon, slots)
        self._memory = make_memory(*self._sizes)
        self._state = view_of(self._memory, *self._sizes)
        self._slot: dict[int, int] = {}
        self._free = list(range(slots - 1, -1, -1))

    @property
    def step(self) -> int:
        """The present absolute step."""
        return int(self._state.clock[0])

    @property
    def columns(self) -> IntArray:
        """Buffer of the window, shape (G, C), C > H + 1."""
        return self._state.columns

    @property
    def start(self) -> int:
        """Column of ``columns`` that holds h = 0."""
        return int(self._state.clock[0] - self._state.clock[1])

    def rows(self) -> IntArray:
        """Lhat_g(h) now, shape (G, H + 1): a read-only view, valid until the next change."""
        view = self.columns[:, self.start : self.start + self.horizon + 1]
        view.flags.writeable = False
        return view

    def admit(self, request_id: int, replica: int, *, tokens: int, finish: int) -> None:
        """Add a request that weighs ``tokens`` now and is predicted to leave at step ``finish``."""
        self.apply([self.admission(request_id, replica, tokens=tokens, finish=finish)])

    def retire(self, request_id: int) -> None:
        """Take a finished or cancelled request out."""
        self.apply([self.retirement(request_id)])

    def refresh(self, request_id: int, *, finish: int) -> None:
        """Replace a request's predicted finish (absolute step, or ``NEVER``)."""
        self.apply([self.prediction(request_id, finish=finish)])

    def advance(self, steps: int) -> None:
        """Move the present ``steps`` >= 0 decode steps on."""
        self.apply([self.passage(steps)])

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes, each from one of the methods below, in the order they were asked for."""
        if changes:
            apply_changes(self._state, np.array(changes, dtype=np.int64))

    def update(self, admitted: IntArray, retired: IntArray, *, steps: int = 1) -> None:
        """Admit, retire and advance from arrays, for callers that number their slots themselves.

        Not to be mixed with the calls by request id.

        Parameters
        ----------
        admitted
            Shape (k, 4), int64: slot (0 <= slot < ``slots``), replica, tokens now, finish.
        retired
            Shape (m,), int64: slots.
        steps
            Decode steps to move on by afterwards, >= 0.

        Raises
        ------
        InputError
            If a slot to admit to is taken or one to retire from is empty; what comes before it
            in the arrays is done.
        """
        answer = update(self._memory, *self._sizes, admitted, retired, steps)
        if answer < 0:
            raise InputError(f"admitted[{-1 - answer}]", "a free slot", admitted[-1 - answer, 0])
        if answer > 0:
            raise InputError(f"retired[{answer - 1}]", "a slot in use", retired[answer - 1])

    def admission(self, request_id: int, replica: int, *, tokens: int, finish: int) -> Change:
        """The change ``admit`` makes; ``tokens`` are those at the step it is applied.

        Raises
        ------
        InputError
            If a request with this id is active already, or every slot is taken.
        """
        if request_id in self._slot:
            raise InputError("horizon state", "ids used once", f"id {request_id} twice")
        if not self._free:
            raise InputError("horizon state", f"at most {len(self._slot)} requests", "one more")
        self._slot[request_id] = self._free.pop()
        return ADMIT, self._slot[request_id], replica, tokens, finish

    def retirement(self, request_id: int) -> Change:
        """The change ``retire`` makes.

        Raises
        ------
        InputError
            If no such request is active.
        """
        slot = self._find(request_id)
        del self._slot[request_id]
        self._free.append(slot)
        return RETIRE, slot, 0, 0, 0

    def prediction(self, request_id: int, *, finish: int) -> Change:
        """The change ``refresh`` makes.

        Raises
        ------
        InputError
            If no such request is active.
        """
        return REFRESH, self._find(request_id), 0, 0, finish

    def passage(self, steps: int) -> Change:
        """The change ``advance`` makes.

        Raises
        ------
        InputError
            If ``steps`` is negative.
        """
        if steps < 0:
            raise InputError("steps", "an integer >= 0", steps)
        return ADVANCE, steps, 0, 0, 0

    def _find(self, request_id: int) -> int:
        if request_id not in self._slot:
            raise InputError("horizon state", "the id of an active request", request_id)
        return self._slot[request_id]
