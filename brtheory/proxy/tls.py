"""Transport security: what the proxy shows its clients, and what it demands of the nodes."""

import ssl
from pathlib import Path

from brtheory.errors import InputError
from brtheory.proxy.settings import ServerSettings, UpstreamSettings


def server_context(server: ServerSettings) -> ssl.SSLContext | None:
    """The certificate clients see, None where they connect in clear.

    Raises
    ------
    InputError
        If certificate and key cannot be read or do not belong together.
    """
    if server.tls_cert is None or server.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load_pair(context, server.tls_cert, server.tls_key, field="server.tls_cert")
    return context


def upstream_context(upstream: UpstreamSettings) -> ssl.SSLContext | None:
    """Who is trusted as a node and how the proxy names itself, None for the system's defaults.

    Raises
    ------
    InputError
        If a file cannot be read or holds nothing of the kind.
    """
    if upstream.tls_ca is None and upstream.tls_cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=upstream.tls_ca)
    except OSError as error:
        raise InputError(
            "upstream.tls_ca", "PEM certificates of authorities", f"{upstream.tls_ca}: {error}"
        ) from error
    if upstream.tls_cert is not None and upstream.tls_key is not None:
        _load_pair(context, upstream.tls_cert, upstream.tls_key, field="upstream.tls_cert")
    return context


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path, *, field: str) -> None:
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:
        raise InputError(field, "a certificate and its key", error) from error
