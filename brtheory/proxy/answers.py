"""Three ways from a decode stream to a client: forwarded, assembled, or whole from the node."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from enum import Enum

import aiohttp

from brtheory.proxy.assembly import Assembler
from brtheory.proxy.chunk import Chunk, read_chunk
from brtheory.proxy.editing import StreamEditor
from brtheory.proxy.events import Completed, Failed, FirstByte
from brtheory.proxy.fleet import Worker
from brtheory.proxy.json_bytes import cut_members
from brtheory.proxy.sse import SseError, SseEvent
from brtheory.proxy.translation import Ending, Take, Translation
from brtheory.proxy.upstream import Reply
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


async def forward(work: Work, worker: Worker, answer: aiohttp.ClientResponse) -> None:
    """Forward a stream as it comes; its end is told whatever it is."""
    editor = StreamEditor(work.injection, prompt_details=work.prompt_details)
    quick = editor.quick if work.request.choices == 1 else None
    translation = _translation(work, editor.edit, quick=quick)
    content = answer.content
    try:
        while data := await content.readany():
            out = translation.feed(data)
            if translation.error is not None and not work.passage.life.forwarded:
                raise AnswerError(_error_reply(translation.error))
            if out:
                await _send(work, out)
            if translation.ended():
                break
    except (aiohttp.ClientError, OSError, SseError) as error:
        if not work.passage.life.forwarded:
            raise
        work.note_failure(worker, error)
    await _end_stream(work, worker, translation)
    if work.passage.phase.final:
        await _drain(answer)


async def assemble(work: Work, worker: Worker, answer: aiohttp.ClientResponse) -> None:
    """Put a whole response together from a stream."""
    assembler = Assembler(work.request.endpoint)

    def take(event: SseEvent, chunk: Chunk) -> bytes:
        del event
        assembler.add(chunk.parsed())
        return b""

    translation = _translation(work, take)
    async for data in answer.content.iter_any():
        translation.feed(data)
        if work.first_byte_s is None and work.counter.tokens:
            work.first_byte_s = work.desk.clock()
        if translation.ended():
            break
    translation.finish()
    if translation.error is not None:
        raise AnswerError(_error_reply(translation.error))
    if translation.ending is Ending.RECOMPUTED:
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


async def pass_whole(work: Work, worker: Worker, answer: aiohttp.ClientResponse) -> None:
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
    content_type = answer.headers.get("Content-Type", "application/json")
    work.client.whole(200, cut_members(body, ("kv_transfer_params",)), content_type=content_type)
    work.passage.apply(Completed(work.counter.tokens))


Answer = Callable[[Work, Worker, aiohttp.ClientResponse], Awaitable[None]]
ANSWERS: dict[Answering, Answer] = {
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


async def _drain(answer: aiohttp.ClientResponse) -> None:
    """Read to the end, so that the connection can be used again."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in answer.content.iter_any():
                pass
    except (aiohttp.ClientError, OSError):
        answer.close()


def _error_reply(body: bytes) -> Reply:
    """An error event that came before anything else, as the HTTP error it is."""
    try:
        code = json.loads(body)["error"].get("code")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code = None
    status = code if isinstance(code, int) and 400 <= code <= 599 else 502
    return Reply(status, "application/json", body)
