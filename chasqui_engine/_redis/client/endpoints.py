"""Where a URL leads: one server, a Sentinel's master, a Cluster's owner of a slot, or an embedded server.

An endpoint opens connections with the redis client, which handles TLS and AUTH; `link.py` takes them over
from there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from redis.asyncio.connection import AbstractConnection

from chasqui_engine._redis.client.discovery import ClusterSlot, SentinelMaster
from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.server import FetchCredentials, Server
from chasqui_engine._redis.client.url_plan import plan_server
from chasqui_engine._redis.client.urls import SCHEMES, resolve_url, scheme_of
from chasqui_engine.runtime.posix import need_posix
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from chasqui_engine._redis.embedded.server import EmbeddedServer

__all__ = ["Endpoint", "FetchCredentials", "endpoint_for"]


class Endpoint(Protocol):
    """Opens connections to the server that currently holds the queue."""

    address: str
    """The address for people, without a password."""
    database: int
    """Its number."""

    async def open(self, client_name: str) -> AbstractConnection:
        """A connection that has shaken hands."""

    def on_open(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Watches a new connection; the endpoint retires it when its server is about to be replaced."""

    async def close(self) -> None:
        """Releases the endpoint's resources."""


class _Embedded:
    """A private server on a unix socket, started by the first process that uses it."""

    def __init__(self, url: str) -> None:
        need_posix("embedded://")
        from chasqui_engine._redis.embedded import server

        self._address = server.parse_url(url)
        self._held: EmbeddedServer | None = None
        self._opening = asyncio.Lock()
        self.address = f"embedded server in {self._address.directory or 'a temporary folder'}"
        self.database = 0

    async def open(self, client_name: str) -> AbstractConnection:
        from chasqui_engine._redis.embedded import server

        async with self._opening:
            # Claimed at every connect, which restarts a server that has died.
            before = self._held
            self._held = await server.acquire(self._address.directory, appendfsync=self._address.appendfsync)
            if before is not None:
                before.release()
            return await Server(plan_server(f"unix://{quote(self._held.socket_path)}")).open(client_name)

    def on_open(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()


def endpoint_for(url: str | None, key: str, fetch: FetchCredentials | None = None) -> Endpoint:
    """The endpoint for commands on `key`."""
    url = resolve_url(url)
    scheme = scheme_of(url)
    if scheme == "embedded":
        return _Embedded(url)
    if scheme in ("redis", "rediss", "unix"):
        return Server(plan_server(url), fetch)
    if scheme in ("redis+sentinel", "rediss+sentinel"):
        return SentinelMaster(url, fetch)
    if scheme in ("redis+cluster", "rediss+cluster"):
        return ClusterSlot(url, fetch, key)
    raise ConfigError(f"redis_url must begin with one of {SCHEMES}")
