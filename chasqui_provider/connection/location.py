"""The location of a queue as lineage tools name it: the server's address without login, password or options."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+]|[^\s:\[\]@/]+)(?::(?P<port>\d{1,5}))?")
_DEFAULT_PORTS = {"redis": 6379, "redis+cluster": 6379, "redis+sentinel": 26379}
_LOCAL = ("unix", "embedded")


class ServerLocation(NamedTuple):
    """The address in a server's URL."""

    scheme: str
    """`redis`, with or without TLS, `redis+sentinel`, `redis+cluster`, `unix` or `embedded`."""
    hosts: str
    """Hosts with their ports, in order, with commas between; empty for a server on this machine."""
    path: str
    """The database's number if it is not 0; a Sentinel's service before it; a socket or a folder."""

    @property
    def namespace(self) -> str:
        """The namespace of the datasets that are the server's queues."""
        return f"{self.scheme}://{self.hosts}{self.path if not self.hosts or not self.path else '/' + self.path}"


def location_of(url: str) -> ServerLocation | None:
    """The location that a URL names; None for an unreadable URL, of which no part may be shown."""
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower().replace("rediss", "redis")
    before, _, query = rest.partition("?")
    if "@" in query and "@" not in before:  # a password with a ? in it
        return None
    address = before.rpartition("@")[2]
    if scheme in _LOCAL:
        return ServerLocation(scheme, "", unquote(address)) if address else None
    if scheme not in _DEFAULT_PORTS:
        return None
    hosts, _, path = address.partition("/")
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    named = sorted(f"{one['host']}:{one['port'] or _DEFAULT_PORTS[scheme]}" for one in found if one)
    if len(named) < len(found):
        return None
    service, _, database = path.strip("/").partition("/") if scheme == "redis+sentinel" else ("", "", path.strip("/"))
    if not database.isdecimal():
        database = ""
    return ServerLocation(scheme, ",".join(named), "/".join(part for part in (service, database.lstrip("0")) if part))
