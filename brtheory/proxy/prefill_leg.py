"""The prefill leg: one token from a prefill node, for the sake of the KV it leaves there."""

import json
from typing import Any

from brtheory.proxy.connectors import MissingKvError, Source
from brtheory.proxy.events import PrefillDone
from brtheory.proxy.faults import RequestError
from brtheory.proxy.fleet import Worker
from brtheory.proxy.health import counts_against
from brtheory.proxy.openai import prefill_body
from brtheory.proxy.upstream import Reply
from brtheory.proxy.wire import BrokenError, UnreachableError
from brtheory.proxy.work import AnswerError, Work


async def prefill(work: Work) -> None:
    """Send the leg to the node the passage has chosen, and report what came of it.

    Raises
    ------
    AnswerError
        If the node refuses the request: its answer is the client's.
    RequestError
        If no node could compute the prompt, or the KV parameters are missing.
    """
    worker = work.desk.fleet.find(work.passage.node or "")
    source, rank = _source(work, worker)
    started_s = work.desk.clock()
    try:
        reply = await work.upstream.post(
            worker.url + work.request.endpoint.value,
            prefill_body(
                work.passage.request,
                kv_params=work.desk.connector.prefill_params(source),
                min_tokens=work.desk.connector.min_tokens,
            ),
            headers=work.leg_headers(rank=rank),
            timeout_s=work.settings.upstream.prefill_s,
        )
    except (UnreachableError, BrokenError) as error:
        work.note_failure(worker, error)
        work.another_node(worker, reason=type(error).__name__, status=502)
        return
    work.telemetry.prefill_s.observe(work.desk.clock() - started_s)
    if counts_against(reply.status) and work.passage.life.may_try_another_node:
        work.another_node(worker, reason=str(reply.status), status=reply.status)
    elif reply.status != 200:
        raise AnswerError(reply)
    else:
        _accept(work, worker, reply, source)


def _source(work: Work, worker: Worker) -> tuple[Source, int | None]:
    """Name the transfer and, where engines are known, the rank that will hold it."""
    engine = worker.next_engine()
    transfer = f"xfer-{work.attempt_id}"
    if engine is None:
        return Source(transfer, worker.bootstrap_url), worker.rank
    return Source(transfer, worker.bootstrap_url, engine[1]), engine[0]


def _accept(work: Work, worker: Worker, reply: Reply, source: Source) -> None:
    try:
        answer = json.loads(reply.body)
        usage = answer["usage"]
        prompt_tokens = max(1, int(usage["prompt_tokens"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        work.another_node(worker, reason="unreadable", status=502)
        return
    work.kv = _kv_params(work, answer, source)
    if work.transcript is None or work.transcript.tokens == 0:
        # After a preemption decode's text is part of the prompt: the first account stands.
        work.prompt_details = usage.get("prompt_tokens_details")
        work.telemetry.prompt_tokens.inc(prompt_tokens)
    work.passage.apply(PrefillDone(worker.name, prompt_tokens))


def _kv_params(work: Work, answer: Any, source: Source) -> Any:
    """Parameters for decode; without them decode would silently compute the prompt again."""
    try:
        return work.desk.connector.decode_params(answer.get("kv_transfer_params"), source)
    except MissingKvError:
        work.telemetry.missing_kv.inc()
        if work.settings.connector.on_missing == "fail":
            raise RequestError(
                502, "prefill returned no KV parameters", code="kv_missing"
            ) from None
    return None
