"""What one request carries through its legs: shared services, the passage, and what was learned."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brtheory.proxy.client import ClientSide
from brtheory.proxy.continuation import Transcript, continued
from brtheory.proxy.counting import TokenCounter
from brtheory.proxy.desk import Desk
from brtheory.proxy.events import Event, KvSpent, PrefillFailed, Recomputed
from brtheory.proxy.faults import RequestError
from brtheory.proxy.fleet import Worker
from brtheory.proxy.headers import upstream_headers
from brtheory.proxy.openai import ClientRequest, Injection, injection_for
from brtheory.proxy.passage import Passage
from brtheory.proxy.settings import Settings
from brtheory.proxy.telemetry import Telemetry
from brtheory.proxy.upstream import Reply, Upstream
from brtheory.proxy.wire import ExhaustedError, LostError, UnreachableError

if TYPE_CHECKING:
    from brtheory.proxy.tracing import RequestTrace, Tracing

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Services:
    """What all requests share; ``look`` asks for a probe of suspect workers, now."""

    settings: Settings
    desk: Desk
    upstream: Upstream
    telemetry: Telemetry
    tracing: "Tracing | None" = None
    look: asyncio.Event = field(default_factory=asyncio.Event)


class AnswerError(Exception):
    """An answer of a node that goes to the client as it is: status, body and content type."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(str(reply.status))
        self.reply = reply


class Work:
    """One request at work.

    Parameters
    ----------
    services
        Shared.
    request
        The client's; ``passage.request`` differs from it after a preemption.
    client
        Where the answer goes.
    headers
        The client's headers.
    trace
        Its spans, None where tracing is off.

    Attributes
    ----------
    kv
        ``kv_transfer_params`` for decode, None once they are used.
    prompt_details
        ``usage.prompt_tokens_details`` of the prefill answer.
    counter
        Of the present decode leg.
    attempt
        Counts prefills of this request.
    """

    def __init__(
        self,
        services: Services,
        request: ClientRequest,
        client: ClientSide,
        headers: Mapping[str, str],
        *,
        trace: "RequestTrace | None" = None,
    ) -> None:
        self.settings = services.settings
        self.desk = services.desk
        self.upstream = services.upstream
        self.telemetry = services.telemetry
        self.look = services.look
        self.request = request
        self.client = client
        self.woken = asyncio.Event()
        self.trace = trace
        self.passage = Passage(
            services.desk,
            request,
            wake=self.woken.set,
            on_phase=None if trace is None else trace.enter,
        )
        if trace is not None:
            trace.enter(self.passage.phase)
        self.kv: Any = None
        self.prompt_details: Any = None
        self.transcript = Transcript() if services.desk.connector.min_tokens else None
        self.replica: str | None = None
        self.first_byte_s: float | None = None
        self.attempt = 1
        self._headers = headers
        self.counter = self.new_counter()

    @property
    def injection(self) -> Injection:
        """What to ask decode for beyond the client's wish."""
        upstream = self.settings.upstream
        return injection_for(self.request, usage=upstream.usage, token_ids=upstream.token_ids)

    @property
    def attempt_id(self) -> str:
        """The request id of this attempt's legs."""
        first = self.client.request_id
        return first if self.attempt == 1 else f"{first}-{self.attempt}"

    def new_counter(self) -> TokenCounter:
        """Count anew, for another decode leg."""
        self.counter = TokenCounter(
            self.desk.ratio, choices=self.request.choices, logprobs=self.request.logprobs_asked
        )
        return self.counter

    def leg_headers(self, *, rank: int | None) -> dict[str, str]:
        """Headers of a leg."""
        key = self.settings.upstream.api_key
        headers = upstream_headers(
            self._headers,
            request_id=self.attempt_id,
            api_key=None if key is None else key.get_secret_value(),
            rank=rank,
        )
        return headers if self.trace is None else headers | self.trace.headers()

    def note_failure(self, worker: Worker, error: BaseException) -> None:
        """Count a failure; only a connection that the node did not take counts against it.

        After one that is lost the node gets no request until a probe, made at once, finds it well:
        a process that was killed may seem to take connections as long as a child of it lives.
        """
        self.telemetry.upstream_errors.labels(worker.role, type(error).__name__).inc()
        log.warning("%s %s: %s", worker.role, worker.name, error or type(error).__name__)
        if isinstance(error, LostError):
            self.desk.fleet.suspect(worker)
            self.look.set()
        refused = isinstance(error, UnreachableError) and not isinstance(error, ExhaustedError)
        if refused and worker.health.failed(str(error)):
            log.warning("%s %s is down: %s", worker.role, worker.name, error)
            self.desk.on_change()

    def back_in_line(self, event: Event | None, *, leg: str, reason: str) -> None:
        """Try again from the line's front after ``event``, under a new id.

        Nodes may still know the old one, and refuse or crash on an id used twice.
        """
        self.attempt += 1
        self.telemetry.retries.labels(leg, reason).inc()
        if event is not None:
            self.passage.apply(event)
        self.passage.queue()

    def another_node(self, worker: Worker, *, reason: str, status: int) -> None:
        """Prefill on another node.

        Raises
        ------
        RequestError
            If that has been tried often enough.
        """
        if not self.passage.life.may_try_another_node:
            raise RequestError(
                status,
                "no prefill node could compute the prompt",
                code="prefill_failed",
                retry_after_s=1,
            )
        self.back_in_line(PrefillFailed(worker.name, reason), leg="prefill", reason=reason)

    def start_afresh(self, worker: Worker, *, reason: str, status: int) -> None:
        """Prefill again: the KV may be used up, and nothing has been forwarded.

        Raises
        ------
        RequestError
            If that has been tried, or something has been forwarded.
        """
        if not self.passage.life.may_start_afresh:
            raise RequestError(
                status,
                "the decode replica failed",
                code="decode_failed",
                retry_after_s=1 if status == 503 else None,
            )
        self.back_in_line(KvSpent(worker.name, reason), leg="decode", reason=reason)

    def go_on_after_preemption(self) -> None:
        """Prefill again with the text so far.

        Raises
        ------
        RequestError
            If the text does not say all.
        """
        self.telemetry.recomputed.inc()
        transcript = self.transcript
        if transcript is None or not transcript.may_continue(self.request):
            raise RequestError(
                502, "the engine preempted a request that cannot be continued", code="preempted"
            )
        transcript.tokens += self.counter.tokens
        self.passage.apply(Recomputed())
        self.passage.request = continued(self.request, transcript)
        self.back_in_line(None, leg="decode", reason="preempted")
