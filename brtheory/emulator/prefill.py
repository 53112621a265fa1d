"""A prefill server as an engine: a queue at a token rate, and KV pinned under leases."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, contextmanager

from brtheory.emulator.call import ApiError, Call
from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.connectors import (
    BLOCK_TOKENS,
    Connector,
    Prefilled,
    Producer,
    find_connector,
    pin_proof,
)
from brtheory.emulator.driver import WallClock
from brtheory.emulator.kv import Handle, KvLedger
from brtheory.emulator.metrics import EngineGauges
from brtheory.emulator.piece import Json, Piece, Usage
from brtheory.emulator.plan import plan_sequences
from brtheory.emulator.session import RequestIds, last_piece

CACHED_PROMPTS = 4096
"""Prompts a prefill server remembers, for prefix cache hits."""


class PrefillEngine:
    """One prefill server: a queue at a token rate, and KV pinned under leases.

    Tokens beyond the first come at once: it does not emulate decoding.

    Parameters
    ----------
    config
        The deployment.
    clock
        Injected time.
    ledger
        Where KV is pinned.
    producer
        How it is named in parameters.
    """

    def __init__(
        self, config: EmulatorConfig, clock: WallClock, *, ledger: KvLedger, producer: Producer
    ) -> None:
        self.config = config
        self.producer = producer
        self.ids = RequestIds()
        self.running = self.waiting = 0
        self.prompt_tokens = self.generated_tokens = 0
        self.finished: Counter[str] = Counter()
        self.connector: Connector | None = find_connector(config.connector)
        self._clock = clock
        self._ledger = ledger
        self._working_tokens = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._seen: OrderedDict[int, None] = OrderedDict()
        ledger.on_freed(self._freed.set)

    @property
    def pinned(self) -> tuple[int, int]:
        """Requests and KV tokens pinned now."""
        self._ledger.expire(self._clock.now())
        return self._ledger.pinned(self.producer.engine_id)

    @property
    def kv_usage(self) -> float | None:
        """Share of the KV capacity in use, None where it is unlimited."""
        capacity = self.config.prefill_kv_capacity
        if capacity is None:
            return None
        return (self.pinned[1] + self._working_tokens) / capacity

    def hold(self, request_id: str) -> AbstractContextManager[None]:
        """Hold a request id while it is served.

        Raises
        ------
        ApiError
            If it is in use, or KV is still pinned under it.
        """
        self._ledger.expire(self._clock.now())
        if self._ledger.holds(Handle(self.producer.engine_id, request_id)):
            raise ApiError(400, f"Request id {request_id} already running.")
        return self.ids.hold(request_id)

    def open(self, call: Call, *, request_id: str) -> "PrefillSession":
        """Plan a request.

        Raises
        ------
        ApiError
            If its KV could never fit.
        """
        capacity = self.config.prefill_kv_capacity
        if capacity is not None and call.prompt_tokens > capacity:
            raise ApiError(
                400, f"The prompt needs {call.prompt_tokens} KV tokens, the engine has {capacity}."
            )
        return PrefillSession(self, call, request_id=request_id)

    def gauges(self) -> EngineGauges:
        """State of the server."""
        return EngineGauges(
            engine="0",
            running=self.running,
            waiting=self.waiting,
            kv_usage=self.kv_usage,
            prompt_tokens=self.prompt_tokens,
            generated_tokens=self.generated_tokens,
            finished=dict(self.finished),
        )

    def die(self) -> None:
        """Lose all pinned KV and the prefix cache."""
        self._ledger.drop(self.producer.engine_id)
        self._seen.clear()

    @contextmanager
    def working(self, tokens: int) -> Iterator[None]:
        """Hold KV while a prompt is computed."""
        self._working_tokens += tokens
        self.running += 1
        try:
            yield
        finally:
            self._working_tokens -= tokens
            self.running -= 1

    async def wait_for_room(self, tokens: int) -> None:
        """Wait until pinned KV leaves room for so many tokens."""
        capacity = self.config.prefill_kv_capacity
        while capacity is not None and self.pinned[1] + tokens > capacity:
            self._freed.clear()
            expiry_s = self._ledger.next_expiry_s()
            assert expiry_s is not None  # noqa: S101  # something is pinned, or there were room
            await self._freed_or(expiry_s - self._clock.now())

    async def compute(self, call: Call) -> int:
        """Prefill, one after the other; returns the tokens found in the prefix cache."""
        self.waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting -= 1
        try:
            await self.wait_for_room(call.prompt_tokens)
            cached = self._cached(call)
            seconds = self.config.prefill_speed.seconds(call.prompt_tokens - cached)
            with self.working(call.prompt_tokens):
                await self._clock.sleep(seconds * self.config.time_scale)
        finally:
            self._turn.release()
        self.prompt_tokens += call.prompt_tokens
        self._remember(call)
        return cached

    def pin(self, call: Call, done: Prefilled) -> Json | None:
        """Keep the KV for decode if it was asked for; returns the reply's parameters."""
        if self.connector is None:
            return None
        handle = self.connector.handle_to_pin(call.kv, done, by=self.producer)
        if handle is None:
            return None
        reply = self.connector.reply(handle, done, by=self.producer)
        proof = pin_proof(self.connector, reply, by=self.producer)
        self._ledger.pin(handle, done.prompt_tokens, now_s=self._clock.now(), parameters=proof)
        return reply

    async def _freed_or(self, seconds: float) -> None:
        """Wait until KV is freed, at most so long."""
        waits = (
            asyncio.ensure_future(self._freed.wait()),
            asyncio.ensure_future(self._clock.sleep(max(0.0, seconds))),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _cached(self, call: Call) -> int:
        """Full blocks of prompts seen before; the last token is always computed."""
        return sum(
            (prompt.tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
            for prompt in call.prompts
            if prompt.whole in self._seen
        )

    def _remember(self, call: Call) -> None:
        for prompt in call.prompts:
            self._seen[prompt.whole] = None
            self._seen.move_to_end(prompt.whole)
        while len(self._seen) > CACHED_PROMPTS:
            self._seen.popitem(last=False)


class PrefillSession:
    """One request on a prefill server."""

    def __init__(self, engine: PrefillEngine, call: Call, *, request_id: str) -> None:
        self._engine = engine
        self._call = call
        self._request_id = request_id
        self.kv_transfer_params: Json | None = None
        self.usage = Usage(call.prompt_tokens)

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Prefill, then all answers at once."""
        engine, call = self._engine, self._call
        plans = plan_sequences(call, seed=engine.config.seed, mean_output=engine.config.mean_output)
        self.usage.cached_tokens = await engine.compute(call)
        done = Prefilled(self._request_id, call.prompt_tokens, plans[0].finish_reason)
        self.kv_transfer_params = engine.pin(call, done)
        for plan in plans:
            engine.generated_tokens += plan.output_tokens
            engine.finished[plan.finish_reason] += 1
            yield last_piece(plan, 0)
