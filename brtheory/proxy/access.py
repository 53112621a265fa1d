"""Who may connect: API keys compared in constant time."""

import hashlib
import hmac
from collections.abc import Sequence

from pydantic import SecretStr

from brtheory.proxy.faults import RequestError

SCHEME = "bearer "


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


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
