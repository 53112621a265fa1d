"""The page as one document without outside resources, and the headers that keep it so.

Its style and scripts are files of their own here and go inline; the content security policy names
their digests, so nothing else runs, and lets nothing be loaded but the proxy's own events.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

STYLES = ("style.css",)
SCRIPTS = ("chart.js", "barrier.js", "router.js", "dashboard.js")


@dataclass(frozen=True)
class Page:
    """The page.

    Parameters
    ----------
    body
        HTML, UTF-8.
    headers
        To be sent with it.
    """

    body: bytes
    headers: dict[str, str]


@cache
def load_page() -> Page:
    """Put the page together from its files."""
    style = "".join(_read(name) for name in STYLES)
    script = "".join(_read(name) for name in SCRIPTS)
    html = _read("page.html").replace("/*style*/", style).replace("/*script*/", script)
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": _policy(style=style, script=script),
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Page(html.encode(), headers)


def _policy(*, style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (files("brtheory.proxy.dashboard") / name).read_text(encoding="utf-8")
