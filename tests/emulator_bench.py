"""A running emulator with a client, for integration tests; checks that nothing is left behind."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from brtheory.emulator.config import EmulatorConfig, PrefillSpeed
from brtheory.emulator.emulator import Emulator
from brtheory.simulation.workload import ClusterShape, StepTime

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PROMPT = "a prompt of more than sixteen bytes"
PROMPT_TOKENS = 9
USAGE = {"include_usage": True, "continuous_usage_stats": True}


@dataclass(frozen=True)
class Stream:
    """A stream as it was read: its documents, and whether it ended with [DONE]."""

    status: int
    headers: dict
    documents: list
    done: bool

    @property
    def text(self):
        return "".join(
            choice.get("text") or choice.get("delta", {}).get("content") or ""
            for document in self.documents
            for choice in document.get("choices", ())
        )


class Bench:
    def __init__(self, emulator, client):
        self.emulator = emulator
        self.client = client

    def url(self, server, path=""):
        return self.emulator.endpoints[server].url + path

    async def post(self, server, path=TEXT, headers=None, **body):
        """Status, headers and document (text if it is none) of an answer."""
        async with self.client.post(self.url(server, path), json=body, headers=headers) as answer:
            text = await answer.text()
            try:
                return answer.status, answer.headers, json.loads(text)
            except ValueError:
                return answer.status, answer.headers, text

    async def stream(self, server, path=TEXT, headers=None, **body):
        body.setdefault("stream", True)
        async with self.client.post(self.url(server, path), json=body, headers=headers) as answer:
            text = await answer.text()
        events = [
            event.removeprefix("data: ") for event in text.split("\n\n") if event.startswith("data")
        ]
        done = bool(events) and events[-1] == "[DONE]"
        documents = [json.loads(event) for event in events if event != "[DONE]"]
        return Stream(answer.status, dict(answer.headers), documents, done)

    async def prefill(self, server="prefill-0", headers=None, **body):
        """Prefill a prompt and return the whole document."""
        body = {"prompt": PROMPT, **body, "max_tokens": 1, "min_tokens": 1}
        body.setdefault("kv_transfer_params", {"do_remote_decode": True})
        status, _, document = await self.post(server, headers=headers, **body)
        assert status == 200, document
        return document

    async def truth(self, **query):
        async with self.client.get(self.url("admin", "/emulator/truth"), params=query) as answer:
            return await answer.json()

    async def get(self, server, path):
        async with self.client.get(self.url(server, path)) as answer:
            return answer.status, await answer.text()

    async def fault(self, kind, **rule):
        url = self.url("admin", "/emulator/faults")
        async with self.client.post(url, json={"kind": kind, **rule}) as answer:
            assert answer.status == 200, await answer.text()

    async def until(self, condition, timeout_s=5.0):
        """Wait until the truth fits."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not condition(truth := await self.truth(requests="1")):
            assert asyncio.get_running_loop().time() < deadline, truth
            await asyncio.sleep(0.005)
        return truth


def config(**changes):
    """A fast deployment: two ranks, one prefill server, steps of a millisecond."""
    given = {
        "shape": ClusterShape(2, 4, 10_000),
        "prefill": 1,
        "step_time": StepTime(a0=0.0, b0=0.001),
        "prefill_speed": PrefillSpeed(1e6, 0.0),
        "mean_output": 20.0,
        **changes,
    }
    if given.get("connector") == "none":
        given["prefill"] = 0
    return EmulatorConfig(**given)


@asynccontextmanager
async def running(**changes):
    """A bench; afterwards no request, no id and no connection is left."""
    async with Emulator(config(**changes)) as emulator, aiohttp.ClientSession() as client:
        yield Bench(emulator, client)
        await client.close()
        await _settled(emulator)
    assert all(not endpoint.alive for endpoint in emulator.endpoints.values())


def on_bench(scenario, **changes):
    """Run a scenario on a fresh emulator."""

    async def run():
        async with running(**changes) as bench:
            return await scenario(bench)

    return asyncio.run(run())


async def _settled(emulator):
    deployment = emulator.deployment
    for _ in range(400):
        group = deployment.decode.group
        left = [sum(group.active), sum(group.waiting), len(deployment.decode.ids)]
        left += [len(engine.ids) + engine.running for engine in deployment.prefill.values()]
        left += [len(deployment.decode.running), sum(group.loads)]
        if not any(left):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"left behind: {left}")
