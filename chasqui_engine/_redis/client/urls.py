"""Parses Redis URLs. No error message shows a part of one: it may hold a password."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from chasqui_engine._redis.client.url_spellings import respell
from chasqui_engine.values.config import DEFAULT_URL, URL_VARIABLE
from chasqui_engine.values.errors import ConfigError

SCHEMES = (
    "redis:// rediss:// unix:// embedded:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster://"
    " (or valkey, and - for +)"
)
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+]|[^\s:\[\]]*)(?::(?P<port>\d{1,5}))?")
_HIGHEST_PORT = 65535
ENCODE_HINT = "write / ? # @ : & in a user name or password as %2F %3F %23 %40 %3A %26"


class HostPort(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class UrlParts(NamedTuple):
    """A URL taken apart; it may name several hosts."""

    scheme: str
    """Without `+sentinel` or `+cluster`."""
    login: str
    """User and password as written in the URL, with the `@`; empty when there are none."""
    places: tuple[HostPort, ...]
    path: str
    """Without the slashes around it."""
    query: str

    def __repr__(self) -> str:
        # Tracebacks with variables show the repr, and a query may hold a password too.
        return f"UrlParts({self.scheme}, {', '.join(map(str, self.places))})"

    def at(self, place: HostPort, path: str = "", query: str = "") -> str:
        """The URL of one server with the same login."""
        host = f"[{place.host}]" if ":" in place.host else place.host
        return f"{self.scheme}://{self.login}{host}:{place.port}/{path}?{query}"


def resolve_url(url: str | None) -> str:
    """The URL to use, in our spelling: the one given, else `CHASQUI_REDIS_URL`, else the local default."""
    if url is not None and not isinstance(url, str):
        raise ConfigError(f"redis_url must be a string, got {type(url).__name__}")
    return respell(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)


def apply_tls(url: str | None, tls: bool) -> str | None:
    """The same server over TLS, if requested; a URL without a scheme is host and port."""
    if not tls:
        return url
    url = resolve_url(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return f"rediss://{url}"
    kind, plus, suffix = scheme.lower().partition("+")
    if kind not in ("redis", "rediss"):
        raise ConfigError("tls=True works with a redis_url over a network, not with unix:// or embedded://")
    return f"rediss{plus}{suffix}://{rest}"


def scheme_of(url: str) -> str:
    """The scheme in lower case; empty when there is none."""
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator else ""


def split_url(url: str, default_port: int) -> UrlParts:
    """Takes a URL apart; `ConfigError` when it is malformed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError(f"redis_url is malformed; {ENCODE_HINT}") from None
    login, at, hosts = parts.netloc.rpartition("@")
    # Such a character in a password ends the host part of a URL early, and the rest looks like another host.
    stray = parts.scheme != "unix" and not at and "@" in parts.path + parts.query
    if parts.fragment or stray:
        raise ConfigError(f"redis_url has a # or @ in the wrong place; {ENCODE_HINT}")
    places = tuple(_host_port(host, default_port) for host in hosts.split(","))
    return UrlParts(parts.scheme.partition("+")[0], login + at, places, parts.path.strip("/"), parts.query)


def _host_port(text: str, default_port: int) -> HostPort:
    found = _HOST.fullmatch(text)
    port = int(found["port"] or default_port) if found else 0
    if not found or not 0 < port <= _HIGHEST_PORT:
        raise ConfigError(f"redis_url has a host or port that is malformed; {ENCODE_HINT}")
    return HostPort(found["name"].strip("[]") or "localhost", port)
