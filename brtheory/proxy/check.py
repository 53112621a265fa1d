"""``--check``: ask every worker what the configuration says of it, and say what is wrong."""

import json
from dataclasses import dataclass

from brtheory.errors import InputError
from brtheory.proxy.connectors import MissingKvError, Source, read_bootstrap
from brtheory.proxy.fleet import Worker
from brtheory.proxy.openai import Endpoint, prefill_body, read_request
from brtheory.proxy.proxy import build_desk
from brtheory.proxy.ranks import first_model, rank_fault
from brtheory.proxy.settings import Settings
from brtheory.proxy.upstream import Upstream
from brtheory.proxy.wire import BrokenError, UnreachableError


@dataclass(frozen=True)
class Finding:
    """What was found of one worker.

    Parameters
    ----------
    worker, role, url
        Which.
    fault
        What is wrong, None where nothing is.
    model
        The model it serves, None where it does not say.
    """

    worker: str
    role: str
    url: str
    fault: str | None
    model: str | None = None


async def check_workers(settings: Settings) -> list[Finding]:
    """Probe all workers of a configuration, one after the other; nothing is raised for them."""
    desk = build_desk(settings, lambda: 0.0)
    upstream = Upstream(settings.upstream)
    checker = _Checker(settings, upstream)
    try:
        findings = [await checker.look_at(w) for w in desk.fleet.workers.values()]
    finally:
        await upstream.close()
    models = {finding.model for finding in findings if finding.model is not None}
    if len(models) > 1:
        names = ", ".join(sorted(models))
        findings.append(Finding("all", "fleet", "", f"workers serve different models: {names}"))
    return findings


class _Checker:
    def __init__(self, settings: Settings, upstream: Upstream) -> None:
        self._settings = settings
        self._upstream = upstream
        self._connector = build_desk(settings, lambda: 0.0).connector
        key = settings.upstream.api_key
        self._headers = {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}

    async def look_at(self, worker: Worker) -> Finding:
        model = None
        try:
            fault = await self._health(worker)
            if fault is None:
                model = await first_model(self._upstream, worker.url, headers=self._headers)
                fault = await self._generation(worker, model)
        except (UnreachableError, BrokenError) as error:
            fault = str(error)
        return Finding(worker.name, worker.role, worker.url, fault, model)

    async def _health(self, worker: Worker) -> str | None:
        upstream = self._settings.upstream
        reply = await self._upstream.get(
            worker.url + upstream.health_path,
            timeout_s=upstream.health_timeout_s,
            headers=self._headers,
        )
        return None if reply.status == 200 else f"{upstream.health_path} answered {reply.status}"

    async def _generation(self, worker: Worker, model: str | None) -> str | None:
        if worker.role == "prefill":
            return await self._prefill(worker, model)
        if worker.rank is not None:
            return await rank_fault(self._upstream, worker, headers=self._headers)
        return None

    async def _prefill(self, worker: Worker, model: str | None) -> str | None:
        source, headers = Source("xfer-check", worker.bootstrap_url), dict(self._headers)
        if self._connector.needs_bootstrap:
            reply = await self._upstream.get(
                f"{worker.bootstrap_url}/query", timeout_s=5.0, headers={}
            )
            try:
                engine = next(iter(read_bootstrap(reply.body).values()))
            except InputError as error:
                return str(error)
            source = Source("xfer-check", worker.bootstrap_url, engine)
        body = {"prompt": "x", "max_tokens": 1, **({} if model is None else {"model": model})}
        request = read_request(json.dumps(body).encode(), Endpoint.COMPLETIONS)
        reply = await self._upstream.post(
            worker.url + Endpoint.COMPLETIONS.value,
            prefill_body(
                request,
                kv_params=self._connector.prefill_params(source),
                min_tokens=self._connector.min_tokens,
            ),
            headers={"Content-Type": "application/json", **headers},
            timeout_s=30.0,
        )
        if reply.status != 200:
            return f"a one-token prefill answered {reply.status}"
        try:
            self._connector.decode_params(json.loads(reply.body).get("kv_transfer_params"), source)
        except (ValueError, AttributeError, RecursionError):
            return "a one-token prefill answered no JSON object"
        except MissingKvError:
            return f"prefill returns no KV parameters for connector {self._connector.name}"
        return None
