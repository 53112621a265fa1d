"""One request's way through all books: events in, effects on the books, each exactly once.

Its lifecycle says what an event entails; every effect is carried out here.
"""

from collections.abc import Callable

from brtheory.core.requests import Request
from brtheory.proxy.desk import Desk
from brtheory.proxy.events import (
    Bound,
    ConnectFailed,
    Event,
    Failed,
    KvSpent,
    LeaseExpired,
    PrefillDone,
    PrefillFailed,
    PrefillSent,
    PrefillSkipped,
)
from brtheory.proxy.gate import Ticket
from brtheory.proxy.history import prompt_hash
from brtheory.proxy.lifecycle import Effect, Lifecycle, Phase
from brtheory.proxy.mirror import Hold
from brtheory.proxy.openai import ClientRequest
from brtheory.proxy.pool import Place, Pooled, lease_times

BYTES_PER_TOKEN = 4
"""Rough size of a token in a body, until an engine has counted."""


class Passage:
    """One request.

    Parameters
    ----------
    desk
        The books.
    request
        As the client sent it.
    wake
        Called when the request has been let through the gate, bound, expired or refused.
    on_phase
        Called with each phase it enters.

    Attributes
    ----------
    life
        Its lifecycle.
    hold
        Its load entry while it is bound.
    node
        The prefill node that computes, or computed, its prompt.
    prompt_tokens
        Estimated until an engine has counted.
    """

    def __init__(
        self,
        desk: Desk,
        request: ClientRequest,
        *,
        wake: Callable[[], None],
        on_phase: Callable[[Phase], None] | None = None,
    ) -> None:
        self.desk = desk
        self.request = request
        self.wake = wake
        self.on_phase = on_phase
        self.life = Lifecycle(self._carry_out)
        self.hold: Hold | None = None
        self.node: str | None = None
        self.prompt_tokens = max(1, request.size // BYTES_PER_TOKEN)
        self.failed_nodes: set[str] = set()
        self.failed_replicas: frozenset[str] = frozenset()
        self.prefix = prompt_hash(request.body)
        self._passed = False
        self._ready_s: float | None = None
        self._pinned_s = 0.0
        self._pinned = 0
        self._leg = 0
        self._ticket: Ticket | None = None
        self._place: Place | None = None
        self._pooled_id: int | None = None
        self._bound: Hold | None = None

    @property
    def phase(self) -> Phase:
        """Where it is."""
        return self.life.phase

    def apply(self, event: Event) -> None:
        """Take an event in.

        Raises
        ------
        IllegalTransitionError
            If it cannot happen now.
        """
        if isinstance(event, PrefillSent):
            self.node = event.node
        elif isinstance(event, PrefillFailed):
            self.failed_nodes.add(event.node)
        elif isinstance(event, ConnectFailed | KvSpent):
            self.failed_replicas |= self.desk.fleet.behind_address_of(event.replica)
        elif isinstance(event, PrefillDone):
            self.prompt_tokens = event.prompt_tokens
        phase = self.life.apply(event)
        if self.on_phase is not None:
            self.on_phase(phase)

    def queue(self) -> None:
        """Stand in line; a request that has passed before goes to the front.

        Raises
        ------
        RequestError
            If the line is full.
        """
        desk = self.desk
        ticket = Ticket(self.prompt_tokens, self.request.size, self._pass)
        if self._passed:
            desk.gate.come_back(ticket)
        else:
            desk.gate.enter(ticket)
        self._ticket = ticket
        desk.pump()

    def bind(self, hold: Hold, *, forced: bool) -> None:
        """Take over a load entry the ticker has made, and wake up."""
        self._bound = hold
        wait_s = self.desk.clock() - (self._ready_s or 0.0)
        self.apply(Bound(hold.replica, wait_s, forced))
        self.wake()

    def expire(self) -> None:
        """Its lease has ended in the pool: prefill again where that is allowed, else give up."""
        if self.desk.has_prefill and self.desk.prefill_again and self.life.may_start_afresh:
            self.apply(LeaseExpired())
        else:
            self.desk.lost += 1
            self.apply(Failed(503, "kv_lease_expired"))
        self.wake()

    def _pass(self) -> None:
        """Through the gate: the leg starts, or the pool is entered, in the same moment."""
        desk = self.desk
        self._ticket, self._passed = None, True
        if desk.has_prefill:
            node = desk.prefills.choose(
                desk.fleet.live("prefill"),
                tokens=self.prompt_tokens,
                now_s=desk.clock(),
                avoid=self.failed_nodes,
            )
            assert node is not None  # noqa: S101  # the gate has asked the same question
            self.apply(PrefillSent(node))
        else:
            self.apply(PrefillSkipped(self.prompt_tokens))
        self.wake()

    # -- effects -------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        _EFFECTS[effect](self)

    def _leave_line(self) -> None:
        if self._ticket is not None:
            self.desk.gate.leave(self._ticket)
            self._ticket = None

    def _take_place(self) -> None:
        self._place = self.desk.room.take(tokens=self.prompt_tokens, size=self.request.size)

    def _give_place(self) -> None:
        if self._place is not None:
            self._place.give_back()
            self._place = None
            self.desk.on_change()

    def _start_leg(self) -> None:
        assert self.node is not None  # noqa: S101  # set with the event
        self._leg = self.prompt_tokens
        self.desk.prefills.start(self.node, self._leg)

    def _stop_leg(self) -> None:
        assert self.node is not None  # noqa: S101  # set with the event
        self.desk.prefills.stop(self.node, self._leg)
        self.desk.on_change()

    def _pin_kv(self) -> None:
        assert self.node is not None  # noqa: S101  # set with the event
        self._pinned, self._pinned_s = self.prompt_tokens, self.desk.clock()
        self.desk.prefills.pin(self.node, self._pinned)
        if self._place is not None:
            self._place.correct(self.prompt_tokens)

    def _spend_kv(self) -> None:
        if self._pinned and self.node is not None:
            self.desk.prefills.spend(self.node, self._pinned)
            self._pinned = 0
            self.desk.on_change()

    def _strand_kv(self) -> None:
        if self._pinned and self.node is not None:
            _, until_s = lease_times(self._pinned_s, self.desk.connector.lease_s)
            self.desk.prefills.strand(self.node, self._pinned, until_s=until_s)
            self._pinned = 0

    def _enter_pool(self) -> None:
        desk, now_s = self.desk, self.desk.clock()
        self._ready_s = now_s if self._ready_s is None else self._ready_s
        limit = self.request.length_limit
        wanted = self.prompt_tokens + (desk.default_output if limit is None else limit)
        capacity = desk.mirror.largest_capacity()
        request = Request(
            id=next(desk.ids),
            prompt_tokens=self.prompt_tokens,
            ready_s=self._ready_s,
            # An empty replica takes anything; what never fits would wait, and hold others up.
            reserved_tokens=wanted if capacity is None else min(wanted, capacity),
        )
        lease_s = desk.connector.lease_s or desk.longest_wait_s
        bind_by_s, lease_end_s = lease_times(self._pinned_s if self._pinned else now_s, lease_s)
        size, avoid = self.request.size, self.failed_replicas
        desk.pool.add(Pooled(request, size, self.prefix, bind_by_s, lease_end_s, avoid))
        self._pooled_id = request.id
        desk.waiting[request.id] = self
        desk.on_change()

    def _leave_pool(self) -> None:
        if self._pooled_id is not None and self._pooled_id in self.desk.pool:
            self.desk.pool.take([self._pooled_id])
            del self.desk.waiting[self._pooled_id]
        self._pooled_id = None

    def _take_load(self) -> None:
        self.hold, self._bound = self._bound, None

    def _give_load(self) -> None:
        assert self.hold is not None  # noqa: S101  # every way here has taken it
        self.desk.ticker.release(self.hold, finished=self.phase is Phase.DONE)
        self.hold = None
        self.desk.slot_freed()
        self.desk.on_change()


_EFFECTS: dict[Effect, Callable[[Passage], None]] = {
    Effect.LEAVE_LINE: Passage._leave_line,
    Effect.TAKE_PLACE: Passage._take_place,
    Effect.GIVE_PLACE: Passage._give_place,
    Effect.START_LEG: Passage._start_leg,
    Effect.STOP_LEG: Passage._stop_leg,
    Effect.PIN_KV: Passage._pin_kv,
    Effect.SPEND_KV: Passage._spend_kv,
    Effect.STRAND_KV: Passage._strand_kv,
    Effect.ENTER_POOL: Passage._enter_pool,
    Effect.LEAVE_POOL: Passage._leave_pool,
    Effect.TAKE_LOAD: Passage._take_load,
    Effect.GIVE_LOAD: Passage._give_load,
}
