"""Whether a node owns the global data-parallel rank a replica is configured with.

One token is asked for under the rank. A node that owns other ranks answers 400; one that ignores
the header would answer requests on ranks where they are not counted. vLLM 0.32 counts all ranks
with internal load balancing and, with hybrid, those of the node from 0.
"""

import json
from collections.abc import Mapping

from brtheory.proxy.fleet import Worker
from brtheory.proxy.headers import RANK
from brtheory.proxy.openai import Endpoint
from brtheory.proxy.upstream import Reply, Upstream
from brtheory.proxy.wire import BrokenError, UnreachableError

TIMEOUT_S = 30.0
NOBODYS_RANK = 1_000_003
"""A rank no deployment has: who accepts it ignores the header."""


async def rank_fault(
    upstream: Upstream, worker: Worker, *, headers: Mapping[str, str]
) -> str | None:
    """Why the rank cannot be used, None where it can.

    Parameters
    ----------
    upstream
        Client.
    worker
        A decode replica with a rank.
    headers
        Authorisation.
    """
    try:
        model = await first_model(upstream, worker.url, headers=headers)
        asked = worker.header_rank
        reply = await one_token(upstream, worker.url, model, rank=asked, headers=headers)
        if reply.status != 200:
            hint = _hint(worker, reply.status)
            return f"{worker.url} answers {reply.status} for rank {asked}{hint}"
        nobody = await one_token(upstream, worker.url, model, rank=NOBODYS_RANK, headers=headers)
    except (UnreachableError, BrokenError) as error:
        return f"{worker.url}: {error}"
    if nobody.status == 200:
        return f"{worker.url} ignores the header {RANK}"
    return None


def _hint(worker: Worker, status: int) -> str:
    if status != 400 or not worker.rank or worker.first_rank:
        return ""
    return "; if it counts its own ranks from 0, set first_rank to the first of them"


async def first_model(upstream: Upstream, url: str, *, headers: Mapping[str, str]) -> str | None:
    """The first model a node serves, None where it does not say."""
    reply = await upstream.get(f"{url}/v1/models", timeout_s=TIMEOUT_S, headers=headers)
    try:
        return str(json.loads(reply.body)["data"][0]["id"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


async def one_token(
    upstream: Upstream,
    url: str,
    model: str | None,
    *,
    rank: int | None,
    headers: Mapping[str, str],
) -> Reply:
    """Ask for one token, under a rank or none."""
    body = {"prompt": "x", "max_tokens": 1, **({} if model is None else {"model": model})}
    ranked = {} if rank is None else {RANK: str(rank)}
    return await upstream.post(
        url + Endpoint.COMPLETIONS.value,
        json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers, **ranked},
        timeout_s=TIMEOUT_S,
    )
