"""The decode ranks as an engine: requests become sequences of the group, KV is claimed when due.

KV is claimed when a rank *schedules* the request, not when it arrives: a lease can end while the
request waits for a slot. Without usable KV the rank prefills the prompt itself, silently, or fails.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing

from brtheory.emulator.call import ApiError, Call
from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.connectors import find_connector
from brtheory.emulator.driver import Event, GroupDriver, Refused, WallClock
from brtheory.emulator.group import DecodeGroup
from brtheory.emulator.kv import Claim, KvLedger
from brtheory.emulator.metrics import EngineGauges
from brtheory.emulator.piece import Json, Piece, Usage
from brtheory.emulator.plan import SequencePlan, plan_sequences
from brtheory.emulator.session import RequestIds, last_piece
from brtheory.emulator.step import DecodeRequest
from brtheory.errors import InfeasibleError


class LostKvError(ApiError):
    """Decode cannot get the KV it was promised, and is configured to fail then."""

    def __init__(self) -> None:
        super().__init__(500, "Failed to load KV cache", kind="InternalServerError")


class DecodeEngine:
    """All decode ranks, behind one barrier.

    Parameters
    ----------
    config
        The deployment.
    clock
        Injected time.
    ledger
        Where prefilled KV is claimed.
    """

    def __init__(self, config: EmulatorConfig, clock: WallClock, *, ledger: KvLedger) -> None:
        self.config = config
        self.driver = GroupDriver(
            lambda gate: DecodeGroup(
                config.shape,
                step_time=config.step_time,
                burst=config.burst,
                seed=config.seed,
                gate=gate,
            ),
            clock,
            time_scale=config.time_scale,
        )
        self.ids = RequestIds()
        self.kv_counts: Counter[str] = Counter()
        self.finished: dict[int, Counter[str]] = defaultdict(Counter)
        self.prompt_tokens: Counter[int] = Counter()
        self.generated_tokens: Counter[int] = Counter()
        self.running: dict[int, tuple[str, SequencePlan, int]] = {}
        self._clock = clock
        self._ledger = ledger
        self._connector = find_connector(config.connector)
        self._computing = [asyncio.Lock() for _ in range(config.shape.replicas)]

    @property
    def group(self) -> DecodeGroup:
        """The group: the truth."""
        return self.driver.group

    def hold(self, request_id: str) -> AbstractContextManager[None]:
        """Hold a request id while it is served.

        Raises
        ------
        ApiError
            If it is in use.
        """
        return self.ids.hold(request_id)

    def least_busy(self, ranks: range) -> int:
        """The rank an endpoint picks by itself: least 4*waiting + running, lowest on ties."""
        waiting, active = self.group.waiting, self.group.active
        return min(ranks, key=lambda rank: (4 * waiting[rank] + active[rank], rank))

    def open(self, call: Call, *, request_id: str, rank: int) -> "DecodeSession":
        """Plan a request on a rank.

        Raises
        ------
        ApiError
            If not even an empty rank could take it.
        """
        plans = plan_sequences(call, seed=self.config.seed, mean_output=self.config.mean_output)
        capacity = self.config.shape.kv_capacity
        largest = max(plan.prompt.tokens + plan.output_tokens for plan in plans)
        if capacity is not None and largest > capacity:
            raise ApiError(400, f"The request needs {largest} KV tokens, a rank has {capacity}.")
        return DecodeSession(self, call, plans, request_id=request_id, rank=rank)

    def gauges(self, rank: int) -> EngineGauges:
        """State of one rank."""
        capacity = self.config.shape.kv_capacity
        return EngineGauges(
            engine=str(rank),
            running=self.group.active[rank],
            waiting=self.group.waiting[rank],
            kv_usage=None if capacity is None else self.group.loads[rank] / capacity,
            prompt_tokens=self.prompt_tokens[rank],
            generated_tokens=self.generated_tokens[rank],
            finished=dict(self.finished[rank]),
        )

    def claim(self, call: Call) -> bool:
        """Whether the KV that the request names is this prompt's and could be taken over."""
        verdict = self._verdict(call)
        self.kv_counts[verdict] += 1
        return verdict == Claim.CLAIMED

    async def compute(self, rank: int, tokens: int) -> None:
        """Prefill a prompt on a decode rank, one after the other."""
        seconds = self.config.prefill_speed.seconds(tokens) * self.config.time_scale
        async with self._computing[rank]:
            await self._clock.sleep(seconds)
        self.kv_counts["recomputed"] += 1
        self.kv_counts["recomputed_tokens"] += tokens

    def _verdict(self, call: Call) -> Claim:
        handle = None
        if self._connector is not None:
            handle = self._connector.handle_to_claim(call.kv)
        if self._connector is None or handle is None:
            return Claim.FOREIGN
        return self._ledger.claim(
            handle,
            call.prompt_tokens,
            now_s=self._clock.now(),
            parameters=self._connector.proof(call.kv),
        )


class DecodeSession:
    """One request on a decode rank: its sequences, gathered into pieces."""

    kv_transfer_params: Json | None = None

    def __init__(
        self,
        engine: DecodeEngine,
        call: Call,
        plans: tuple[SequencePlan, ...],
        *,
        request_id: str,
        rank: int,
    ) -> None:
        self._engine = engine
        self._call = call
        self._request_id = request_id
        self._rank = rank
        self._mailbox: asyncio.Queue[Event] = asyncio.Queue()
        self._plans = {engine.driver.new_id(): plan for plan in plans}
        self._sent = dict.fromkeys(self._plans, 0)
        self._claimed: bool | None = None
        self._computed = False
        self.usage = Usage(call.prompt_tokens)

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Decode all sequences.

        Raises
        ------
        ApiError
            If the KV is lost and the engine fails on that.
        """
        try:
            await self._start()
            async with aclosing(self._gathered()) as gathered:
                async for piece in gathered:
                    yield piece
        finally:
            for sequence in self._plans:
                self._engine.driver.cancel(sequence)
                self._engine.running.pop(sequence, None)

    async def _start(self) -> None:
        self._engine.prompt_tokens[self._rank] += self._call.prompt_tokens
        if not self._call.kv.get("do_remote_prefill"):
            self._engine.kv_counts["absent"] += 1
            await self._recompute()
        for sequence in self._plans:
            self._submit(sequence)

    def _submit(self, sequence: int) -> None:
        plan = self._plans[sequence]
        request = DecodeRequest(
            sequence, self._rank, plan.prompt.tokens, plan.output_tokens, key=plan.voice
        )
        gate = None if self._computed else self._claim
        try:
            self._engine.driver.submit(request, self._mailbox, gate=gate)
        except InfeasibleError as error:
            raise ApiError(400, str(error)) from error
        self._engine.running[sequence] = (self._request_id, plan, self._rank)

    def _claim(self) -> bool:
        """Claim once for all sequences, at the moment the first one is scheduled."""
        if self._claimed is None:
            self._claimed = self._engine.claim(self._call)
            # What decode reports as cached is what it fetched, not what prefill had cached.
            self.usage.cached_tokens = self._call.prompt_tokens if self._claimed else 0
        return self._claimed

    async def _gathered(self) -> AsyncGenerator[Piece]:
        left = len(self._plans)
        while left:
            event = await self._mailbox.get()
            if isinstance(event, Refused):
                await self._recover(event.id)
                continue
            self._engine.generated_tokens[self._rank] += event.tokens
            start = self._sent[event.id]
            if not event.finished and event.age - start < self._engine.config.tokens_per_chunk:
                continue
            self._sent[event.id] = event.age
            plan = self._plans[event.id]
            if not event.finished:
                yield Piece(plan, start, event.age)
                continue
            left -= 1
            self._engine.running.pop(event.id)
            self._engine.finished[self._rank][plan.finish_reason] += 1
            yield last_piece(plan, start)

    async def _recover(self, sequence: int) -> None:
        if self._engine.config.on_lost_kv == "fail":
            self._engine.finished[self._rank]["error"] += 1
            raise LostKvError
        if not self._computed:
            await self._recompute()
        self._submit(sequence)

    async def _recompute(self) -> None:
        await self._engine.compute(self._rank, self._call.prompt_tokens)
        self._computed = True
