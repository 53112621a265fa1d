"""The two completion endpoints of one server, from request to answer."""

import asyncio
import hmac
from weakref import WeakKeyDictionary

from aiohttp import web

from brtheory.emulator.answers import (
    cut,
    error_response,
    fault_response,
    send_stream,
    send_whole,
)
from brtheory.emulator.body import parse_call
from brtheory.emulator.call import ApiError, Call, Limits
from brtheory.emulator.deployment import Deployment, Received
from brtheory.emulator.faults import FaultRule, Site
from brtheory.emulator.nodes import Node
from brtheory.emulator.session import Session
from brtheory.emulator.shapes import Envelope, shape_of
from brtheory.emulator.transcript import Reply

RANK_HEADER = "X-data-parallel-rank"
REQUEST_ID_HEADER = "X-Request-Id"
OUTPUT_HEADER = "x-emulator-output-tokens"
PROMPT_HEADER = "x-emulator-prompt-tokens"
DEFAULT_DELAY_S = 1.0
LONGEST_REQUEST_ID = 512


class Completions:
    """Serves completions of one node.

    Parameters
    ----------
    node
        Who answers.
    deployment
        Shared state.
    """

    def __init__(self, node: Node, deployment: Deployment) -> None:
        self._node = node
        self._deployment = deployment
        self._limits = Limits(deployment.config.model, deployment.config.max_model_len)
        self._served: WeakKeyDictionary[asyncio.Transport, int] = WeakKeyDictionary()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        return await self._serve(request, chat=True)

    async def text(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/completions."""
        return await self._serve(request, chat=False)

    def site(self, request: web.Request, rank: int | None = None) -> Site:
        """The request as fault rules see it; counts it on its connection."""
        transport = request.transport
        served = 0 if transport is None else self._served.get(transport, 0)
        if transport is not None:
            self._served[transport] = served + 1
        return Site(self._node.role, self._node.name, request.path, rank, reused=served > 0)

    async def _serve(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        data = await request.read()
        self._remember(request, data)
        headers: dict[str, str] = {}
        try:
            request_id = self._request_id(request)
            headers[REQUEST_ID_HEADER] = request_id
            authorise(request, self._deployment.config.api_key)
            rank = self._node.pick_rank(request.headers.get(RANK_HEADER))
            fault = self._deployment.faults.take(self.site(request, rank))
            early = None if fault is None else await self.suffer(request, fault)
            if early is not None:
                return early
            call = parse_call(
                data,
                chat=chat,
                limits=self._limits,
                output_tokens=request.headers.get(OUTPUT_HEADER),
                prompt_tokens=request.headers.get(PROMPT_HEADER),
            )
            with self._node.hold(request_id):
                session = self._node.open(call, request_id=request_id, rank=rank)
                reply = self._reply(call, session, request_id, fault=fault)
                send = send_stream if call.stream else send_whole
                return await send(request, reply, headers=headers)
        except ApiError as error:
            return error_response(error, headers=headers)
        except ConnectionError:  # the client went while something was written to it
            return cut(request)

    async def suffer(self, request: web.Request, fault: FaultRule) -> web.Response | None:
        """Play a fault that strikes before the request is read; None where it goes on."""
        if fault.kind in {"reset", "reset_reused"}:
            return cut(request)
        if fault.kind in {"status", "empty"}:
            return fault_response(fault, headers={})
        if fault.kind == "slow_start":
            delay_s = DEFAULT_DELAY_S if fault.delay_s is None else fault.delay_s
            await self._deployment.clock.sleep(delay_s)
        return None

    def _request_id(self, request: web.Request) -> str:
        given = request.headers.get(REQUEST_ID_HEADER)
        if given is None:
            return self._deployment.new_request_id()
        if not 0 < len(given) <= LONGEST_REQUEST_ID or not (
            given.isascii() and given.isprintable()
        ):
            raise ApiError(400, f"{REQUEST_ID_HEADER}: 1 to {LONGEST_REQUEST_ID} printable ASCII")
        return given

    def _reply(
        self, call: Call, session: Session, request_id: str, *, fault: FaultRule | None
    ) -> Reply:
        envelope = Envelope(
            shape_of(call, request_id),
            request_id,
            self._limits.model,
            int(self._deployment.clock.unix()),
        )
        return Reply(call, session, envelope, fault, self._pause)

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await self._deployment.clock.sleep(seconds)

    def _remember(self, request: web.Request, data: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self._deployment.received.append(
            Received(self._node.name, request.path, headers, data.decode(errors="replace"))
        )


def authorise(request: web.Request, api_key: str | None) -> None:
    """Check the bearer token where one is required.

    Raises
    ------
    ApiError
        401 if it is not the key.
    """
    if api_key is None:
        return
    given = request.headers.get("Authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {api_key}".encode()):
        raise ApiError(401, "Unauthorized", kind="AuthenticationError")
