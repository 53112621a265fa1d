"""The life of a request as one transition table, which also draws its documentation.

Everything that must happen exactly once hangs on the table: the load entry of a replica is taken
on the way into ``connecting`` and given back on every way out of what follows; KV pinned on a
prefill node is spent or stranded. The shells report events and do what the table says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from brtheory.errors import BrtheoryError
from brtheory.proxy.events import (
    Bound,
    ClientLeft,
    Completed,
    ConnectFailed,
    DecodeOpened,
    Event,
    Failed,
    FirstByte,
    KvSpent,
    LeaseExpired,
    PrefillDone,
    PrefillFailed,
    PrefillSent,
    PrefillSkipped,
    Recomputed,
)


class Phase(Enum):
    """Where a request is."""

    QUEUED = "queued"
    PREFILLING = "prefilling"
    POOLED = "pooled"
    CONNECTING = "connecting"
    DECODING = "decoding"
    STREAMING = "streaming"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the request is over."""
        return self in (Phase.DONE, Phase.FAILED, Phase.CANCELLED)


class Effect(Enum):
    """What a transition entails."""

    LEAVE_LINE = "leave the line"
    TAKE_PLACE = "take a place"
    GIVE_PLACE = "give the place back"
    START_LEG = "start the prefill leg"
    STOP_LEG = "stop the prefill leg"
    ENTER_POOL = "enter the pool"
    LEAVE_POOL = "leave the pool"
    PIN_KV = "pin KV"
    SPEND_KV = "spend KV"
    STRAND_KV = "strand KV"
    TAKE_LOAD = "take load"
    GIVE_LOAD = "give load back"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table."""

    phase: Phase
    event: type[Event]
    next: Phase
    effects: tuple[Effect, ...] = ()


def _ends(phase: Phase, *effects: Effect) -> tuple[Transition, ...]:
    return (
        Transition(phase, Failed, Phase.FAILED, effects),
        Transition(phase, ClientLeft, Phase.CANCELLED, effects),
    )


TABLE: tuple[Transition, ...] = (
    Transition(Phase.QUEUED, PrefillSent, Phase.PREFILLING, (Effect.TAKE_PLACE, Effect.START_LEG)),
    Transition(Phase.QUEUED, PrefillSkipped, Phase.POOLED, (Effect.TAKE_PLACE, Effect.ENTER_POOL)),
    *_ends(Phase.QUEUED, Effect.LEAVE_LINE),
    Transition(Phase.PREFILLING, PrefillFailed, Phase.QUEUED, (Effect.STOP_LEG, Effect.GIVE_PLACE)),
    Transition(
        Phase.PREFILLING,
        PrefillDone,
        Phase.POOLED,
        (Effect.STOP_LEG, Effect.PIN_KV, Effect.ENTER_POOL),
    ),
    *_ends(Phase.PREFILLING, Effect.STOP_LEG, Effect.GIVE_PLACE),
    Transition(
        Phase.POOLED,
        LeaseExpired,
        Phase.QUEUED,
        (Effect.LEAVE_POOL, Effect.STRAND_KV, Effect.GIVE_PLACE),
    ),
    Transition(Phase.POOLED, Bound, Phase.CONNECTING, (Effect.GIVE_PLACE, Effect.TAKE_LOAD)),
    *_ends(Phase.POOLED, Effect.LEAVE_POOL, Effect.STRAND_KV, Effect.GIVE_PLACE),
    Transition(
        Phase.CONNECTING,
        ConnectFailed,
        Phase.POOLED,
        (Effect.GIVE_LOAD, Effect.TAKE_PLACE, Effect.ENTER_POOL),
    ),
    Transition(Phase.CONNECTING, KvSpent, Phase.QUEUED, (Effect.GIVE_LOAD, Effect.SPEND_KV)),
    Transition(Phase.CONNECTING, DecodeOpened, Phase.DECODING, (Effect.SPEND_KV,)),
    *_ends(Phase.CONNECTING, Effect.GIVE_LOAD, Effect.STRAND_KV),
    Transition(Phase.DECODING, KvSpent, Phase.QUEUED, (Effect.GIVE_LOAD,)),
    Transition(Phase.DECODING, FirstByte, Phase.STREAMING),
    Transition(Phase.DECODING, Recomputed, Phase.QUEUED, (Effect.GIVE_LOAD,)),
    Transition(Phase.DECODING, Completed, Phase.DONE, (Effect.GIVE_LOAD,)),
    *_ends(Phase.DECODING, Effect.GIVE_LOAD),
    Transition(Phase.STREAMING, Recomputed, Phase.QUEUED, (Effect.GIVE_LOAD,)),
    Transition(Phase.STREAMING, Completed, Phase.DONE, (Effect.GIVE_LOAD,)),
    *_ends(Phase.STREAMING, Effect.GIVE_LOAD),
)

_NEXT = {(row.phase, row.event): row for row in TABLE}


class IllegalTransitionError(BrtheoryError):
    """An event came that the table does not know in this phase: a fault of the shell."""


class Lifecycle:
    """One request on its way through the table.

    Parameters
    ----------
    on_effect
        Called with each effect, in order, after the phase has changed.
    prefill_attempts
        Prefill legs sent at most for nodes that fail, >= 1.
    fresh_starts
        How often a request whose KV was lost or spent may be prefilled again, >= 0.

    reconnects
        How often a request may be bound again because its replica could not be reached, >= 0.

    Attributes
    ----------
    phase
        Where it is.
    forwarded
        Whether the client has seen a byte of the answer.
    """

    def __init__(
        self,
        on_effect: Callable[[Effect], None],
        *,
        prefill_attempts: int = 2,
        fresh_starts: int = 1,
        reconnects: int = 2,
    ) -> None:
        self._on_effect = on_effect
        self._attempts_left = prefill_attempts
        self._attempts = prefill_attempts
        self._starts_left = fresh_starts
        self._connects_left = reconnects
        self.phase = Phase.QUEUED
        self.forwarded = False

    def apply(self, event: Event) -> Phase:
        """Take an event in, move on, and do what the transition entails.

        Raises
        ------
        IllegalTransitionError
            If the table has no such row or a right to retry is used up; nothing has changed then.
        """
        row = _NEXT.get((self.phase, type(event)))
        if row is None:
            raise IllegalTransitionError(f"{type(event).__name__} in phase {self.phase.value}")
        self._use_right(event)
        self.phase = row.next
        self.forwarded = self.forwarded or isinstance(event, FirstByte)
        for effect in row.effects:
            self._on_effect(effect)
        return self.phase

    @property
    def may_try_another_node(self) -> bool:
        """Whether another prefill leg may be sent after one that failed."""
        return self._attempts_left > 1 and not self.forwarded

    @property
    def may_start_afresh(self) -> bool:
        """Whether the prompt may be prefilled again after its KV was lost or spent."""
        return self._starts_left > 0 and not self.forwarded

    @property
    def may_bind_again(self) -> bool:
        """Whether another replica may be tried after one that could not be reached."""
        return self._connects_left > 0

    def _use_right(self, event: Event) -> None:
        if isinstance(event, PrefillFailed):
            if self._attempts_left <= 1:
                raise IllegalTransitionError("another prefill attempt after the last")
            self._attempts_left -= 1
        elif isinstance(event, LeaseExpired | KvSpent):
            if not self.may_start_afresh:
                raise IllegalTransitionError("a fresh start after the last, or after a byte")
            self._starts_left -= 1
            self._attempts_left = self._attempts
        elif isinstance(event, Recomputed):
            self._attempts_left = self._attempts
        elif isinstance(event, ConnectFailed):
            if self._connects_left <= 0:
                raise IllegalTransitionError("another replica after the last")
            self._connects_left -= 1


def as_mermaid() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.QUEUED.value}"]
    for row in TABLE:
        what = "".join(f", {effect.value}" for effect in row.effects)
        lines.append(f"    {row.phase.value} --> {row.next.value}: {row.event.__name__}{what}")
    lines += [f"    {phase.value} --> [*]" for phase in Phase if phase.final]
    return "\n".join(lines)


def as_markdown() -> str:
    """The table as Markdown."""
    lines = ["| in | when | then | and |", "|---|---|---|---|"]
    for row in TABLE:
        effects = ", ".join(effect.value for effect in row.effects)
        lines.append(f"| {row.phase.value} | {row.event.__name__} | {row.next.value} | {effects} |")
    return "\n".join(lines)
