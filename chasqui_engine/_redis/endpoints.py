"""Where a URL leads: one server, a Sentinel's master, a Cluster's owner of a slot, or an embedded server.

An endpoint opens connections with the redis client (TLS, AUTH, discovery are its business); `connection.py` takes
them over from there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.crc import key_slot
from redis.credentials import CredentialProvider

from chasqui_engine._redis import embedded
from chasqui_engine._redis.urls import resolve_url
from chasqui_engine.errors import ConfigError

Credentials = tuple[str | None, str | None]
FetchCredentials = Callable[[str | None], Credentials | Awaitable[Credentials]]
"""Asked for (user, password) before every handshake, with "host:port"; may be async."""

CONNECT_TIMEOUT_S = 5.0
_SCHEMES = (
    "redis:// rediss:// unix:// embedded:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster://"
)


class Endpoint(Protocol):
    """Opens connections to whoever holds the queue right now."""

    address: str
    """For people: never a password in it."""

    async def open(self, client_name: str) -> AbstractConnection:
        """A connection that has shaken hands."""

    async def close(self) -> None:
        """Gives back what the endpoint holds."""


class _Rotating(CredentialProvider):
    def __init__(self, fetch: FetchCredentials, address: str) -> None:
        self._fetch = fetch
        self._address = address

    async def get_credentials_async(self) -> tuple[str, str] | tuple[str]:
        found = self._fetch(self._address)
        user, password = await found if inspect.isawaitable(found) else found
        return (user, password or "") if user else (password or "",)


class _Server:
    """One server, by TCP, TLS or unix socket."""

    def __init__(self, url: str, fetch: FetchCredentials | None, **overrides: Any) -> None:
        try:
            pool = ConnectionPool.from_url(url)
        except (ValueError, TypeError) as err:
            raise ConfigError(f"redis_url is not one that can be read: {err}") from err
        self._connection_class = pool.connection_class
        self._options: dict[str, Any] = {**_defaults(url), **pool.connection_kwargs, **overrides}
        self._fetch = fetch
        self.address = self._options.get("path") or f"{self._options['host']}:{self._options.get('port', 6379)}"

    async def open(self, client_name: str) -> AbstractConnection:
        return await self.open_at(client_name)

    async def open_at(self, client_name: str, **place: Any) -> AbstractConnection:
        """A connection to the same kind of server at another host and port."""
        options = {**self._options, **place, "client_name": client_name}
        if self._fetch is not None:
            address = f"{options['host']}:{options['port']}" if "host" in options else self.address
            options |= {"credential_provider": _Rotating(self._fetch, address), "username": None, "password": None}
        connection = self._connection_class(**options)
        await connection.connect()
        return connection

    async def close(self) -> None:
        """Holds nothing."""


def _defaults(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,  # replies of one shape from every server
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),  # the link decides when to try again
    }
    if not url.startswith("unix"):
        options |= {"host": "localhost", "port": 6379, "socket_keepalive": True}
    if url.startswith("rediss"):
        options["ssl_check_hostname"] = True
    return options


class _SentinelMaster:
    """The master that the sentinels name; asked again at every connect."""

    def __init__(self, url: str, fetch: FetchCredentials | None) -> None:
        scheme, login, hosts, path, query = _split(url, 26379)
        service, _, db = path.strip("/").partition("/")
        if not service:
            raise ConfigError("redis_url for Sentinel needs the service name: redis+sentinel://host:port/service/db")
        given = parse_qs(query)
        options = {
            key.removeprefix("sentinel_"): values[0] for key, values in given.items() if key.startswith("sentinel_")
        }
        rest = "&".join(part for part in query.split("&") if not part.startswith("sentinel_"))
        self._server = _Server(f"{scheme}://{login}{hosts[0][0]}:{hosts[0][1]}/{db}?{rest}", fetch)
        self._sentinel = Sentinel(
            hosts, sentinel_kwargs={"socket_timeout": CONNECT_TIMEOUT_S, "protocol": 2, **options}
        )
        self._service = unquote(service)
        self.address = f"sentinel {service} at " + ", ".join(f"{host}:{port}" for host, port in hosts)

    async def open(self, client_name: str) -> AbstractConnection:
        host, port = await self._sentinel.discover_master(self._service)
        return await self._server.open_at(client_name, host=host, port=port)

    async def close(self) -> None:
        for client in self._sentinel.sentinels:
            await client.aclose()


class _ClusterSlot:
    """The node of a Cluster that owns a key's slot; looked up again at every connect."""

    def __init__(self, url: str, fetch: FetchCredentials | None, key: str) -> None:
        scheme, login, hosts, _path, query = _split(url, 6379)
        self._server = _Server(f"{scheme}://{login}{hosts[0][0]}:{hosts[0][1]}?{query}", fetch)
        self._url = f"{scheme}://{login}{hosts[0][0]}:{hosts[0][1]}?{query}"
        self._hosts = hosts
        self._fetch = fetch
        self._slot = key_slot(key.encode())
        self.address = "cluster at " + ", ".join(f"{host}:{port}" for host, port in hosts)

    async def open(self, client_name: str) -> AbstractConnection:
        options: dict[str, Any] = {}
        if self._fetch is not None:
            options["credential_provider"] = _Rotating(self._fetch, self.address)
        nodes = [ClusterNode(host, port) for host, port in self._hosts]
        cluster = RedisCluster.from_url(self._url, startup_nodes=nodes, **options)
        try:
            await cluster.initialize()
            owner = cluster.nodes_manager.get_node_from_slot(self._slot)
            return await self._server.open_at(client_name, host=owner.host, port=owner.port)
        finally:
            await cluster.aclose()

    async def close(self) -> None:
        """Holds nothing."""


class _Embedded:
    """A private server on a unix socket, started by whoever comes first."""

    def __init__(self, url: str) -> None:
        self._address = embedded.parse_url(url)
        self._held: embedded.EmbeddedServer | None = None
        self._opening = asyncio.Lock()
        self.address = f"embedded server in {self._address.directory or 'a temporary folder'}"

    async def open(self, client_name: str) -> AbstractConnection:
        async with self._opening:
            # Claimed anew at every connect: that brings back a server that has died.
            before = self._held
            self._held = await embedded.acquire(self._address.directory, appendfsync=self._address.appendfsync)
            if before is not None:
                before.release()
            return await _Server(f"unix://{quote(self._held.socket_path)}", None).open(client_name)

    async def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()


def _split(url: str, default_port: int) -> tuple[str, str, list[tuple[str, int]], str, str]:
    """Scheme without its suffix, login with its @, hosts, path and query of a URL with several hosts."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    pairs = []
    for host in hosts.split(","):
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        if not (port.isdigit() or not port):
            raise ConfigError(f"redis_url has a port that is not a number: {port!r}")
        pairs.append((name or "localhost", int(port or default_port)))
    return parts.scheme.partition("+")[0], login + at, pairs, parts.path, parts.query


def endpoint_for(url: str | None, key: str, fetch: FetchCredentials | None = None) -> Endpoint:
    """Where the commands on `key` go."""
    url = resolve_url(url)
    scheme = url.partition("://")[0].lower()
    if scheme == "embedded":
        return _Embedded(url)
    if scheme in ("redis", "rediss", "unix"):
        return _Server(url, fetch)
    if scheme.endswith("+sentinel"):
        return _SentinelMaster(url, fetch)
    if scheme.endswith("+cluster"):
        return _ClusterSlot(url, fetch, key)
    raise ConfigError(f"redis_url must begin with one of {_SCHEMES}")
