"""The plan of a URL before anything connects, shared by asynchronous and blocking connections."""

from __future__ import annotations

import os
import socket
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client.urls import ENCODE_HINT, HostPort, UrlParts, scheme_of, split_url
from chasqui_engine.values.errors import ConfigError

CONNECT_TIMEOUT_S = 5.0
"""For connecting, and again for the handshake; `socket_connect_timeout` in the URL overrides it."""

CONNECTION_CLASSES: dict[str, type[AbstractConnection]] = {
    "redis": Connection,
    "rediss": SSLConnection,
    "unix": UnixDomainSocketConnection,
}
_OF_THE_POOL = ("max_connections", "timeout")
"""Pool options that URLs may carry; they are ignored because there is no pool."""
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_ca_path")
# A peer that vanished silently is detected within these, not after the operating system's default of two hours.
_KEEPALIVE_S = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


class ServerPlan(NamedTuple):
    """One server."""

    scheme: str
    """`redis`, `rediss` or `unix`."""
    options: dict[str, Any]
    """For the connections of the redis client; `retry` is for asynchronous ones."""

    def __repr__(self) -> str:
        # Not in the repr, which tracebacks with variables show: the options hold a password.
        return f"ServerPlan({self.address})"

    @property
    def address(self) -> str:
        """For people."""
        return str(self.options.get("path") or f"{self.options['host']}:{self.options['port']}")

    @property
    def database(self) -> int:
        """Its number."""
        return int(self.options.get("db") or 0)


class SentinelPlan(NamedTuple):
    """A master that sentinels name."""

    master: ServerPlan
    """Its address is that of the first sentinel until they are asked."""
    sentinels: ServerPlan
    """How to reach them, at the first of their addresses."""
    places: tuple[HostPort, ...]
    service: str

    @property
    def address(self) -> str:
        """For people."""
        return f"sentinel {self.service} at {_list(self.places)}"


class ClusterPlan(NamedTuple):
    """A Cluster, by some of its nodes."""

    node: ServerPlan
    """How to reach any of them."""
    places: tuple[HostPort, ...]

    @property
    def address(self) -> str:
        """For people."""
        return f"cluster at {_list(self.places)}"


def plan_server(url: str, **fixed: Any) -> ServerPlan:
    """One server, by TCP, TLS or unix socket; raises `ConfigError`, which quotes nothing of the URL."""
    scheme = scheme_of(url)
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_TIMEOUT_S}
    parts = split_url(url, 6379)
    if scheme == "unix" and not parts.path:
        raise ConfigError("redis_url names no socket: unix:///path/to/server.sock")
    if scheme != "unix":
        place = _only_place(parts)
        options |= {"host": place.host, "port": place.port, **_keepalive()}
    try:
        options |= parse_url(scheme + url[len(scheme) :])
    except ValueError:
        raise ConfigError("redis_url has an option whose value is malformed") from None
    for option in ("connection_class", *_OF_THE_POOL):
        options.pop(option, None)
    for option in _FILES:
        if option in options and not os.path.exists(options[option]):
            raise ConfigError(f"redis_url: {option} names a file that does not exist: {options[option]}")
    if scheme == "rediss":
        options.setdefault("ssl_check_hostname", options.get("ssl_cert_reqs") != "none")
    options["protocol"] = 2  # replies of one shape from every server
    options["retry"] = Retry(NoBackoff(), 0)  # the link decides when to try again
    options |= fixed
    try:
        CONNECTION_CLASSES[scheme](**options)
    except (TypeError, ValueError, ClientError):
        # The client's error quotes the option, which may be the rest of a password with an & in it.
        raise ConfigError(f"redis_url has an option that the redis client does not accept; {ENCODE_HINT}") from None
    return ServerPlan(scheme, options)


def plan_sentinel(url: str) -> SentinelPlan:
    """The master behind sentinels; their addresses are followed by `/service/database`."""
    parts = split_url(url, 26379)
    service, _, db = parts.path.partition("/")
    if not service:
        raise ConfigError("redis_url for Sentinel needs the service name: redis+sentinel://host:port/service/db")
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {key: value for key, value in given if key.startswith("sentinel_")}
    query = urlencode([pair for pair in given if pair[0] not in own])
    master = plan_server(parts.at(parts.places[0], db, query))
    return SentinelPlan(master, _plan_sentinels(parts, query, own), parts.places, unquote(service))


def _plan_sentinels(parts: UrlParts, query: str, given: dict[str, str]) -> ServerPlan:
    """The sentinels are reached like the master, except for `sentinel_…` options."""
    tls = given.pop("sentinel_tls", "")
    scheme = {"": parts.scheme, "true": "rediss", "false": "redis"}.get(tls.lower())
    login = {key.removeprefix("sentinel_"): given.pop(key, None) for key in ("sentinel_username", "sentinel_password")}
    if given or scheme is None:
        raise ConfigError("redis_url takes sentinel_username, sentinel_password and sentinel_tls=true|false")
    wanted = ("ssl_", "socket_") if scheme == "rediss" else ("socket_",)
    options = urlencode([pair for pair in parse_qsl(query) if pair[0].startswith(wanted)])
    return plan_server(parts._replace(scheme=scheme, login="").at(parts.places[0], query=options), **login)


def plan_cluster(url: str) -> ClusterPlan:
    """A Cluster, which has one database."""
    parts = split_url(url, 6379)
    if parts.path not in ("", "0"):
        raise ConfigError("redis_url: a Cluster has no databases but 0")
    return ClusterPlan(plan_server(parts.at(parts.places[0], query=parts.query)), parts.places)


def _only_place(parts: UrlParts) -> HostPort:
    if len(parts.places) > 1:
        raise ConfigError("redis_url names several hosts: that is for redis+sentinel:// and redis+cluster://")
    if parts.path and not parts.path.isdecimal():
        raise ConfigError("redis_url: what follows host and port must be the number of a database")
    return parts.places[0]


def _keepalive() -> dict[str, Any]:
    known = {getattr(socket, name): value for name, value in _KEEPALIVE_S.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": known}


def _list(places: tuple[HostPort, ...]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in places)
