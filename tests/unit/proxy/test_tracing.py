"""OpenTelemetry: one trace a request, legs inside it, nothing where it is off or not installed."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from brtheory.errors import MissingExtraError
from brtheory.proxy.proxy import make_tracing
from brtheory.proxy.settings import TracingSettings
from tests.unit.proxy.engines import Stack, answer, asynchronous, stack, until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Address and bodies of a collector of spans."""
    bodies: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response(body=b"", content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"{site.name}/v1/traces", bodies
    finally:
        await runner.cleanup()


def remembered(s: Stack) -> InMemorySpanExporter:
    """Spans of the stack as they end."""
    exporter = InMemorySpanExporter()
    tracing = s.running.proxy.tracing
    assert tracing is not None
    tracing.provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


async def finished(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """Spans by name, once the request's own has ended."""
    await until(lambda: any(span.name.startswith("POST") for span in exporter.get_finished_spans()))
    return {span.name: span for span in exporter.get_finished_spans()}


@asynchronous
async def test_a_request_is_one_trace_of_its_phases_and_the_legs_lie_inside_their_spans() -> None:
    async with collector() as (endpoint, bodies):
        async with stack(f"tracing.endpoint={endpoint}") as s:
            exporter = remembered(s)
            url, headers = f"{s.url}/v1/completions", {"traceparent": TRACEPARENT}
            body = {"prompt": "hello", "stream": True}
            async with s.http.post(url, json=body, headers=headers) as reply:
                assert (await reply.text()).endswith("data: [DONE]\n\n")
            spans = await finished(exporter)
            names = ["queue", "prefill", "pool wait", "bind", "decode", "POST /v1/completions"]
            assert [span.name for span in exporter.get_finished_spans()] == names
            root = spans["POST /v1/completions"]
            assert root.parent is not None
            assert f"{root.parent.span_id:016x}" == PARENT
            assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {TRACE}
            assert root.attributes is not None
            assert root.attributes["http.response.status_code"] == 200
            ends = [spans[name].end_time or 0 for name in names[:-1]]
            starts = [spans[name].start_time or 0 for name in names[:-1]]
            # Phases follow one another without overlap.
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
            for engine, name in ((s.prefills[0], "prefill"), (s.decodes[0], "bind")):
                told = engine.seen[0].headers["traceparent"]
                assert told == f"00-{TRACE}-{spans[name].context.span_id:016x}-01"
        # What was not yet sent is sent when the proxy stops.
        assert b"pool wait" in b"".join(bodies)


@asynchronous
async def test_failures_are_marked_and_every_span_ends() -> None:
    async with collector() as (endpoint, _), stack(f"tracing.endpoint={endpoint}") as s:
        exporter = remembered(s)
        s.decodes[0].behave = answer(500, "{}")
        assert (await s.generate())[0] == 500
        spans = await finished(exporter)
        assert not spans["bind"].status.is_ok
        assert not spans["POST /v1/completions"].status.is_ok
        assert spans["prefill"].status.is_unset


@asynchronous
async def test_a_collector_that_is_not_there_harms_no_request() -> None:
    async with stack("tracing.endpoint=http://127.0.0.1:9/v1/traces", "tracing.timeout_s=0.2") as s:
        assert (await s.generate())[0] == 200


@asynchronous
async def test_without_tracing_the_clients_traceparent_passes_as_it_is() -> None:
    async with stack() as s:
        assert s.running.proxy.tracing is None
        url, headers = f"{s.url}/v1/completions", {"traceparent": TRACEPARENT}
        async with s.http.post(url, json={"prompt": "x"}, headers=headers) as reply:
            assert reply.status == 200
        assert s.decodes[0].seen[0].headers["traceparent"] == TRACEPARENT


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name.startswith("opentelemetry") else real(name, package)

    monkeypatch.setattr("brtheory.proxy.proxy.find_spec", without)
    assert make_tracing(TracingSettings()) is None
    with pytest.raises(MissingExtraError, match=r"tracing\.endpoint.*brtheory\[otel\]"):
        make_tracing(TracingSettings(endpoint="http://collector:4318/v1/traces"))
