"""An answer as it goes over the wire, and where a fault strikes it; no sockets here."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from brtheory.emulator.call import Call
from brtheory.emulator.faults import STREAM_FAULTS, FaultRule
from brtheory.emulator.piece import Json, Piece
from brtheory.emulator.session import Session
from brtheory.emulator.shapes import FINGERPRINT, Envelope, to_bytes
from brtheory.errors import BrtheoryError

RECOMPUTED = "recomputed"
FINAL_FAULTS = frozenset({"death", "truncate", "error_event"})
"""Faults that also strike an answer of exactly ``after_tokens`` tokens, before it is closed."""


class FaultStruckError(BrtheoryError):
    """The answer ends here, in the way of the fault."""

    def __init__(self, rule: FaultRule) -> None:
        super().__init__(rule.kind)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Reply:
    """One request with everything its answer needs.

    Parameters
    ----------
    call, session, envelope
        What was asked, who answers, and the frame of the answer.
    fault
        What it suffers, None if nothing.
    pause
        Waits so many seconds, for ever with None.
    """

    call: Call
    session: Session
    envelope: Envelope
    fault: FaultRule | None
    pause: Callable[[float | None], Awaitable[None]]


async def stream_chunks(reply: Reply) -> AsyncGenerator[bytes]:
    """Yield the JSON text of every chunk.

    Raises
    ------
    FaultStruckError
        Where a fault cuts the answer.
    ApiError
        Where the engine fails.
    """
    async with aclosing(_struck(reply)) as pieces:
        async for piece in pieces:
            for opening in _openings(reply, piece):
                yield to_bytes(opening)
            if piece.tokens or piece.finish_reason is not None:
                reply.session.usage.count(piece)
                yield to_bytes(_chunk(reply, piece))
    if reply.call.include_usage:
        usage = reply.session.usage.total()
        yield to_bytes(reply.envelope.chunk([], usage=usage, system_fingerprint=FINGERPRINT))


async def whole_answer(reply: Reply) -> bytes:
    """The JSON text of the whole answer.

    Raises
    ------
    FaultStruckError, ApiError
        As ``stream_chunks``.
    """
    last: dict[int, Piece] = {}
    async with aclosing(_struck(reply)) as pieces:
        async for piece in pieces:
            reply.session.usage.count(piece)
            last[piece.plan.index] = piece
    answers = [replace(last[index], start=0) for index in sorted(last)]
    shape = reply.envelope.shape
    params = reply.session.kv_transfer_params
    hidden = reply.fault is not None and reply.fault.kind == "no_kv_params"
    return to_bytes(
        reply.envelope.full(
            [shape.full(piece) for piece in answers],
            usage=reply.session.usage.total(),
            kv=None if hidden else params,
            **shape.prompt_ids(answers[0].plan),
        )
    )


def _openings(reply: Reply, piece: Piece) -> list[Json]:
    """Chunks before a choice's first token."""
    if piece.start:
        return []
    shape = reply.envelope.shape
    extra = shape.prompt_ids(piece.plan)
    usage = _running_usage(reply, piece)
    return [
        reply.envelope.chunk([choice], usage=usage, **extra)
        for choice in shape.openings(piece.plan)
    ]


def _chunk(reply: Reply, piece: Piece) -> Json:
    choice = reply.envelope.shape.chunk(piece)
    chunk = reply.envelope.chunk([choice], usage=_running_usage(reply, piece))
    if piece.finish_reason is not None and not reply.call.include_usage:
        chunk["system_fingerprint"] = FINGERPRINT
    return chunk


def _running_usage(reply: Reply, piece: Piece) -> Json | None:
    if not reply.call.continuous_usage:
        return None
    return reply.session.usage.of(piece.plan)


async def _struck(reply: Reply) -> AsyncGenerator[Piece]:
    """The session's pieces, up to where the fault strikes."""
    fault, sent = reply.fault, 0
    if fault is None or fault.kind not in STREAM_FAULTS:
        fault = None
    async with aclosing(reply.session.pieces()) as pieces:
        async for piece in pieces:
            if fault is not None and sent + piece.tokens > fault.after_tokens:
                if fault.kind == RECOMPUTED:
                    yield replace(
                        piece, end=piece.start, finish_reason="stop", stop_reason=RECOMPUTED
                    )
                    return
                if fault.kind == "error_event" and not sent:
                    # vLLM opens the answer before it looks whether there is one.
                    yield replace(piece, end=piece.start, finish_reason=None)
                await _strike(reply, fault)
                fault = None
            sent += piece.tokens
            yield piece
    if fault is not None and fault.kind in FINAL_FAULTS and sent >= fault.after_tokens:
        raise FaultStruckError(fault)


async def _strike(reply: Reply, fault: FaultRule) -> None:
    if fault.kind != "stall":
        raise FaultStruckError(fault)
    await reply.pause(fault.delay_s)
