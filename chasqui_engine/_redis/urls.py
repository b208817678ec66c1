"""What a Redis URL says, before anybody connects."""

from __future__ import annotations

import os

from chasqui_engine.config import DEFAULT_URL, URL_VARIABLE


def resolve_url(url: str | None) -> str:
    """The URL to use: the one given, else `CHASQUI_REDIS_URL`, else the local default."""
    return url or os.environ.get(URL_VARIABLE) or DEFAULT_URL


def apply_tls(url: str | None, tls: bool) -> str | None:
    """The same server by TLS, if asked for; a URL that names no scheme is taken for host and port."""
    if not tls:
        return url
    url = resolve_url(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return f"rediss://{url}"
    return url if scheme.startswith("rediss") else f"{scheme.replace('redis', 'rediss', 1)}://{rest}"
