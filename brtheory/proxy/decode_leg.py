"""The decode leg: open it, learn its status, and only then let anything reach the client."""

from brtheory.proxy.answers import ANSWERS, Answering
from brtheory.proxy.events import ConnectFailed, DecodeOpened
from brtheory.proxy.faults import RequestError
from brtheory.proxy.fleet import Worker
from brtheory.proxy.health import counts_against
from brtheory.proxy.openai import decode_body
from brtheory.proxy.sse import SseError
from brtheory.proxy.upstream import whole
from brtheory.proxy.wire import Answer, BrokenError, UnreachableError
from brtheory.proxy.work import AnswerError, Work


async def decode(work: Work) -> None:
    """Send the leg to the replica the request is bound to, and answer the client from it.

    Raises
    ------
    AnswerError
        If the replica refuses the request: its answer is the client's.
    RequestError
        If it failed and nothing may be tried again.
    """
    hold = work.passage.hold
    assert hold is not None  # noqa: S101  # the table says so in this phase
    worker = work.desk.fleet.find(hold.replica)
    work.replica = worker.name
    if work.trace is not None:
        work.trace.note(replica=worker.name, prompt_tokens=work.passage.prompt_tokens)
    way = _way(work)
    body = decode_body(
        work.passage.request,
        kv_params=work.kv,
        injection=work.injection,
        stream=way is not Answering.WHOLE,
    )
    kv, work.kv = work.kv, None  # sent now, so never again unless the node has not seen it
    try:
        async with work.upstream.stream(
            worker.url + work.request.endpoint.value,
            body,
            headers=work.leg_headers(rank=worker.header_rank),
            paused=work.client.is_writing,
        ) as answer:
            await _check_status(work, worker, answer)
            if answer.status == 200:
                work.passage.apply(DecodeOpened(worker.name))
                await ANSWERS[way](work, worker, answer)
    except UnreachableError as error:
        work.note_failure(worker, error)
        work.kv = kv
        _another_replica(work, worker)
    except (BrokenError, SseError) as error:
        work.note_failure(worker, error)
        work.start_afresh(worker, reason="broken", status=502)


def _way(work: Work) -> Answering:
    if work.request.stream:
        return Answering.STREAM
    # Where engines preempt, only a stream tells.
    parsed = work.request.may_call_tools and work.transcript is None
    return Answering.WHOLE if parsed or work.request.whole_only else Answering.ASSEMBLE


async def _check_status(work: Work, worker: Worker, answer: Answer) -> None:
    """Pass errors on, or prefill again where the node, not the request, is at fault."""
    if answer.status == 200:
        return
    if counts_against(answer.status) and work.passage.life.may_start_afresh:
        work.start_afresh(worker, reason=str(answer.status), status=answer.status)
        return
    raise AnswerError(await whole(answer))


def _another_replica(work: Work, worker: Worker) -> None:
    """The node has not seen the request, so its KV is unused and may go to another replica."""
    if not work.passage.life.may_bind_again:
        raise RequestError(
            502, "no decode replica could be reached", code="decode_failed", retry_after_s=1
        )
    work.telemetry.retries.labels("decode", "unreachable").inc()
    work.passage.apply(ConnectFailed(worker.name))
