"""Headers of the upstream legs: request ids, authorisation, ranks; nothing else of a client's."""

import re
import uuid
from collections.abc import Mapping

REQUEST_ID = "X-Request-Id"
RANK = "X-data-parallel-rank"
FORWARDED = ("traceparent", "tracestate")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
LONGEST_PREFIX = 64


def make_request_id(given: str | None) -> str:
    """A unique id that begins with the client's, as far as that is safe to log and send.

    Engines crash on ids used twice, so the client's alone is never used.
    """
    unique = uuid.uuid4().hex
    prefix = _UNSAFE.sub("", given or "")[:LONGEST_PREFIX]
    return f"{prefix}-{unique}" if prefix else unique


def upstream_headers(
    client: Mapping[str, str], *, request_id: str, api_key: str | None, rank: int | None = None
) -> dict[str, str]:
    """Headers of one leg.

    Parameters
    ----------
    client
        The client's headers.
    request_id
        The same on both legs.
    api_key
        Replaces the client's authorisation where given.
    rank
        Global data-parallel rank, None where the address is the rank's own.
    """
    headers = {"Content-Type": "application/json", REQUEST_ID: request_id}
    authorization = f"Bearer {api_key}" if api_key is not None else client.get("Authorization")
    if authorization is not None:
        headers["Authorization"] = authorization
    if rank is not None:
        headers[RANK] = str(rank)
    for name in FORWARDED:
        if name in client:
            headers[name] = client[name]
    return headers
