"""Load for the demo: so many requests of a trace are always on their way, streamed and read."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from brtheory.traces.schema import Trace

PAUSE_S = 0.25
"""After a failure, so that a client does not spin."""


@dataclass
class LoadCounts:
    """What the clients saw: answers read to their end, and requests that failed."""

    completed: int = 0
    failed: int = 0


class LoadGenerator:
    """Clients that send the requests of a trace, over and over.

    Parameters
    ----------
    trace
        Prompt and output tokens; its arrival times are not used.
    url
        Base address of the proxy.
    model
        Name of the model.
    clients
        Requests on their way at once, >= 1.

    Attributes
    ----------
    counts
        What the clients saw.
    """

    def __init__(self, trace: Trace, *, url: str, model: str, clients: int) -> None:
        self.counts = LoadCounts()
        self._url = f"{url}/v1/completions"
        self._model = model
        self._clients = clients
        self._requests = _cycle(trace)

    async def run(self) -> None:
        """Send until cancelled; streams that run are closed then."""
        connector, timeout = TCPConnector(limit=0), ClientTimeout(total=None)
        async with (
            ClientSession(connector=connector, timeout=timeout) as http,
            asyncio.TaskGroup() as clients,
        ):
            for _ in range(self._clients):
                clients.create_task(self._send_all(http))

    async def _send_all(self, http: ClientSession) -> None:
        while True:
            prompt_tokens, output_tokens = next(self._requests)
            if await self._send(http, prompt_tokens, output_tokens):
                self.counts.completed += 1
            else:
                self.counts.failed += 1
                await asyncio.sleep(PAUSE_S)

    async def _send(self, http: ClientSession, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a stream was read to its end."""
        body = {
            "model": self._model,
            "prompt": f"request of {prompt_tokens} tokens",
            "max_tokens": output_tokens,
            "ignore_eos": True,
            "stream": True,
            "vllm_xargs": {"emulator_prompt_tokens": prompt_tokens},
        }
        last = b""
        try:
            async with http.post(self._url, json=body) as answer:
                async for data in answer.content.iter_any():
                    last = (last + data)[-len(_DONE) :]
        except (ClientError, TimeoutError):
            return False
        return answer.status == 200 and last == _DONE


_DONE = b"data: [DONE]\n\n"


def _cycle(trace: Trace) -> Iterator[tuple[int, int]]:
    rows = list(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    return itertools.cycle(rows)
