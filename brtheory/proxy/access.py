"""Who may connect: API keys compared in constant time, and no pages of other sites."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from brtheory.proxy.faults import RequestError

SCHEME = "bearer "
_PORT = re.compile(r"(?<=[^:]):\d*$|(?<=\]):\d*$")


class Keys:
    """A set of accepted keys; empty accepts everyone.

    Parameters
    ----------
    keys
        In clear; kept as digests, so that comparing takes the same time whatever is given.
    """

    def __init__(self, keys: Sequence[SecretStr]) -> None:
        self._digests = [_digest(key.get_secret_value()) for key in keys]

    def check(self, authorization: str | None) -> None:
        """Accept a request with this ``Authorization`` header.

        Raises
        ------
        RequestError
            401 if there are keys and it holds none of them.
        """
        if not self._digests:
            return
        given = authorization or ""
        token = given[len(SCHEME) :] if given[: len(SCHEME)].lower() == SCHEME else ""
        digest = _digest(token.strip())
        # No early exit: every key is compared.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise RequestError(401, "a valid API key is required", code="invalid_api_key")


def refuse_foreign_pages(headers: Mapping[str, str], *, keyless: bool) -> None:
    """Refuse what a browser sends on behalf of a page from elsewhere.

    Such a page can reach an address of the browser's own machine, and by a name of its own that
    leads there (DNS rebinding) even read the answers, so without a key the name must be local.

    Parameters
    ----------
    headers
        Of the request.
    keyless
        Whether no key is asked for.

    Raises
    ------
    RequestError
        403 if the request is of that kind.
    """
    host = headers.get("Host")
    if keyless and host is not None and not _is_local(host):
        raise RequestError(403, "without a key, only local names are served", code="foreign_host")
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    # Behind a TLS terminator the two names may differ, so the browser's own verdict goes first.
    if site is None:
        foreign = origin is not None and origin.partition("://")[2] != host
    else:
        foreign = site not in {"same-origin", "none"}
    if foreign:
        raise RequestError(403, "pages of other sites are refused", code="foreign_page")


def _is_local(host: str) -> bool:
    """Whether a ``Host`` header, with or without a port, names this machine."""
    name = _PORT.sub("", host).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
