"""Plays a decode group in real time, on an injected clock.

Steps follow each other without a gap and without drift: a step is due at the model's own end, not
a duration after whenever the loop came round to it. Where the process cannot keep up, the time
lost is counted and, beyond ``PATIENCE_S``, given up: an engine that was late does not hurry.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from brtheory.emulator.group import DecodeGroup
from brtheory.emulator.step import DecodeRequest, Emission

PATIENCE_S = 0.25
"""Wall seconds that may be caught up."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The request's KV was gone when its turn came; it has left the group."""

    id: int


Event = Emission | Refused
Gate = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class WallClock:
    """Time as the emulator sees it.

    Parameters
    ----------
    now
        Monotonic wall seconds.
    sleep
        Waits so many wall seconds.
    unix
        Seconds since 1970.
    """

    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    unix: Callable[[], float]


class GroupDriver:
    """Steps a group while it has work, and hands out what it emits.

    Parameters
    ----------
    make_group
        Builds the group around the driver's gate.
    clock
        Injected time.
    time_scale
        Wall seconds for a second of the model, > 0.
    """

    def __init__(
        self,
        make_group: Callable[[Callable[[DecodeRequest], bool]], DecodeGroup],
        clock: WallClock,
        *,
        time_scale: float = 1.0,
    ) -> None:
        self.group = make_group(self._ask)
        self.lost_s = 0.0
        self._clock = clock
        self._scale = time_scale
        self._work = asyncio.Event()
        self._mailboxes: dict[int, asyncio.Queue[Event]] = {}
        self._gates: dict[int, Gate] = {}
        self._next_id = 0

    def new_id(self) -> int:
        """An id no request has had."""
        self._next_id += 1
        return self._next_id

    def submit(
        self, request: DecodeRequest, mailbox: asyncio.Queue[Event], *, gate: Gate | None = None
    ) -> None:
        """Bind a request; its events go to ``mailbox``, ``gate`` is asked when its turn comes.

        Raises
        ------
        InputError, InfeasibleError
            As ``DecodeGroup.submit``.
        """
        self.group.submit(request)
        self._mailboxes[request.id] = mailbox
        if gate is not None:
            self._gates[request.id] = gate
        self._work.set()

    def cancel(self, request_id: int) -> None:
        """Let a request leave, if it is still here."""
        self.group.cancel(request_id)
        self._mailboxes.pop(request_id, None)
        self._gates.pop(request_id, None)

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            step = self.group.begin_step(self._clock.now() / self._scale)
            for request_id in self.group.take_refused():
                self._mailboxes.pop(request_id).put_nowait(Refused(request_id))
            if step is None:
                self._work.clear()
                await self._work.wait()
                continue
            await self._until(step.ends_s)
            self._hand_out()

    async def _until(self, model_s: float) -> None:
        ahead_s = model_s * self._scale - self._clock.now()
        if ahead_s < -PATIENCE_S:
            self.lost_s -= ahead_s
            self.group.rebase(self._clock.now() / self._scale)
        await self._clock.sleep(max(0.0, ahead_s))

    def _hand_out(self) -> None:
        for emission in self.group.end_step():
            mailbox = self._mailboxes[emission.id]
            if emission.finished:
                del self._mailboxes[emission.id]
            mailbox.put_nowait(emission)

    def _ask(self, request: DecodeRequest) -> bool:
        gate = self._gates.pop(request.id, None)
        return gate is None or gate()
