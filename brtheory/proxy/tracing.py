"""OpenTelemetry spans of a request: itself, prefill, pool wait, bind, decode (extra ``otel``).

The client's W3C ``traceparent`` is the request's parent, and each leg gets the one of its own span,
so that spans of the engines lie inside. Spans follow the lifecycle's phases; ending one only puts
it in line: a thread of its own sends them to the collector.
"""

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from brtheory.proxy.lifecycle import Phase
from brtheory.proxy.settings import TracingSettings

NAMES = {
    Phase.QUEUED: "queue",
    Phase.PREFILLING: "prefill",
    Phase.POOLED: "pool wait",
    Phase.CONNECTING: "bind",
    Phase.DECODING: "decode",
}
"""Streaming goes on in decode's span."""
_PROPAGATOR = TraceContextTextMapPropagator()
Attribute = str | int | float | bool


class Tracing:
    """Makes the traces of a proxy.

    Parameters
    ----------
    settings
        Where spans go, under which name, and how many.

    Attributes
    ----------
    provider
        Takes further span processors.
    """

    def __init__(self, settings: TracingSettings) -> None:
        self.provider = TracerProvider(
            resource=Resource.create({"service.name": settings.service_name}),
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        )
        exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=settings.timeout_s)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer("brtheory.proxy")

    def begin(self, name: str, *, headers: Mapping[str, str], request_id: str) -> "RequestTrace":
        """The trace of a request that has come in, under the client's span if it names one."""
        carrier = {name.lower(): value for name, value in headers.items()}
        parent = _PROPAGATOR.extract(carrier)
        attributes = {"brtheory.request_id": request_id}
        span = self._tracer.start_span(
            name, context=parent, kind=SpanKind.SERVER, attributes=attributes
        )
        return RequestTrace(self, span)

    def child(self, name: str, context: Context) -> Span:
        """A span of a leg or a wait."""
        return self._tracer.start_span(name, context=context, kind=SpanKind.CLIENT)

    def close(self) -> None:
        """Send what is left; waits for the collector no longer than ``timeout_s``."""
        self.provider.shutdown()


class RequestTrace:
    """Spans of one request.

    Parameters
    ----------
    tracing
        Makes its children.
    root
        The request's own span.
    """

    def __init__(self, tracing: Tracing, root: Span) -> None:
        self._tracing = tracing
        self._root = root
        self._context = set_span_in_context(root)
        self._child: Span | None = None

    def enter(self, phase: Phase) -> None:
        """The request has entered a phase: the span of the one before ends."""
        if phase is Phase.STREAMING:
            if self._child is not None:
                self._child.add_event("first byte")
            return
        self._end_child(failed=phase is Phase.FAILED)
        if phase in NAMES:
            self._child = self._tracing.child(NAMES[phase], self._context)

    def note(self, **attributes: Attribute) -> None:
        """Say something of the phase it is in."""
        if self._child is not None:
            self._child.set_attributes({f"brtheory.{k}": v for k, v in attributes.items()})

    def headers(self) -> dict[str, str]:
        """``traceparent`` and ``tracestate`` of the phase it is in, for a leg."""
        carrier: dict[str, str] = {}
        context = self._context if self._child is None else set_span_in_context(self._child)
        _PROPAGATOR.inject(carrier, context)
        return carrier

    def end(self, status: int) -> None:
        """The request has been answered."""
        self._end_child(failed=False)
        self._root.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._root.set_status(Status(StatusCode.ERROR))
        self._root.end()

    def _end_child(self, *, failed: bool) -> None:
        if self._child is not None:
            if failed:
                self._child.set_status(Status(StatusCode.ERROR))
            self._child.end()
            self._child = None
