"""One server: connections of the redis client to it, and the handshake."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as ClientConnectionError

from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.url_plan import CONNECTION_CLASSES, ServerPlan
from chasqui_engine._redis.client.urls import HostPort

_Connection = TypeVar("_Connection")
Credentials = tuple[str | None, str | None]
FetchCredentials = Callable[[str | None], Credentials | Awaitable[Credentials]]
"""Called with "host:port" before every handshake; returns (user, password); may be async."""

_DISCOVERY = "chasqui-discovery"


class Server:
    """One server, by TCP, TLS or unix socket."""

    def __init__(self, plan: ServerPlan, fetch: FetchCredentials | None = None) -> None:
        self._options = plan.options
        self._connection_class = CONNECTION_CLASSES[plan.scheme]
        self._timeout_s: float = self._options["socket_connect_timeout"]
        self._fetch = fetch
        self.address = plan.address
        self.database = plan.database

    async def open(self, client_name: str) -> AbstractConnection:
        if "path" in self._options:
            return await self._open(client_name, self.address)
        return await self.open_at(client_name, HostPort(self._options["host"], self._options["port"]))

    def on_open(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Nothing to do."""

    async def open_at(self, client_name: str, place: HostPort) -> AbstractConnection:
        """A connection to the same kind of server at another address."""
        return await self._open(client_name, f"{place.host}:{place.port}", host=place.host, port=place.port)

    async def ask(self, place: HostPort, *command: str) -> Any:
        """The reply to one command, on a connection of its own."""
        connection = await self.open_at(_DISCOVERY, place)
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.send_command(*command)
                return await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Holds nothing."""

    async def _open(self, client_name: str, address: str, **place: Any) -> AbstractConnection:
        options = {**self._options, **place, "client_name": client_name}
        if self._fetch is not None:
            options["username"], options["password"] = await _credentials(self._fetch, address)
        connection = without_introduction(self._connection_class(**options))
        try:
            # The client limits the time to connect, but not to answer.
            async with asyncio.timeout(2 * self._timeout_s):
                await connection.connect()
        except TimeoutError as err:
            await connection.disconnect(nowait=True)
            raise ClientConnectionError(f"no answer from {address} within {2 * self._timeout_s:g} s") from err
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


def without_introduction(connection: _Connection) -> _Connection:
    """The same connection, not yet open, without the redis client's own `CLIENT SETINFO`.

    The redis client sends it to every server, even to those that refuse it. We send it once we know the server.
    """
    for name in ("lib_name", "lib_version", "driver_info"):  # as the client's versions have them
        if hasattr(connection, name):
            setattr(connection, name, None)
    return connection


async def _credentials(fetch: FetchCredentials, address: str) -> Credentials:
    try:
        found = fetch(address)
        user, password = await found if inspect.isawaitable(found) else found
    except Exception as err:  # the provider may work at the next try, like a server
        raise ClientConnectionError(f"credential_provider failed with {type(err).__name__}") from err
    return user, password
