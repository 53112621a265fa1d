"""Answers written to sockets: streams, whole bodies, errors, and how each can go wrong."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from aiohttp import web

from brtheory.emulator.call import ApiError
from brtheory.emulator.faults import FaultRule
from brtheory.emulator.shapes import to_bytes
from brtheory.emulator.transcript import FaultStruckError, Reply, stream_chunks, whole_answer

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON_TYPE = "application/json"
DONE = b"[DONE]"
ODD_PIECE_BYTES = 7
EMULATED_ERROR = ApiError(500, "emulated engine error", kind="InternalServerError")


async def send_stream(
    request: web.Request, reply: Reply, *, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send an answer as server-sent events; the headers go out at once, as with vLLM."""
    response = web.StreamResponse(headers={**headers, "Content-Type": EVENT_STREAM})
    await response.prepare(request)
    odd = reply.fault is not None and reply.fault.kind == "odd_framing"
    try:
        async with aclosing(stream_chunks(reply)) as chunks:
            await _send_events(response, chunks, odd=odd)
    except FaultStruckError as struck:
        if struck.rule.kind == "death":
            return cut(request)
        if struck.rule.kind == "error_event":
            await _send_error(response, EMULATED_ERROR)
    except ApiError as error:
        await _send_error(response, error)
    else:
        await _send(response, DONE, odd=odd)
    await response.write_eof()
    return response


async def send_whole(
    request: web.Request, reply: Reply, *, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send an answer as one JSON body.

    Raises
    ------
    ApiError
        Where the engine, or a fault, makes it an error.
    """
    try:
        body = await whole_answer(reply)
    except FaultStruckError as struck:
        if struck.rule.kind == "error_event":
            raise EMULATED_ERROR from struck
        if struck.rule.kind == "truncate":
            return await _send_half(request, headers=headers)
        return cut(request)
    return web.Response(body=body, headers=headers, content_type=JSON_TYPE)


def error_response(error: ApiError, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """The error object with its status."""
    return web.Response(
        status=error.status,
        body=to_bytes(error.to_json()),
        headers=headers,
        content_type=JSON_TYPE,
    )


def fault_response(rule: FaultRule, *, headers: Mapping[str, str]) -> web.Response:
    """The answer of a ``status`` or ``empty`` fault."""
    if rule.kind == "empty":
        return web.Response(headers={**headers, "Content-Type": EVENT_STREAM})
    extra = {} if rule.retry_after is None else {"Retry-After": rule.retry_after}
    default = ApiError(rule.status, f"emulated status {rule.status}", kind="InternalServerError")
    body = to_bytes(default.to_json()) if rule.body is None else rule.body.encode()
    kind = {"Content-Type": rule.content_type}
    return web.Response(status=rule.status, body=body, headers={**headers, **extra, **kind})


def cut(request: web.Request) -> web.Response:
    """Cut the connection without another byte."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _send_events(
    response: web.StreamResponse, chunks: AsyncGenerator[bytes], *, odd: bool
) -> None:
    async for chunk in chunks:
        await _send(response, chunk, odd=odd)


async def _send(response: web.StreamResponse, data: bytes, *, odd: bool) -> None:
    if not odd:
        await response.write(b"data: " + data + b"\n\n")
        return
    event = b": keep-alive\r\n\r\nevent: message\r\ndata:" + data + b"\r\n\r\n"
    for start in range(0, len(event), ODD_PIECE_BYTES):
        await response.write(event[start : start + ODD_PIECE_BYTES])


async def _send_error(response: web.StreamResponse, error: ApiError) -> None:
    await _send(response, to_bytes(error.to_json()), odd=False)
    await _send(response, DONE, odd=False)


async def _send_half(request: web.Request, *, headers: Mapping[str, str]) -> web.StreamResponse:
    """Send half of what the headers promise, then cut."""
    half = b'{"id":"'
    response = web.StreamResponse(headers={**headers, "Content-Type": JSON_TYPE})
    response.content_length = 2 * len(half)
    await response.prepare(request)
    await response.write(half)
    return cut(request)
