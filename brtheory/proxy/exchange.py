"""One request from line to last byte: awaits what the lifecycle needs next.

Every exit, the task's cancellation included, ends in a final phase, so every book is closed once.
"""

import asyncio
import logging

from brtheory.proxy.client import ClientGoneError
from brtheory.proxy.decode_leg import decode
from brtheory.proxy.events import ClientLeft, Event, Failed
from brtheory.proxy.faults import RequestError
from brtheory.proxy.lifecycle import Phase
from brtheory.proxy.prefill_leg import prefill
from brtheory.proxy.translation import interruption
from brtheory.proxy.work import AnswerError, Work

log = logging.getLogger(__name__)


async def serve(work: Work) -> None:
    """Serve a request, answer it and close its books.

    Raises
    ------
    asyncio.CancelledError
        If the client left; the books are closed then too.
    """
    started_s = work.desk.clock()
    try:
        await _through_all_phases(work)
    except RequestError as error:
        await _fail(work, error)
    except AnswerError as error:
        _pass_on(work, error)
    except ClientGoneError:
        _leave(work)
    except asyncio.CancelledError:
        if not work.client.cut_off:
            _leave(work)
            raise
        await _fail(work, RequestError(503, "the proxy shuts down", code="draining"))
    except Exception:
        log.exception("request %s failed", work.client.request_id)
        await _fail(work, RequestError(500, "the proxy failed", code="internal"))
    finally:
        _end(work, Failed(500, "unfinished"))
        _account(work, started_s)


async def _through_all_phases(work: Work) -> None:
    passage = work.passage
    passage.queue()
    while not passage.phase.final:
        if passage.phase is Phase.QUEUED:
            await _through_the_gate(work)
        elif passage.phase is Phase.PREFILLING:
            await prefill(work)
        elif passage.phase is Phase.POOLED:
            await _out_of_the_pool(work)
        else:
            await decode(work)


async def _through_the_gate(work: Work) -> None:
    entered_s = work.desk.clock()
    try:
        async with asyncio.timeout(work.settings.pool.queue_s):
            await _while_in(work, Phase.QUEUED)
    except TimeoutError:
        raise RequestError(
            503,
            "no capacity became free in time",
            code="queue_timeout",
            retry_after_s=work.desk.gate.retry_after_s(),
        ) from None
    work.telemetry.queue_s.observe(work.desk.clock() - entered_s)


async def _out_of_the_pool(work: Work) -> None:
    entered_s = work.desk.clock()
    await _while_in(work, Phase.POOLED)
    waited_s = work.desk.clock() - entered_s
    work.telemetry.pool_s.observe(waited_s)
    work.telemetry.recent_pool_s.add(waited_s)
    if work.passage.phase is Phase.QUEUED:
        work.kv = None
        work.back_in_line(None, leg="prefill", reason="lease_expired")
    elif work.passage.phase is Phase.FAILED:
        raise RequestError(
            503, "no decode replica became free in time", code="pool_timeout", retry_after_s=1
        )


async def _while_in(work: Work, phase: Phase) -> None:
    while work.passage.phase is phase:
        work.woken.clear()
        await work.woken.wait()


async def _fail(work: Work, error: RequestError) -> None:
    """Answer with an error; a stream that has begun gets an error event and ``[DONE]``."""
    _end(work, Failed(error.status, error.code or "refused"))
    if not work.client.streaming:
        work.client.fail(error)
        return
    try:
        await work.client.write(
            interruption(error.message, status=error.status, code=error.code or "failed")
        )
        await work.client.end()
    except ClientGoneError:
        log.debug("client of %s left before its error", work.client.request_id)


def _pass_on(work: Work, error: AnswerError) -> None:
    reply = error.reply
    _end(work, Failed(reply.status, "upstream"))
    retry = {} if reply.retry_after is None else {"Retry-After": reply.retry_after}
    work.client.whole(reply.status, reply.body, content_type=reply.content_type, headers=retry)


def _leave(work: Work) -> None:
    work.telemetry.cancelled.labels(work.passage.phase.value).inc()
    _end(work, ClientLeft())


def _end(work: Work, event: Event) -> None:
    if not work.passage.phase.final:
        work.passage.apply(event)


def _account(work: Work, started_s: float) -> None:
    telemetry, endpoint = work.telemetry, work.request.endpoint.name.lower()
    now_s = work.desk.clock()
    telemetry.request_s.labels(endpoint).observe(now_s - started_s)
    if work.counter.source is not None:
        telemetry.sources.labels(work.counter.source.value).inc()
        telemetry.corrections.inc(work.counter.corrected)
    if work.first_byte_s is not None:
        telemetry.ttft_s.labels(endpoint).observe(work.first_byte_s - started_s)
        telemetry.recent_ttft_s.add(work.first_byte_s - started_s)
        if work.counter.tokens > 1:
            step_s = (now_s - work.first_byte_s) / (work.counter.tokens - 1)
            telemetry.tpot_s.labels(endpoint).observe(step_s)
            telemetry.recent_tpot_s.add(step_s)
            work.desk.learn_step(step_s)
