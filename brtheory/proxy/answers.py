"""Three ways from a decode stream to a client: forwarded, assembled, or whole from the node."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from enum import Enum

from brtheory.proxy.assembly import Assembler
from brtheory.proxy.chunk import Chunk, read_chunk
from brtheory.proxy.client import ClientSide
from brtheory.proxy.editing import StreamEditor, with_prompt_details, without_transfers
from brtheory.proxy.events import Completed, Failed, FirstByte
from brtheory.proxy.fleet import Worker
from brtheory.proxy.sse import SseError, SseEvent
from brtheory.proxy.translation import Ending, Take, Translation
from brtheory.proxy.upstream import Reply
from brtheory.proxy.wire import Answer, BrokenError
from brtheory.proxy.work import AnswerError, Work

DRAIN_S = 1.0
"""How long to wait for upstream to close after ``[DONE]`` so that its connection can be reused."""
GROWTH_S = 0.2
"""How often the load of an answer that comes whole is grown by elapsed time."""


class Answering(Enum):
    """How the client is answered."""

    STREAM = "stream"
    ASSEMBLE = "assemble"
    WHOLE = "whole"


class Flow:
    """A stream on its way: from upstream's socket to the client's, once the first bytes are sent.

    Parameters
    ----------
    client
        Where it goes.
    answer
        Where it comes from.
    translation
        What is done to it.
    """

    def __init__(self, client: ClientSide, answer: Answer, translation: Translation) -> None:
        self._client = client
        self._answer = answer
        self._translation = translation
        self._direct = False
        self._pending: list[bytes] = []
        self._behind = False
        self._woken = asyncio.Event()
        answer.ended.add_done_callback(self._wake)
        answer.deliver(self._take)

    async def first(self, is_begun: Callable[[], bool]) -> bytes:
        """The bytes up to the first token or error; empty if the stream ends without any.

        vLLM names the role before it finds that the prompt's KV is gone: as long as no token has
        come, the request may still be served anew.
        """
        while not ((self._pending and is_begun()) or self._failed() or self._over()):
            await self._sleep()
        return self._all_pending()

    async def run(self) -> None:
        """Send all that follows; returns at the end of the stream.

        Raises
        ------
        BrokenError, SseError
            If upstream breaks or sends what cannot be read.
        ClientGoneError
            If the client has left.
        """
        while rest := self._all_pending():
            await self._client.write(rest)
        self._direct = True
        while not self._over():
            await self._sleep()
            if self._behind:
                await self._client.caught_up()
                self._behind = False
                self._answer.resume()

    def check(self) -> None:
        """Raise what ended the stream, if that was a failure."""
        if self._answer.ended.done() and not self._translation.ended():
            self._answer.ended.result()

    def _take(self, data: bytes) -> None:
        out = self._translation.feed(data)
        if out and not self._direct:
            self._pending.append(out)
            self._woken.set()
        elif out and not self._client.push(out):
            self._behind = True
            self._answer.pause()
            self._woken.set()
        if self._translation.ending is not None or self._translation.error is not None:
            self._woken.set()

    def _all_pending(self) -> bytes:
        pending, self._pending = self._pending, []
        return b"".join(pending)

    def _failed(self) -> bool:
        return self._translation.error is not None

    def _over(self) -> bool:
        return self._translation.ended() or self._answer.ended.done()

    def _wake(self, ended: asyncio.Future[None]) -> None:
        del ended
        self._woken.set()

    async def _sleep(self) -> None:
        await self._woken.wait()
        self._woken.clear()


async def forward(work: Work, worker: Worker, answer: Answer) -> None:
    """Forward a stream as it comes; its end is told whatever it is."""
    editor = StreamEditor(work.injection, prompt_details=work.prompt_details)
    quick = editor.quick if work.request.choices == 1 else None
    translation = _translation(work, editor.edit, quick=quick)
    flow = Flow(work.client, answer, translation)
    try:
        first = await flow.first(lambda: work.counter.tokens > 0)
        if translation.error is not None and not work.passage.life.forwarded:
            _take_error(work, worker, translation.error)
            return
        if first:
            await _send(work, first)
            await flow.run()
        flow.check()
    except (BrokenError, SseError) as error:
        if not work.passage.life.forwarded:
            raise
        work.note_failure(worker, error)
    await _end_stream(work, worker, translation)
    if work.passage.phase.final:
        await _drain(answer)


async def assemble(work: Work, worker: Worker, answer: Answer) -> None:
    """Put a whole response together from a stream."""
    assembler = Assembler(work.request.endpoint)

    def take(event: SseEvent, chunk: Chunk) -> bytes:
        del event
        assembler.add(chunk.parsed())
        return b""

    translation = _translation(work, take)

    over = asyncio.Event()

    def feed(data: bytes) -> None:
        translation.feed(data)
        if work.first_byte_s is None and work.counter.tokens:
            work.first_byte_s = work.desk.clock()
        if translation.ended():
            over.set()

    answer.ended.add_done_callback(lambda _: over.set())
    answer.deliver(feed)
    await over.wait()
    if not translation.ended():
        answer.ended.result()
    translation.finish()
    if translation.error is not None:
        _take_error(work, worker, translation.error)
    elif translation.ending is Ending.RECOMPUTED:
        work.go_on_after_preemption()
    elif translation.ending is Ending.TRUNCATED:
        work.telemetry.truncated.inc()
        work.start_afresh(worker, reason="truncated", status=502)
    else:
        body = assembler.body(
            prompt_details=work.prompt_details, token_ids=work.request.token_ids_asked
        )
        work.client.whole(200, body)
        work.passage.apply(Completed(work.counter.tokens))
        await _drain(answer)


async def pass_whole(work: Work, worker: Worker, answer: Answer) -> None:
    """Pass an answer on that no stream carries; its load grows by elapsed time over step time."""
    del worker
    started_s = work.desk.clock()
    reading = asyncio.ensure_future(answer.read())
    try:
        while not reading.done():
            await asyncio.wait([reading], timeout=GROWTH_S)
            _grow_by_time(work, started_s)
        body = reading.result()
    finally:
        reading.cancel()
    work.counter.observe(read_chunk(body))
    if work.passage.hold is not None:
        work.passage.hold.grow(work.counter.tokens - work.passage.hold.age)
    work.client.whole(200, _shown(work, body), content_type=answer.content_type)
    work.passage.apply(Completed(work.counter.tokens))


Way = Callable[[Work, Worker, Answer], Awaitable[None]]
ANSWERS: dict[Answering, Way] = {
    Answering.STREAM: forward,
    Answering.ASSEMBLE: assemble,
    Answering.WHOLE: pass_whole,
}


def _translation(work: Work, take: Take, *, quick: bool | None = None) -> Translation:
    hold = work.passage.hold
    assert hold is not None  # noqa: S101  # the table says so in this phase

    def learn_prompt(prompt_tokens: int) -> None:
        work.telemetry.prompt_tokens.inc(prompt_tokens)
        hold.correct_prompt(prompt_tokens)

    return Translation(
        take,
        work.new_counter(),
        grow=hold.grow,
        limit=work.settings.upstream.max_event_bytes,
        transcript=work.transcript,
        on_prompt=None if work.desk.has_prefill else learn_prompt,
        quick=quick,
    )


async def _send(work: Work, data: bytes) -> None:
    if work.first_byte_s is None:
        work.first_byte_s = work.desk.clock()
    if not work.client.streaming:
        await work.client.start()
    if not work.passage.life.forwarded:
        work.passage.apply(FirstByte())
    await work.client.write(data)


async def _end_stream(work: Work, worker: Worker, translation: Translation) -> None:
    rest = translation.finish()
    if translation.ending is Ending.RECOMPUTED:
        work.go_on_after_preemption()
        return
    if translation.ending is Ending.TRUNCATED:
        work.telemetry.truncated.inc()
        if not work.passage.life.forwarded:
            work.start_afresh(worker, reason="truncated", status=502)
            return
    # The replica is done with it, whether or not the client reads the end.
    done = translation.ending is Ending.DONE
    if rest:
        await _send(work, rest)
    await work.client.end()
    work.passage.apply(Completed(work.counter.tokens) if done else Failed(502, "upstream"))


def _grow_by_time(work: Work, started_s: float) -> None:
    hold, step_s, limit = work.passage.hold, work.desk.step_s, work.request.length_limit
    if hold is None or not step_s:
        return
    expected = int((work.desk.clock() - started_s) / step_s)
    hold.grow(max(0, (expected if limit is None else min(expected, limit)) - hold.age))


async def _drain(answer: Answer) -> None:
    """Wait for the answer's end, so that its connection can be used again."""
    if not answer.ended.done():
        await asyncio.wait([answer.ended], timeout=DRAIN_S)


def _shown(work: Work, body: bytes) -> bytes:
    """A whole answer without what only routers use, and with the prefill node's cached tokens."""
    details = None if work.prompt_details is None else json.dumps(work.prompt_details).encode()
    return with_prompt_details(without_transfers(body), details)


def _take_error(work: Work, worker: Worker, error: bytes) -> None:
    """Serve a request anew that the engine took and lost, as when its KV could not be fetched."""
    reply = _error_reply(error)
    if reply.status < 500 or not work.passage.life.may_start_afresh:
        raise AnswerError(reply)
    work.start_afresh(worker, reason="error_event", status=reply.status)


def _error_reply(body: bytes) -> Reply:
    """An error event that came before anything else, as the HTTP error it is."""
    try:
        code = json.loads(body)["error"].get("code")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code = None
    status = code if isinstance(code, int) and 400 <= code <= 599 else 502
    return Reply(status, "application/json", body)
